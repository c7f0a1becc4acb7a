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

#include "filter.h"

static struct rlimit open_files;
static struct bounds bounds;

void spawn_open(const struct bounds *given)
{
    bounds = *given;
    getrlimit(RLIMIT_NOFILE, &open_files);
    struct rlimit raised = {open_files.rlim_max, open_files.rlim_max};
    setrlimit(RLIMIT_NOFILE, &raised);
}

/* At most so much, and never more than there was. */
static void bound(int resource, rlim_t most)
{
    struct rlimit limit;

    if (most == 0 || getrlimit(resource, &limit) < 0)
        return;
    if (most < limit.rlim_max)
        limit.rlim_max = most;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(resource, &limit);
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

/* A storm of processes that cannot grow without end is one that can be ended. The kernel counts them by user, and in a user
 * namespace of our own only those in it. */
static void bound_processes(void)
{
    if (bounds.pids > 0)
        bound(RLIMIT_NPROC, bounds.pids + (bounds.own_pids ? 0 : threads_now()));
}

static void bound_resources(bool processes)
{
    static const struct rlimit no_core; /* a crash must not fill the workspace with memory */

    setrlimit(RLIMIT_NOFILE, &open_files);
    setrlimit(RLIMIT_CORE, &no_core);
    bound(RLIMIT_NOFILE, bounds.open_files);
    bound(RLIMIT_FSIZE, bounds.file_size);
    bound(RLIMIT_AS, bounds.address_space);
    if (processes)
        bound_processes();
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

static _Noreturn void become(const struct launch *launch, struct failure *failure, bool bounded)
{
    if (launch->directory >= 0 && fchdir(launch->directory) < 0)
        fail(failure, STAGE_DIRECTORY);
    take_stdio(launch);
    reset_signals();
    bound_resources(bounded);
    if (!filter_load()) /* last: nothing of ours is to be refused */
        fail(failure, STAGE_RESOURCES);
    environ = launch->environment; /* execvp looks for the program on the command's own PATH */
    execvp(launch->argv[0], launch->argv);
    fail(failure, STAGE_PROGRAM);
}

struct child {
    const struct launch *launch;
    struct failure *failure;
    bool bounded; /* what a cgroup ends needs no bound, unless it is a limit of the sandbox */
};

static _Noreturn void run(void *argument)
{
    const struct child *child = argument;

    become(child->launch, child->failure, child->bounded);
}

/* Start `run` in a child that shares our memory until it becomes another program, as after vfork: copying even a small
 * process takes longer than all else here. The child stays on our stack, below everything that we still need, and never
 * comes back from `run`; so nothing of it is left to the compiler. */
#if defined(__SANITIZE_ADDRESS__)
#define SHARED 0 /* the sanitizer's notes about the stack would be shared too */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SHARED 0
#endif
#endif
#ifndef SHARED
#define SHARED CLONE_VM
#endif

/* What the child writes to before it becomes another program: so we learn what went wrong. */
static struct failure *failure_page(void)
{
#if SHARED
    static struct failure page;
    return &page;
#else
    static struct failure *page;
    static pid_t owner;

    if (page == NULL || owner != getpid()) {
        page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        owner = getpid();
    }
    return page == MAP_FAILED ? NULL : page;
#endif
}

static __attribute__((noinline)) long clone_and_run(struct clone_args *args, struct child *child)
{
#if SHARED == 0
    long result = syscall(SYS_clone3, args, sizeof *args);
    if (result == 0)
        run(child);
    return result < 0 ? -errno : result;
#elif defined(__x86_64__)
    long result;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "sub $256, %%rsp\n\t"
                     "and $-16, %%rsp\n\t"
                     "mov %[child], %%rdi\n\t"
                     "call *%[run]\n\t"
                     "ud2\n"
                     "1:"
                     : "=a"(result)
                     : "0"((long)SYS_clone3), "D"(args), "S"(sizeof *args), [run] "r"(run), [child] "r"(child)
                     : "rcx", "r11", "memory", "cc");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = SYS_clone3;
    register long x0 __asm__("x0") = (long)args;
    register long x1 __asm__("x1") = sizeof *args;
    __asm__ volatile("svc #0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x0, %[child]\n\t"
                     "blr %[run]\n\t"
                     "brk #0\n"
                     "1:"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), [run] "r"(run), [child] "r"(child)
                     : "x30", "memory", "cc");
    return x0;
#else
#error "write down how to call clone3 on this machine"
#endif
}

/* The same where there is no clone3. */
static __attribute__((noinline)) long vfork_and_run(struct child *child)
{
    pid_t pid = SHARED ? vfork() : fork();

    if (pid == 0)
        run(child);
    return pid < 0 ? -errno : pid;
}

pid_t spawn_process(const struct launch *launch, int cgroup, struct failure *failure)
{
    struct failure *page = failure_page();
    struct child child = {launch, page, cgroup < 0 || bounds.own_pids};
    /* CLONE_VFORK: we go on when the child has become the program, or has failed to. */
    struct clone_args args = {.flags = CLONE_VFORK | SHARED, .exit_signal = SIGCHLD};

    *failure = (struct failure){ENOMEM, STAGE_RESOURCES};
    if (page == NULL)
        return -1;
    *page = (struct failure){0, STAGE_NONE};
    if (cgroup >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)cgroup;
    }
    long pid = clone_and_run(&args, &child);
    if (pid == -ENOSYS && cgroup < 0)
        pid = vfork_and_run(&child);
    environ = NULL; /* the child has set it to what will be freed */
    if (pid < 0) {
        failure->error = (int)-pid;
        return -1;
    }
    *failure = *page;
    if (failure->stage == STAGE_NONE)
        return (pid_t)pid;
    waitpid((pid_t)pid, NULL, 0);
    return -1;
}
