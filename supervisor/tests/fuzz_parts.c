/* The supervisor's own sources, opened up where the fuzzer has to: state that a process has once is made new for every input, and
 * no root and no socket is anywhere but in the scratch directory, whatever path was asked for; nor is there a port but our own. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fuzz.h"

#if defined(PART_FILES)
static int open_in_scratch(const char *path, int flags)
{
    if (path[0] == '/')
        return openat(scratch, ".", flags);
    errno = ENOENT;
    return -1;
}
#define open open_in_scratch
#include "../files.c"

#elif defined(PART_INSIDE)
/* Three names for all paths: they are free, taken, or those of others often enough. */
static void name_in_scratch(char *name, size_t size, const char *path)
{
    unsigned sum = 0;

    for (; *path != '\0'; path++)
        sum = 31 * sum + (unsigned char)*path;
    snprintf(name, size, "/proc/self/fd/%d/socket-%u", scratch, sum % 3);
}

static int lstat_in_scratch(const char *path, struct stat *info)
{
    char name[64];

    name_in_scratch(name, sizeof name, path);
    return lstat(name, info);
}

static int unlink_in_scratch(const char *path)
{
    char name[64];

    name_in_scratch(name, sizeof name, path);
    return unlink(name);
}

static in_port_t last_port; /* that one of ours listens on, or did */

static int bind_in_scratch(int fd, const struct sockaddr *address, socklen_t size)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in v4 = {0};
    socklen_t room = sizeof v4;

    if (address->sa_family == AF_UNIX) {
        name_in_scratch(local.sun_path, sizeof local.sun_path, ((const struct sockaddr_un *)address)->sun_path);
        return bind(fd, (struct sockaddr *)&local, sizeof local);
    }
    if (address->sa_family == AF_INET6)
        return bind(fd, address, size);
    v4 = *(const struct sockaddr_in *)address;
    v4.sin_port = 0;
    int bound = bind(fd, (struct sockaddr *)&v4, sizeof v4);
    if (bound == 0 && getsockname(fd, (struct sockaddr *)&v4, &room) == 0)
        last_port = v4.sin_port;
    return bound;
}

static int connect_in_scratch(int fd, const struct sockaddr *address, socklen_t size)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in v4;

    if (address->sa_family == AF_UNIX) {
        name_in_scratch(local.sun_path, sizeof local.sun_path, ((const struct sockaddr_un *)address)->sun_path);
        return connect(fd, (struct sockaddr *)&local, sizeof local);
    }
    errno = ECONNREFUSED;
    if (address->sa_family == AF_INET6 || last_port == 0)
        return -1;
    v4 = *(const struct sockaddr_in *)address;
    v4.sin_port = last_port;
    return connect(fd, (struct sockaddr *)&v4, size);
}

#define bind bind_in_scratch
#define connect connect_in_scratch
#define lstat(path, info) lstat_in_scratch(path, info)
#define unlink unlink_in_scratch
#include "../inside.c"

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
    (void)supervisor_main;
}
#endif
