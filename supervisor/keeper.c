#include "keeper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
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
#define MOMENT_MS 2

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

static int children; /* tells of their ends */

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

static bool last_command; /* it was to be ended as a whole, and we end with it */

static void pass_signal_on(pid_t command)
{
    uint8_t number;
    ssize_t size = recv(CONTROL, &number, 1, MSG_DONTWAIT);

    if (size == 0)
        end_tree(command);
    last_command |= size == 1 && number == KILL_GROUP;
    if (size == 1 && number == KILL_GROUP)
        kill_group(command);
    else if (size == 1 && command > 0)
        kill(command, number);
}

/* Be woken by the next one only. */
static void forget_ends(void)
{
    struct signalfd_siginfo info[8];

    while (read(children, info, sizeof info) > 0)
        ;
}

/* Until nothing is left of the tree. */
static void keep(pid_t command)
{
    struct pollfd waits[2] = {{.fd = children, .events = POLLIN}, {.fd = CONTROL, .events = POLLIN}};

    while (reap(&command)) {
        if (poll(waits, 2, -1) < 0)
            continue;
        forget_ends();
        if (waits[1].revents)
            pass_signal_on(command);
    }
}

/* What the next command would inherit of us, and a command can change: it is the same user. */
struct inherited {
    struct rlimit limits[RLIM_NLIMITS];
    cpu_set_t processors;
    int priority, policy;
    long disk_priority;
};

static struct inherited at_first;

static void look(struct inherited *now)
{
    memset(now, 0, sizeof *now);
    for (int i = 0; i < RLIM_NLIMITS; i++)
        getrlimit(i, &now->limits[i]);
    sched_getaffinity(0, sizeof now->processors, &now->processors);
    now->priority = getpriority(PRIO_PROCESS, 0);
    now->policy = (int)syscall(SYS_sched_getscheduler, 0); /* musl has none that asks */
    now->disk_priority = syscall(SYS_ioprio_get, 1, 0);
}

static bool is_as_at_first(void)
{
    struct inherited now;

    look(&now);
    return memcmp(&now, &at_first, sizeof now) == 0;
}

/* Most commands have ended before this: then nobody was woken to hear that they began, and they were not interrupted by it. */
static void wait_a_moment(void)
{
    struct pollfd waits[2] = {{.fd = children, .events = POLLIN}, {.fd = CONTROL, .events = POLLIN}};

    poll(waits, 2, MOMENT_MS); /* errno is shared with the one that starts, and a call that does not fail leaves it alone */
}

/* With everything in its place. */
static void run(const struct launch *launch)
{
    struct report report = {.kind = REPORT_STARTED};
    pid_t command = spawn_process(launch, -1, &report.failure, launch->quiet ? wait_a_moment : NULL);

    report.pid = command;
    if (command < 0)
        report.kind = REPORT_FAILED;
    for (int i = 0; i < 3; i++)
        close(i);
    close(DIRECTORY);
    bool left = command > 0 && launch->quiet ? reap(&command) : true;
    if (command != 0)
        send_report(CONTROL, &report);
    if (command < 0)
        _exit(0);
    if (left)
        keep(command);
    sched_yield(); /* the supervisor comes first: somebody waits to hear of the end */
    if (last_command || !is_as_at_first())
        _exit(0);
    send_report(CONTROL, &(struct report){.kind = REPORT_IDLE});
}

/* A keeper is forked ahead of time, and waits for its order: forking takes longer than sending one. When nothing is left of its
 * command it waits for another, so that there is mostly nothing to fork. */

#define MAX_ORDER (64u << 10)
#define ORDER_FDS 4
#define MOST_SPARES 2 /* each counts against the limit of processes, with the one that waits in it */
#define PAGE 4096 /* what most orders fit into */

struct order {
    uint32_t argc, envc;
    uint8_t terminal, quiet;
    char texts[MAX_ORDER];
};

static struct {
    pid_t pid;
    int control;
} spares[MOST_SPARES];

static size_t spare_count;
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

static bool fits(const struct launch *launch)
{
    size_t size = 0;

    for (char *const *text = launch->argv; *text != NULL; text++)
        size += strlen(*text) + 1;
    for (char *const *text = launch->environment; *text != NULL; text++)
        size += strlen(*text) + 1;
    return size <= MAX_ORDER;
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
    order.quiet = launch->quiet;
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

/* Receive an order, and have its descriptors in their places. A signal is for a command that has ended. */
static void take_order(void)
{
    static const int places[ORDER_FDS] = {0, 1, 2, DIRECTORY};
    char room[CMSG_SPACE(ORDER_FDS * sizeof(int))];
    int fds[ORDER_FDS];
    struct iovec part = {&order, sizeof order};
    struct msghdr message;
    ssize_t size;

    do {
        message = (struct msghdr){.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
        size = recvmsg(CONTROL, &message, 0);
    } while (size == 1 && *(uint8_t *)&order != KILL_GROUP);
    if (size <= 1) /* the supervisor is gone, or has no use for us */
        _exit(0);
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    if (c == NULL || c->cmsg_len != CMSG_LEN(sizeof fds)) { /* a command has bounded what we may have open */
        send_report(CONTROL, &(struct report){.kind = REPORT_FAILED, .failure = {EMFILE, STAGE_RESOURCES}});
        _exit(0);
    }
    memcpy(fds, CMSG_DATA(c), sizeof fds);
    if (memcmp(fds, places, sizeof fds) != 0) /* which the kernel does not do: it gives the lowest that are free */
        _exit(1);
    fcntl(DIRECTORY, F_SETFD, FD_CLOEXEC);
}

static _Noreturn void serve(void)
{
    for (;;) {
        forget_ends();
        spawn_prepare(-1);
        spawn_share_filter();
        take_order();
        char *at = order.texts;
        char **argv = read_texts(order.argc, &at), **environment = read_texts(order.envc, &at);
        run(&(struct launch){argv, environment, DIRECTORY, {0, 1, 2}, order.terminal, order.quiet});
        free(argv);
        free(environment);
    }
}

static _Noreturn void run_now(struct launch launch, int control)
{
    if (!keep_only(&launch, control)) {
        struct report report = {.kind = REPORT_FAILED, .failure = {errno, STAGE_RESOURCES}};
        send_report(control, &report);
        _exit(0);
    }
    children = watch_children();
    last_command = !fits(&launch); /* a copy of it would stay in memory for as long as we do */
    look(&at_first);
    run(&launch);
    serve();
}

static _Noreturn void wait_for_order(int control)
{
    children = have_nothing_but(control);
    look(&at_first);
    memset(&order, 0, PAGE); /* memory is the supervisor's until it is written to, and copied then: better now than later */
    serve();
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
    if (spare_count == 0 || !send_order(spares[spare_count - 1].control, launch))
        return fork_keeper(launch, reports);
    spare_count--;
    *reports = spares[spare_count].control;
    return spares[spare_count].pid;
}

void keeper_prepare(void)
{
    int control;
    pid_t pid = spare_count > 0 ? -1 : fork_keeper(NULL, &control);

    if (pid > 0)
        keeper_give_back(pid, control);
}

bool keeper_give_back(pid_t pid, int reports)
{
    if (spare_count == MOST_SPARES)
        return false;
    spares[spare_count].pid = pid;
    spares[spare_count++].control = reports;
    return true;
}

bool keeper_is_spare(pid_t pid)
{
    for (size_t i = 0; i < spare_count; i++)
        if (spares[i].pid == pid)
            return true;
    return false;
}

void keeper_drop_spare(pid_t pid)
{
    for (size_t i = 0; i < spare_count; i++) {
        if (spares[i].pid != pid)
            continue;
        close(spares[i].control); /* which ends it */
        spares[i] = spares[--spare_count];
        return;
    }
}

void keeper_end_spares(void)
{
    while (spare_count > 0) { /* they have no children but what waits with them, and are ours: there is nothing to hunt for */
        pid_t pid = spares[spare_count - 1].pid;
        keeper_drop_spare(pid);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
}
