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

#if defined(PART_FILES)
#define open open_in_scratch
#include "../files.c"

#elif defined(PART_MAIN)
#define main supervisor_main
#include "../main.c"

bool supervisor_handle(struct channel *channel, const struct header *header, struct reader *payload, int *fds)
{
    return handle(channel, header, payload, fds);
}

void supervisor_reset(void)
{
    ending = false;
    (void)open_in_scratch;
    (void)supervisor_main;
}
#endif
