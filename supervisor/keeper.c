#include "keeper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "processes.h"

#define CONTROL 3
#define DIRECTORY 4
#define KEPT 5
#define HIGH 16

#define MOST_LISTED 65536

/* Close all from `first` to `last`. Not every kernel has a call for it: gVisor's had not for long. */
static void close_between(unsigned first, unsigned last)
{
    static int listed[MOST_LISTED];
    size_t count = 0;

    if (syscall(SYS_close_range, first, last, 0) == 0)
        return;
    DIR *directory = opendir("/proc/self/fd");
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL && count < MOST_LISTED;)
        if (entry->d_name[0] != '.')
            listed[count++] = atoi(entry->d_name);
    if (directory != NULL)
        closedir(directory);
    for (size_t i = 0; i < count; i++)
        if ((unsigned)listed[i] >= first && (unsigned)listed[i] <= last)
            close(listed[i]);
}

static int by_number(const void *one, const void *other)
{
    return *(const int *)one - *(const int *)other;
}

static void close_others(const int *kept)
{
    int sorted[KEPT];
    unsigned next = 0;

    memcpy(sorted, kept, sizeof sorted);
    qsort(sorted, KEPT, sizeof *sorted, by_number);
    for (int i = 0; i < KEPT; next = (unsigned)sorted[i++] + 1)
        if ((unsigned)sorted[i] > next)
            close_between(next, (unsigned)sorted[i] - 1);
    close_between(next, ~0u);
}

/* Of all that was inherited, keep what the command needs and the socket: other commands' pipes must not stay open here, and
 * the supervisor's own streams must not become the command's. */
static bool keep_only(struct launch *launch, int control)
{
    int kept[KEPT] = {launch->stdio[0], launch->stdio[1], launch->stdio[2], control, launch->directory};

    close_others(kept);
    for (int i = 0; i < KEPT; i++)
        if ((kept[i] = fcntl(kept[i], F_DUPFD, HIGH)) < 0)
            return false;
    for (int i = 0; i < KEPT; i++)
        dup2(kept[i], i);
    close_between(KEPT, ~0u);
    fcntl(CONTROL, F_SETFD, FD_CLOEXEC);
    fcntl(DIRECTORY, F_SETFD, FD_CLOEXEC);
    launch->directory = DIRECTORY;
    for (int i = 0; i < 3; i++)
        launch->stdio[i] = i;
    return true;
}

/* Orphans come to us from now on, and the end of children is told by what is returned: out of the way of the command's own. */
static int watch_children(void)
{
    sigset_t set;

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int told = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), high = fcntl(told, F_DUPFD_CLOEXEC, KEPT);
    close(told);
    return high;
}

static void send_report(int control, const struct report *report)
{
    send(control, report, sizeof *report, MSG_NOSIGNAL);
}

/* Reap what has ended. False when there is nothing left to wait for. */
static bool reap(pid_t *command)
{
    struct report report = {.kind = REPORT_ENDED};
    pid_t pid;

    while ((pid = wait4(-1, &report.status, WNOHANG, &report.usage)) > 0) {
        if (pid != *command)
            continue;
        report.pid = pid;
        *command = 0;
        send_report(CONTROL, &report);
    }
    return pid == 0;
}

/* All of the group at once. It is not reaped yet, so the number is still its own. */
static void kill_group(pid_t command)
{
    if (command > 0)
        kill(-command, SIGKILL);
}

static bool anything_left(void)
{
    pid_t pid;

    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        ;
    return pid == 0 || errno != ECHILD;
}

/* The supervisor is gone: end the tree ourselves. */
static _Noreturn void end_tree(pid_t command)
{
    struct hunt hunt = {0};
    const struct timespec pause = {0, 1000000};

    kill_group(command);
    while (anything_left()) {
        hunt_pass(&hunt, getpid(), NULL);
        if (hunt.powerless)
            break;
        nanosleep(&pause, NULL);
    }
    _exit(1);
}

static void pass_signal_on(pid_t command)
{
    uint8_t number;
    ssize_t size = recv(CONTROL, &number, 1, MSG_DONTWAIT);

    if (size == 0)
        end_tree(command);
    if (size == 1 && number == KILL_GROUP)
        kill_group(command);
    else if (size == 1 && command > 0)
        kill(command, number);
}

static _Noreturn void keep(pid_t command, int children)
{
    struct pollfd waits[2] = {{.fd = children, .events = POLLIN}, {.fd = CONTROL, .events = POLLIN}};
    struct signalfd_siginfo info[8];

    while (reap(&command)) {
        if (poll(waits, 2, -1) < 0)
            continue;
        while (read(children, info, sizeof info) > 0)
            ;
        if (waits[1].revents)
            pass_signal_on(command);
    }
    _exit(0);
}

/* With everything in its place. */
static _Noreturn void run(const struct launch *launch, int children)
{
    struct report report = {.kind = REPORT_STARTED};

    report.pid = spawn_process(launch, -1, &report.failure);
    if (report.pid < 0)
        report.kind = REPORT_FAILED;
    for (int i = 0; i < 3; i++)
        close(i);
    close(DIRECTORY);
    send_report(CONTROL, &report);
    if (report.pid < 0)
        _exit(0);
    keep(report.pid, children);
}

static _Noreturn void run_now(struct launch launch, int control)
{
    if (!keep_only(&launch, control)) {
        struct report report = {.kind = REPORT_FAILED, .failure = {errno, STAGE_RESOURCES}};
        send_report(control, &report);
        _exit(0);
    }
    run(&launch, watch_children());
}

/* A keeper is forked ahead of time, and waits for its order: forking takes longer than sending one. */

#define MAX_ORDER (64u << 10)
#define ORDER_FDS 4
#define PAGE 4096 /* what most orders fit into */

struct order {
    uint32_t argc, envc;
    uint8_t terminal;
    char texts[MAX_ORDER];
};

static struct {
    pid_t pid; /* 0: there is none */
    int control;
} spare;

static struct order order;

/* Append texts to the order; how many, or -1 if they do not fit. */
static int64_t write_texts(char *const *texts, size_t *used)
{
    int64_t count = 0;

    for (; texts[count] != NULL; count++) {
        size_t size = strlen(texts[count]) + 1;
        if (size > MAX_ORDER - *used)
            return -1;
        memcpy(order.texts + *used, texts[count], size);
        *used += size;
    }
    return count;
}

static char **read_texts(uint32_t count, char **at)
{
    char **texts = calloc((size_t)count + 1, sizeof *texts);

    if (texts == NULL)
        _exit(1);
    for (uint32_t i = 0; i < count; i++, *at += strlen(*at) + 1)
        texts[i] = *at;
    return texts;
}

static bool send_order(int control, const struct launch *launch)
{
    char room[CMSG_SPACE(ORDER_FDS * sizeof(int))] = {0};
    int fds[ORDER_FDS] = {launch->stdio[0], launch->stdio[1], launch->stdio[2], launch->directory};
    size_t used = 0;
    int64_t argc = write_texts(launch->argv, &used), envc = argc < 0 ? -1 : write_texts(launch->environment, &used);

    if (envc < 0)
        return false;
    order.argc = (uint32_t)argc;
    order.envc = (uint32_t)envc;
    order.terminal = launch->terminal;
    struct iovec part = {&order, offsetof(struct order, texts) + used};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(c), fds, sizeof fds);
    return sendmsg(control, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)part.iov_len;
}

/* Then what comes with the order is in its place at once. */
static int have_nothing_but(int control)
{
    if (control != CONTROL && dup2(control, CONTROL) < 0)
        _exit(1);
    close_between(0, CONTROL - 1);
    close_between(CONTROL + 1, ~0u);
    fcntl(CONTROL, F_SETFD, FD_CLOEXEC);
    return watch_children();
}

static _Noreturn void wait_for_order(int control)
{
    static const int places[ORDER_FDS] = {0, 1, 2, DIRECTORY};
    char room[CMSG_SPACE(ORDER_FDS * sizeof(int))];
    int fds[ORDER_FDS];
    struct iovec part = {&order, sizeof order};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};

    int children = have_nothing_but(control);
    spawn_prepare(-1);
    memset(&order, 0, PAGE); /* memory is the supervisor's until it is written to, and copied then: better now than later */
    ssize_t size = recvmsg(CONTROL, &message, 0);
    struct cmsghdr *c = size > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (c == NULL || c->cmsg_len != CMSG_LEN(sizeof fds)) /* the supervisor is gone, or has no use for us */
        _exit(0);
    memcpy(fds, CMSG_DATA(c), sizeof fds);
    if (memcmp(fds, places, sizeof fds) != 0) /* which the kernel does not do: it gives the lowest that are free */
        _exit(1);
    fcntl(DIRECTORY, F_SETFD, FD_CLOEXEC);
    char *at = order.texts;
    char **argv = read_texts(order.argc, &at), **environment = read_texts(order.envc, &at);
    run(&(struct launch){argv, environment, DIRECTORY, {0, 1, 2}, order.terminal}, children);
}

/* Fork one: with a command for it, or to wait for one. */
static pid_t fork_keeper(const struct launch *launch, int *control)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0)
        spawn_forget_ready(); /* that is the supervisor's */
    if (pid == 0 && launch != NULL)
        run_now(*launch, pair[1]);
    if (pid == 0)
        wait_for_order(pair[1]);
    int error = errno;
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        errno = error;
        return -1;
    }
    *control = pair[0];
    return pid;
}

pid_t keeper_start(const struct launch *launch, int *reports)
{
    if (spare.pid == 0 || !send_order(spare.control, launch))
        return fork_keeper(launch, reports);
    pid_t pid = spare.pid;
    *reports = spare.control;
    spare.pid = 0;
    return pid;
}

void keeper_prepare(void)
{
    if (spare.pid > 0)
        return;
    pid_t pid = fork_keeper(NULL, &spare.control);
    spare.pid = pid > 0 ? pid : 0;
}

bool keeper_is_spare(pid_t pid)
{
    return spare.pid > 0 && spare.pid == pid;
}

void keeper_drop_spare(void)
{
    if (spare.pid > 0)
        close(spare.control); /* which ends it */
    spare.pid = 0;
}

void keeper_end_spare(void)
{
    pid_t pid = spare.pid;

    keeper_drop_spare();
    if (pid > 0) { /* it has no children, and is ours: there is nothing to hunt for */
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
}
