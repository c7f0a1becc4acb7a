#include "filter.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_STEPS 4096 /* the kernel's own limit */

static struct sock_filter steps[MAX_STEPS + 1]; /* one more, to see that there are too many */
static struct sock_fprog program = {.filter = steps};

static _Noreturn void refuse(const char *why)
{
    fprintf(stderr, "paddock-init: a filter cannot be used: %s\n", why);
    exit(1);
}

static size_t read_steps(int fd)
{
    size_t size = 0;
    ssize_t got = 1;

    while (got != 0 && size < sizeof steps) {
        got = read(fd, (char *)steps + size, sizeof steps - size);
        if (got < 0 && errno != EINTR)
            refuse(strerror(errno));
        size += got > 0 ? (size_t)got : 0;
    }
    return size;
}

/* Whether the kernel takes it, tried by a child: better now than with the first command. */
static void try_it(void)
{
    int status = 0;
    pid_t pid = vfork();

    if (pid == 0)
        _exit(filter_load() ? 0 : errno);
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        refuse(strerror(errno));
    if (status != 0)
        refuse(WIFEXITED(status) ? strerror(WEXITSTATUS(status)) : "it does not even let a process end");
}

static void take(int fd)
{
    size_t size = read_steps(fd);

    close(fd);
    if (size == 0 || size % sizeof *steps != 0 || size > MAX_STEPS * sizeof *steps)
        refuse("it is not a program for the kernel, or too long");
    program.len = (unsigned short)(size / sizeof *steps);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) /* children inherit it, and may not load a filter without */
        refuse(strerror(errno));
}

void filter_confine(int fd)
{
    take(fd);
    if (!filter_load())
        refuse(strerror(errno));
    program.len = 0;
}

void filter_open(int fd)
{
    if (fd < 0)
        return;
    take(fd);
    try_it();
}

bool filter_load(void)
{
    return program.len == 0 || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

bool filter_exists(void)
{
    return program.len > 0;
}
