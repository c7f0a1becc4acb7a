#include "spawn.h"

#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "filter.h"

#define MOST_SIGNALS 1024

static struct rlimit open_files;
static struct bounds bounds;
static bool filtered; /* whether we have the filter of commands, and with it only the older call to make a process */

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
static rlim_t most_processes(bool bounded)
{
    if (!bounded || bounds.pids == 0)
        return 0;
    return bounds.pids + (bounds.own_pids ? 0 : threads_now());
}

static void bound_resources(rlim_t processes)
{
    static const struct rlimit no_core; /* a crash must not fill the workspace with memory */

    setrlimit(RLIMIT_NOFILE, &open_files);
    setrlimit(RLIMIT_CORE, &no_core);
    bound(RLIMIT_NOFILE, bounds.open_files);
    bound(RLIMIT_FSIZE, bounds.file_size);
    bound(RLIMIT_AS, bounds.address_space);
    bound(RLIMIT_NPROC, processes);
    if (bounds.own_pids) /* counted for our user outside as well: there has to be room for others */
        bound(RLIMIT_SIGPENDING, MOST_SIGNALS);
}

static void unblock_signals(void)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void take_stdio(const struct launch *launch)
{
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

/* From here on it is on its own, and may do and use no more than a command. `born_filtered`: with what made it. */
static void confine(struct failure *failure, rlim_t processes, bool born_filtered)
{
    setsid();
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    bound_resources(processes);
    if (!born_filtered && !filter_load())
        fail(failure, STAGE_RESOURCES);
}

/* As execvp does it: a script without a first line is one for the shell. */
static void run_by_shell(const char *script, const struct launch *launch)
{
    size_t words = 0;

    while (launch->argv[words] != NULL)
        words++;
    const char **argv = alloca((words + 2) * sizeof *argv); /* for which `stack_for` makes room */
    argv[0] = "/bin/sh";
    argv[1] = script;
    memcpy(argv + 2, launch->argv + 1, words * sizeof *argv); /* with the NULL at their end */
    execve(argv[0], (char **)(uintptr_t)argv, launch->environment);
}

static void try_program(const char *path, const struct launch *launch)
{
    execve(path, launch->argv, launch->environment);
    if (errno == ENOEXEC)
        run_by_shell(path, launch);
}

static const char *search_path(char *const *environment)
{
    for (; *environment != NULL; environment++)
        if (strncmp(*environment, "PATH=", 5) == 0)
            return *environment + 5;
    return "/bin:/usr/bin";
}

/* execvp on the command's own PATH. C libraries differ in it, and look at ours. */
static void execute(const struct launch *launch)
{
    const char *name = launch->argv[0], *at = search_path(launch->environment), *end;
    char path[PATH_MAX];
    bool denied = false;

    if (*name == '\0' || strchr(name, '/') != NULL) {
        try_program(name, launch);
        return;
    }
    do {
        end = strchrnul(at, ':');
        int size = snprintf(path, sizeof path, "%.*s%s%s", (int)(end - at), at, end > at ? "/" : "", name);
        if ((size_t)size < sizeof path)
            try_program(path, launch);
        else
            errno = ENOENT;
        if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
            return;
        denied |= errno == EACCES;
        at = end + 1;
    } while (*end != '\0');
    errno = denied ? EACCES : ENOENT;
}

static _Noreturn void become(const struct launch *launch, struct failure *failure)
{
    if (launch->directory >= 0 && fchdir(launch->directory) < 0)
        fail(failure, STAGE_DIRECTORY);
    take_stdio(launch);
    unblock_signals();
    execute(launch);
    fail(failure, STAGE_PROGRAM);
}

struct child {
    const struct launch *launch;
    struct failure *failure;
    rlim_t processes; /* at most; 0: what a cgroup ends needs no bound, unless it is a limit of the sandbox */
    bool filtered;
};

static _Noreturn void run(void *argument)
{
    const struct child *child = argument;

    confine(child->failure, child->processes, child->filtered);
    become(child->launch, child->failure);
}

typedef void (*run_fn)(void *argument); /* which never returns */

/* Start a function in a child that shares our memory until it becomes another program, as after vfork: copying even a small
 * process takes longer than all else here. The child stays on our stack, below everything that we still need, or is
 * given one; it never comes back from the function. So nothing of it is left to the compiler. */
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

static __attribute__((noinline)) long clone_and_run(struct clone_args *args, run_fn function, void *argument)
{
#if SHARED == 0
    long result = syscall(SYS_clone3, args, sizeof *args);
    if (result == 0)
        function(argument);
    return result < 0 ? -errno : result;
#elif defined(__x86_64__)
    long result;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "sub $256, %%rsp\n\t"
                     "and $-16, %%rsp\n\t"
                     "mov %[argument], %%rdi\n\t"
                     "call *%[function]\n\t"
                     "ud2\n"
                     "1:"
                     : "=a"(result)
                     : "0"((long)SYS_clone3), "D"(args), "S"(sizeof *args), [function] "r"(function),
                       [argument] "r"(argument)
                     : "rcx", "r11", "memory", "cc");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = SYS_clone3;
    register long x0 __asm__("x0") = (long)args;
    register long x1 __asm__("x1") = sizeof *args;
    __asm__ volatile("svc #0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x0, %[argument]\n\t"
                     "blr %[function]\n\t"
                     "brk #0\n"
                     "1:"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), [function] "r"(function), [argument] "r"(argument)
                     : "x30", "memory", "cc");
    return x0;
#else
#error "write down how to call clone3 on this machine"
#endif
}

/* The same with a stack of its own, by the older call: the one that is left to those with the filter of commands. It knows no cgroup. */
static __attribute__((noinline)) long older_clone_and_run(const struct clone_args *args, run_fn function)
{
    long flags = (long)(args->flags | args->exit_signal), top = (long)(args->stack + args->stack_size);
#if SHARED == 0
    (void)function;
    (void)flags;
    (void)top;
    return -ENOSYS;
#elif defined(__x86_64__)
    register long r10 __asm__("r10") = (long)args->child_tid;
    long result;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%edi, %%edi\n\t"
                     "call *%[function]\n\t"
                     "ud2\n"
                     "1:"
                     : "=a"(result)
                     : "0"((long)SYS_clone), "D"(flags), "S"(top), "d"((long)args->parent_tid), "r"(r10),
                       [function] "r"(function)
                     : "rcx", "r11", "memory", "cc");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = SYS_clone;
    register long x0 __asm__("x0") = flags;
    register long x1 __asm__("x1") = top;
    register long x2 __asm__("x2") = (long)args->parent_tid;
    register long x3 __asm__("x3") = 0;
    register long x4 __asm__("x4") = (long)args->child_tid;
    __asm__ volatile("svc #0\n\t"
                     "cbnz x0, 1f\n\t"
                     "blr %[function]\n\t"
                     "brk #0\n"
                     "1:"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), [function] "r"(function)
                     : "x30", "memory", "cc");
    return x0;
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

/* Where nobody can wait to be a command. We go on when the child has become the program, however long that takes. */
static pid_t start_and_wait(const struct launch *launch, int cgroup, struct failure *failure)
{
    struct failure *page = failure_page();
    struct child child = {launch, page, most_processes(cgroup < 0 || bounds.own_pids), filtered};
    struct clone_args args = {.flags = CLONE_VFORK | SHARED, .exit_signal = SIGCHLD};

    *failure = (struct failure){ENOMEM, STAGE_RESOURCES};
    if (page == NULL)
        return -1;
    *page = (struct failure){0, STAGE_NONE};
    if (cgroup >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)cgroup;
    }
    long pid = clone_and_run(&args, run, &child);
    if (pid == -ENOSYS && cgroup < 0)
        pid = vfork_and_run(&child);
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

/* Every command begins as a process that waits to be told what it is. The next one's is made ahead: what takes long is done
 * before anybody waits for it. It shares our memory and our descriptors until it is told to go on. Whoever runs in the sandbox can stop
 * or kill it, so our patience with it has an end. */

#define READY_STACK (64u << 10)
#define PATIENCE_MS 100
#define PATIENCES 20
#define MOST_TRIES 3

static struct {
    pid_t pid; /* 0: there is none */
    pid_t parent;
    int cgroup;
    _Atomic uint32_t thread; /* the kernel makes it 0 when the process has become another program, or has ended */
    _Atomic uint32_t go;
    _Atomic bool taken; /* it has seen that it is to go, so what becomes of it is what becomes of the command */
    rlim_t processes;
    bool filtered; /* when it was made: we may be since */
    const struct launch *launch;
    struct failure failure;
    uint8_t *stack;
    size_t stack_size;
} ready;

static bool hopeless = SHARED == 0;

/* Not by the C library: as long as our memory is shared, so is errno. What the kernel says. */
static long futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *patience)
{
#if defined(__x86_64__)
    register const void *r10 __asm__("r10") = patience;
    long result = SYS_futex;
    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(word), "S"((long)operation), "d"((long)value), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = SYS_futex;
    register long x0 __asm__("x0") = (long)word;
    register long x1 __asm__("x1") = operation, x2 __asm__("x2") = value, x3 __asm__("x3") = (long)patience;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
#endif
}

static _Noreturn void wait_and_become(void *argument)
{
    (void)argument;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* it has our descriptors: they must not outlive us in it */
    if (getppid() != ready.parent)    /* we have ended before that could be said */
        _exit(1);
    confine(&ready.failure, ready.processes, ready.filtered);
    while (ready.go == 0)
        futex(&ready.go, FUTEX_WAIT, 0, NULL);
    ready.taken = true;
    if (syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC) < 0)
        fail(&ready.failure, STAGE_RESOURCES);
    prctl(PR_SET_PDEATHSIG, 0);
    become(ready.launch, &ready.failure);
}

/* A stack with a page below it that nobody can touch. */
static bool make_stack(size_t size)
{
    if (ready.stack_size >= size)
        return true;
    uint8_t *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, 4096, PROT_NONE) < 0)
        return false;
    if (ready.stack != NULL)
        munmap(ready.stack, ready.stack_size);
    ready.stack = stack;
    ready.stack_size = size;
    return true;
}

/* 0, or an errno. */
static int prepare(int cgroup, size_t stack)
{
    if (!make_stack(stack))
        return ENOMEM;
    ready.go = 0;
    ready.taken = false;
    ready.parent = getpid();
    ready.cgroup = cgroup;
    ready.processes = most_processes(cgroup < 0 || bounds.own_pids); /* now: the process itself must open nothing */
    ready.filtered = filtered;
    ready.failure = (struct failure){0, STAGE_NONE};
    struct clone_args args = {
        .flags = CLONE_VM | CLONE_FILES | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID,
        .parent_tid = (uint64_t)(uintptr_t)&ready.thread,
        .child_tid = (uint64_t)(uintptr_t)&ready.thread,
        .exit_signal = SIGCHLD,
        .stack = (uint64_t)(uintptr_t)ready.stack,
        .stack_size = ready.stack_size,
    };
    if (cgroup >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)cgroup;
    }
    long pid = filtered ? older_clone_and_run(&args, wait_and_become) : clone_and_run(&args, wait_and_become, NULL);
    ready.pid = pid > 0 ? (pid_t)pid : 0;
    return pid > 0 ? 0 : (int)-pid;
}

void spawn_prepare(int cgroup)
{
    if (!hopeless && ready.pid == 0)
        hopeless = prepare(cgroup, READY_STACK) == ENOSYS;
}

void spawn_share_filter(void)
{
    if (!hopeless && !filtered && filter_exists())
        filtered = filter_load();
}

bool spawn_is_ready(pid_t pid)
{
    return ready.pid > 0 && ready.pid == pid;
}

void spawn_forget_ready(void)
{
    ready.pid = 0;
}

void spawn_end_ready(void)
{
    pid_t pid = ready.pid;

    ready.pid = 0;
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
}

/* The words of a script without a first line are copied to the stack. */
static size_t stack_for(const struct launch *launch)
{
    size_t words = 0;

    while (launch->argv[words] != NULL)
        words++;
    size_t size = READY_STACK + (words + 2) * sizeof *launch->argv;
    return words < READY_STACK / 64 ? READY_STACK : (size + 4095) & ~(size_t)4095;
}

/* Wait until it has become the program, or has ended. One that was stopped goes on, and one that still does not is ended. */
static bool wait_until_off(pid_t pid)
{
    const struct timespec patience = {0, PATIENCE_MS * 1000000};
    unsigned waits = 0;
    uint32_t thread;

    while ((thread = ready.thread) != 0)
        if (futex(&ready.thread, FUTEX_WAIT, thread, &patience) == -ETIMEDOUT)
            kill(pid, ++waits < PATIENCES ? SIGCONT : SIGKILL);
    return waits < PATIENCES;
}

/* Let the process that waits be this command. */
static pid_t start_ready(const struct launch *launch, struct failure *failure, void (*meanwhile)(void))
{
    pid_t pid = ready.pid;

    ready.launch = launch;
    kill(pid, SIGCONT); /* somebody may have stopped it meanwhile; it is our child and not reaped yet */
    ready.go = 1;
    futex(&ready.go, FUTEX_WAKE, 1, NULL);
    if (meanwhile != NULL)
        meanwhile();
    if (!wait_until_off(pid))
        ready.failure = (struct failure){ETIMEDOUT, STAGE_RESOURCES};
    else if (ready.failure.stage == STAGE_NONE && !ready.taken)
        ready.failure = (struct failure){EOWNERDEAD, STAGE_RESOURCES}; /* one who kills all that there is has killed it before */
    ready.pid = 0;
    *failure = ready.failure;
    if (failure->stage == STAGE_NONE)
        return pid;
    waitpid(pid, NULL, 0);
    return -1;
}

/* See to it that one waits, there and with so much stack. 0, or an errno. */
static int have_ready(int cgroup, size_t stack)
{
    if (ready.pid != 0 && ready.cgroup == cgroup && ready.stack_size >= stack && ready.thread != 0)
        return 0;
    spawn_end_ready();
    return prepare(cgroup, stack);
}

pid_t spawn_process(const struct launch *launch, int cgroup, struct failure *failure, void (*meanwhile)(void))
{
    size_t stack = stack_for(launch);

    for (int tries = 0; !hopeless; tries++) {
        int error = have_ready(cgroup, stack);
        hopeless = error == ENOSYS && cgroup < 0;
        if (hopeless)
            break;
        *failure = (struct failure){error, STAGE_RESOURCES};
        if (error != 0)
            return -1;
        pid_t pid = start_ready(launch, failure, meanwhile);
        if (pid >= 0 || failure->error != EOWNERDEAD || tries == MOST_TRIES)
            return pid;
    }
    return start_and_wait(launch, cgroup, failure);
}
