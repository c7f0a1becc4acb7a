/* The supervisor's own sources, opened up where the fuzzer has to: state that a process has once is made new for every input, and
 * no root is anywhere but in the scratch directory, whatever path was asked for. */
#include <errno.h>
#include <fcntl.h>

#include "fuzz.h"

static int open_in_scratch(const char *path, int flags)
{
    if (path[0] == '/')
        return openat(scratch, ".", flags);
    errno = ENOENT;
    return -1;
}

#if defined(PART_CHANNEL)
#include "../channel.c"

void channel_reset(void)
{
    if (in_fd >= 0)
        close(in_fd);
    if (out_fd >= 0)
        close(out_fd);
    close_all(in_fds, in_fd_count);
    free(out_buffer);
    out_buffer = NULL;
    in_fd = out_fd = -1;
    in_size = in_fd_count = out_start = out_size = out_room = 0;
    ended = false;
    (void)open_in_scratch;
}

#elif defined(PART_FILES)
#define open open_in_scratch
#include "../files.c"

#elif defined(PART_MAIN)
#define main supervisor_main
#include "../main.c"

bool supervisor_handle(const struct header *header, struct reader *payload, int *fds)
{
    return handle(header, payload, fds);
}

void supervisor_reset(void)
{
    ending = greeted = false;
    (void)open_in_scratch;
    (void)supervisor_main;
}
#endif
