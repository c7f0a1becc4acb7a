#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct rlimit open_files, no_core;
static unsigned most_pids;

void spawn_open(unsigned pids)
{
    most_pids = pids;
    getrlimit(RLIMIT_NOFILE, &open_files);
    getrlimit(RLIMIT_CORE, &no_core);
    no_core.rlim_cur = 0;
    struct rlimit raised = {open_files.rlim_max, open_files.rlim_max};
    setrlimit(RLIMIT_NOFILE, &raised);
}

/* A page that the child writes to before it becomes another program: the parent learns what went wrong. */
static struct failure *failure_page(void)
{
    static struct failure *page;
    static pid_t owner;

    if (page == NULL || owner != getpid()) {
        page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        owner = getpid();
    }
    return page == MAP_FAILED ? NULL : page;
}

/* How many threads there are on this host: an upper bound for those that already count against our user. */
static rlim_t threads_now(void)
{
    char text[128] = "";
    unsigned long total = 0;
    int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        ssize_t size = read(fd, text, sizeof text - 1);
        close(fd);
        if (size > 0)
            sscanf(text, "%*s %*s %*s %*u/%lu", &total);
    }
    return total;
}

/* A storm of processes that cannot grow without end is one that can be ended. The kernel counts them by user. */
static void bound_processes(void)
{
    struct rlimit limit;

    if (most_pids == 0 || getrlimit(RLIMIT_NPROC, &limit) < 0)
        return;
    rlim_t bound = threads_now() + most_pids;
    if (bound < limit.rlim_max)
        limit.rlim_cur = limit.rlim_max = bound;
    setrlimit(RLIMIT_NPROC, &limit);
}

static void reset_signals(void)
{
    sigset_t none;

    sigemptyset(&none);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void take_stdio(const struct launch *launch)
{
    setsid();
    for (int i = 0; i < 3; i++)
        if (launch->stdio[i] != i)
            dup2(launch->stdio[i], i);
    if (launch->terminal)
        ioctl(0, TIOCSCTTY, 0);
}

static _Noreturn void fail(struct failure *failure, enum stage stage)
{
    failure->error = errno;
    failure->stage = stage;
    _exit(127);
}

static _Noreturn void become(const struct launch *launch, struct failure *failure)
{
    if (launch->directory >= 0 && fchdir(launch->directory) < 0)
        fail(failure, STAGE_DIRECTORY);
    take_stdio(launch);
    reset_signals();
    setrlimit(RLIMIT_NOFILE, &open_files);
    setrlimit(RLIMIT_CORE, &no_core); /* a crash must not fill the workspace with memory */
    bound_processes();
    environ = launch->environment; /* execvp looks for the program on the command's own PATH */
    execvp(launch->argv[0], launch->argv);
    fail(failure, STAGE_PROGRAM);
}

pid_t spawn_process(const struct launch *launch, int cgroup, struct failure *failure)
{
    struct failure *page = failure_page();
    /* CLONE_VFORK: the parent goes on when the child has become the program, or has failed to. */
    struct clone_args args = {.flags = CLONE_VFORK, .exit_signal = SIGCHLD};

    *failure = (struct failure){ENOMEM, STAGE_RESOURCES};
    if (page == NULL)
        return -1;
    *page = (struct failure){0, STAGE_NONE};
    if (cgroup >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)cgroup;
    }
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        become(launch, page);
    if (pid < 0) {
        failure->error = errno;
        return -1;
    }
    *failure = *page;
    if (failure->stage == STAGE_NONE)
        return pid;
    waitpid(pid, NULL, 0);
    return -1;
}
