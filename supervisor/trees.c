#include "trees.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "keeper.h"

#define TICK_MS 2
#define MOST_SPARES 4
#define MOST_PIDS 64   /* that are looked at in one go */
#define DEEPEST 16     /* cgroups in cgroups */
#define STRAY_SCANS 3 /* empty ones in a row, until we believe that there are none */

static struct tree *trees;
static int parent_cgroup = -1, own_cgroup = -1;
static const char *own_name;
static uint32_t last_number;
static struct cgroup spares[MOST_SPARES];
static struct cgroup waiting = {-1, -1, 0}; /* where the process waits that will be the next command */
static bool unprepared = true;
static size_t spare_count;
static bool cgroups_work = true;
static unsigned stray_scans;
static struct hunt strays;

static void add(struct tree *tree)
{
    tree->next = trees;
    trees = tree;
}

static void forget(struct tree *tree)
{
    struct tree **at = &trees;

    while (*at != NULL && *at != tree)
        at = &(*at)->next;
    if (*at != NULL)
        *at = tree->next;
}

static void close_source(struct tree *tree)
{
    int fd = tree->source.fd;

    loop_remove(&tree->source);
    if (fd >= 0)
        close(fd);
}

/* With cgroups */

static int write_one(int directory, const char *name)
{
    int fd = openat(directory, name, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return -1;
    ssize_t size = write(fd, "1", 1);
    close(fd);
    return size == 1 ? 0 : -1;
}

static bool make_cgroup(struct cgroup *cgroup)
{
    char name[16];

    *cgroup = (struct cgroup){-1, -1, ++last_number};
    snprintf(name, sizeof name, "c%u", cgroup->number);
    if (mkdirat(own_cgroup, name, 0755) < 0)
        return false;
    cgroup->directory = openat(own_cgroup, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (cgroup->directory >= 0)
        cgroup->events = openat(cgroup->directory, "cgroup.events", O_RDONLY | O_CLOEXEC);
    return cgroup->events >= 0;
}

static ssize_t read_text(int directory, const char *name, char *text, size_t room)
{
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, text, room - 1);

    if (fd >= 0)
        close(fd);
    text[size > 0 ? size : 0] = '\0';
    return size;
}

/* Commands may have made cgroups in theirs. Those that are empty go with it. */
static bool remove_directory(int parent, const char *name, int depth)
{
    char text[128];

    if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return true;
    int fd = depth > 0 ? openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0)
        return false;
    DIR *directory = read_text(fd, "cgroup.events", text, sizeof text) > 0 && strstr(text, "populated 0") ? fdopendir(fd) : NULL;
    if (directory == NULL) {
        close(fd);
        return false;
    }
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
            remove_directory(fd, entry->d_name, depth - 1);
    closedir(directory);
    return unlinkat(parent, name, AT_REMOVEDIR) == 0;
}

static void remove_cgroup(struct cgroup *cgroup)
{
    char name[16];

    if (cgroup->number == 0)
        return;
    if (cgroup->events >= 0)
        close(cgroup->events);
    if (cgroup->directory >= 0)
        close(cgroup->directory);
    snprintf(name, sizeof name, "c%u", cgroup->number);
    remove_directory(own_cgroup, name, DEEPEST);
    *cgroup = (struct cgroup){-1, -1, 0};
}

static size_t read_pids(int cgroup, pid_t *pids)
{
    char text[MOST_PIDS * 8], *at = text, *end;
    size_t count = 0;

    read_text(cgroup, "cgroup.procs", text, sizeof text);
    for (long pid; count < MOST_PIDS && (pid = strtol(at, &end, 10)) > 0 && *end == '\n'; at = end)
        pids[count++] = (pid_t)pid;
    return count;
}

static bool is_among(pid_t pid, const pid_t *pids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (pids[i] == pid)
            return true;
    return false;
}

/* The kernel's own way passes over a process whose first thread has ended while others run on. */
static void kill_headless(int cgroup)
{
    pid_t before[MOST_PIDS], after[MOST_PIDS];
    int pidfds[MOST_PIDS];
    size_t count = read_pids(cgroup, before);

    for (size_t i = 0; i < count; i++)
        pidfds[i] = (int)syscall(SYS_pidfd_open, before[i], 0);
    size_t still = count > 0 ? read_pids(cgroup, after) : 0;
    for (size_t i = 0; i < count; i++) {
        if (pidfds[i] >= 0 && is_among(before[i], after, still)) /* so it is the one that was opened */
            syscall(SYS_pidfd_send_signal, pidfds[i], SIGKILL, NULL, 0);
        if (pidfds[i] >= 0)
            close(pidfds[i]);
    }
}

/* Reading is also what makes the kernel tell of the next change. */
static bool says(const struct cgroup *cgroup, const char *words)
{
    char text[128];
    ssize_t size = pread(cgroup->events, text, sizeof text - 1, 0);

    text[size > 0 ? size : 0] = '\0';
    return strstr(text, words) != NULL;
}

static bool is_populated(const struct cgroup *cgroup)
{
    return !says(cgroup, "populated 0");
}

/* A cgroup that is empty again serves the next command: making one takes longer than starting a program. */
static void take_cgroup(struct cgroup *cgroup)
{
    if (spare_count > 0)
        *cgroup = spares[--spare_count];
    else if (!make_cgroup(cgroup))
        remove_cgroup(cgroup);
}

static void take_next(struct cgroup *cgroup)
{
    if (waiting.number == 0)
        take_cgroup(&waiting);
    *cgroup = waiting;
    waiting = (struct cgroup){-1, -1, 0};
}

static void give_cgroup_back(struct cgroup *cgroup)
{
    /* A command of root's may have frozen its own: the next one would never start in there. */
    if (cgroup->number > 0 && spare_count < MOST_SPARES && says(cgroup, "frozen 0"))
        spares[spare_count++] = *cgroup;
    else
        remove_cgroup(cgroup);
    *cgroup = (struct cgroup){-1, -1, 0};
}

static void gone(struct tree *tree)
{
    if (tree->keeper > 0)
        close_source(tree);
    loop_remove(&tree->source);
    if (tree->killing) /* some kernels end at once whatever is started in a cgroup that was killed before */
        remove_cgroup(&tree->cgroup);
    else
        give_cgroup_back(&tree->cgroup);
    forget(tree);
    tree_gone(tree);
}

static void on_cgroup_event(struct source *source, uint32_t events)
{
    struct tree *tree = (struct tree *)source;

    (void)events;
    if (!is_populated(&tree->cgroup))
        gone(tree);
}

/* The command has ended: its cgroup is free, or will be when the last of its children has ended. */
static void release_cgroup(struct tree *tree)
{
    if (!is_populated(&tree->cgroup))
        gone(tree);
    else if (tree->source.fd < 0 && loop_add(&tree->source, tree->cgroup.events, EPOLLPRI, on_cgroup_event))
        on_cgroup_event(&tree->source, 0); /* it may just have changed */
}

static void start_with_keeper(struct tree *tree, const struct launch *launch);

/* Unless others in the sandbox have kept it from starting, which may go on for ever. */
static bool may_try_again(const struct failure *failure)
{
    return failure->stage == STAGE_RESOURCES && failure->error != ETIMEDOUT;
}

static void start_in_cgroup(struct tree *tree, const struct launch *launch)
{
    struct failure failure = {EAGAIN, STAGE_RESOURCES};
    pid_t pid = -1;

    /* One that was used before may refuse: a command of root's can change its own. */
    for (size_t tries = 0; pid < 0 && may_try_again(&failure) && tries <= MOST_SPARES; tries++) {
        remove_cgroup(&tree->cgroup);
        take_next(&tree->cgroup);
        if (tree->cgroup.directory >= 0)
            pid = spawn_process(launch, tree->cgroup.directory, &failure, NULL);
    }
    if (pid < 0 && failure.error == ENOSYS && failure.stage == STAGE_RESOURCES) {
        remove_cgroup(&tree->cgroup);
        cgroups_work = false; /* no clone3 here: somebody's filter, or an emulator */
        start_with_keeper(tree, launch);
        return;
    }
    if (pid < 0) {
        tree_failed(tree, &failure);
        gone(tree);
        return;
    }
    tree->pid = pid;
    tree_started(tree, pid);
}

/* With keepers */

/* Whether it was to be ended before it had begun, and we have killed what waited to be it: an end like any other. */
static bool ended_before(const struct tree *tree, const struct report *report)
{
    return report->kind == REPORT_FAILED && tree->killing && report->failure.error == EOWNERDEAD;
}

/* Take one report of the keeper's, and tell what it says; its kind, or 0 when there is none. */
static int take_report(struct tree *tree)
{
    struct report report;
    ssize_t size = tree->source.fd < 0 ? -1 : recv(tree->source.fd, &report, sizeof report, MSG_DONTWAIT);

    if (size == 0)
        close_source(tree); /* the keeper's end; what that means, its status tells */
    if (size != (ssize_t)sizeof report)
        return 0;
    if (report.kind == REPORT_IDLE)
        return REPORT_IDLE;
    if (tree->pid == 0 && report.pid > 0) /* of one that ended at once, its beginning is not told */
        tree_started(tree, report.pid);
    tree->pid = report.kind == REPORT_STARTED ? report.pid : 0;
    tree->ended = report.kind != REPORT_STARTED;
    if (report.kind == REPORT_ENDED)
        tree_ended(tree, report.status, &report.usage);
    else if (report.kind == REPORT_STARTED)
        return REPORT_STARTED;
    else if (ended_before(tree, &report))
        tree_ended(tree, SIGKILL, &(struct rusage){0});
    else
        tree_failed(tree, &report.failure);
    return report.kind;
}

/* Nothing is left of the tree. Its keeper may have another, unless we were hunting in that one. */
static void keeper_idle(struct tree *tree)
{
    pid_t keeper = tree->keeper;
    int reports = tree->source.fd;

    if (!tree->ended) /* a report of it was lost: what is not known is no success */
        tree_ended(tree, SIGKILL, &(struct rusage){0});
    tree->ended = true;
    loop_remove(&tree->source);
    if (tree->killing || !keeper_give_back(keeper, reports))
        close(reports); /* which ends it */
    tree->keeper = 0;
    gone(tree);
}

static void tell_keeper(struct tree *tree, uint8_t what)
{
    send(tree->source.fd, &what, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void on_report(struct source *source, uint32_t events)
{
    struct tree *tree = (struct tree *)source;

    (void)events;
    if (take_report(tree) == REPORT_IDLE)
        keeper_idle(tree);
}

static void start_with_keeper(struct tree *tree, const struct launch *launch)
{
    int reports = -1;

    tree->keeper = keeper_start(launch, &reports);
    if (tree->keeper < 0 || !loop_add(&tree->source, reports, EPOLLIN, on_report)) {
        struct failure failure = {errno, STAGE_RESOURCES};
        if (reports >= 0)
            close(reports); /* which ends the keeper */
        tree_failed(tree, &failure);
        gone(tree);
    }
}

static bool is_keeper(pid_t pid)
{
    for (struct tree *tree = trees; tree != NULL; tree = tree->next)
        if (tree->keeper == pid)
            return true;
    return keeper_is_spare(pid);
}

/* Whether orphans of a command come to its keeper. Kernels of gVisor that are older than 2023 send them all to us. */
static bool keepers_get_orphans(void)
{
    static int known = -1;
    int is_one = 0;

    if (known < 0)
        known = prctl(PR_GET_CHILD_SUBREAPER, &is_one) == 0;
    return known;
}

static void keeper_ended(struct tree *tree, int status, const struct rusage *usage)
{
    while (take_report(tree))
        ;
    bool killed = !tree->ended || !WIFEXITED(status) || (tree->killing && !keepers_get_orphans());
    if (!tree->ended || !WIFEXITED(status)) { /* perhaps by one who kills all: the spare ones may be about to end, with an order */
        keeper_end_spares();
        unprepared = true;
    }
    if (!tree->ended) /* then an exit of the keeper's own is not the command's, and least of all a success */
        tree_ended(tree, WIFEXITED(status) ? SIGKILL : status, usage);
    if (!killed) {
        gone(tree);
        return;
    }
    stray_scans = STRAY_SCANS; /* its orphans are ours now, and not wanted */
    tree->orphaned = tree->ended = true;
    tree->keeper = tree->pid = 0;
    close_source(tree);
}

/* Nothing is left below us that has no keeper. */
static void strays_gone(void)
{
    for (struct tree *tree = trees, *next; tree != NULL; tree = next) {
        next = tree->next;
        if (tree->orphaned)
            gone(tree);
    }
}

static void hunt_strays(void)
{
    bool found = hunt_pass(&strays, getpid(), is_keeper) > 0 && !strays.powerless;

    stray_scans = found ? STRAY_SCANS : stray_scans - 1;
    if (stray_scans == 0)
        strays_gone();
}

/* All of them */

/* Make the first one: what can be done is known by having done it. */
static bool try_cgroups(void)
{
    struct cgroup first;

    take_cgroup(&first);
    cgroups_work = first.number > 0;
    give_cgroup_back(&first);
    return cgroups_work;
}

bool trees_open(int parent, const char *name)
{
    if (parent < 0)
        return false;
    parent_cgroup = parent;
    own_name = name;
    if (mkdirat(parent, name, 0755) == 0)
        own_cgroup = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (own_cgroup >= 0 && faccessat(own_cgroup, "cgroup.kill", W_OK, 0) < 0) {
        close(own_cgroup);
        own_cgroup = -1;
        unlinkat(parent, name, AT_REMOVEDIR);
    }
    return own_cgroup >= 0 && try_cgroups();
}

bool trees_open_in(int cgroup)
{
    own_cgroup = cgroup;
    return cgroup >= 0 && try_cgroups();
}

void tree_start(struct tree *tree, const struct launch *launch)
{
    *tree = (struct tree){.source.fd = -1, .cgroup = {-1, -1, 0}};
    add(tree);
    unprepared = true;
    if (own_cgroup >= 0 && cgroups_work)
        start_in_cgroup(tree, launch);
    else
        start_with_keeper(tree, launch);
}

bool trees_unprepared(void)
{
    return unprepared;
}

void trees_prepare(void)
{
    unprepared = false;
    if (own_cgroup < 0 || !cgroups_work) {
        keeper_prepare();
        return;
    }
    if (waiting.number == 0)
        take_cgroup(&waiting);
    if (waiting.directory >= 0)
        spawn_prepare(waiting.directory);
}

void tree_signal(struct tree *tree, int number)
{
    if (tree->pid <= 0)
        return;
    if (tree->keeper > 0)
        tell_keeper(tree, (uint8_t)number);
    else
        kill(tree->pid, number);
}

void tree_kill(struct tree *tree)
{
    tree->killing = true;
    if (tree->cgroup.directory >= 0)
        write_one(tree->cgroup.directory, "cgroup.kill");
    if (tree->cgroup.directory >= 0 && tree->pid > 0)
        kill(tree->pid, SIGKILL); /* it may have left; it is our child and not reaped yet */
    else if (tree->keeper > 0)
        tell_keeper(tree, KILL_GROUP); /* which is most of it, or all: the rest is hunted for */
}

static void reaped(pid_t pid, int status, const struct rusage *usage)
{
    keeper_drop_spare(pid);
    if (spawn_is_ready(pid))
        spawn_forget_ready();
    for (struct tree *tree = trees; tree != NULL; tree = tree->next) {
        if (tree->keeper == pid) {
            keeper_ended(tree, status, usage);
            return;
        }
        if (tree->keeper == 0 && tree->pid == pid) {
            tree->pid = 0;
            tree->ended = true;
            tree_ended(tree, status, usage);
            release_cgroup(tree);
            return;
        }
    }
}

void trees_reap(void)
{
    struct rusage usage;
    int status;
    pid_t pid;

    while ((pid = wait4(-1, &status, WNOHANG | WUNTRACED, &usage)) > 0) {
        if (!WIFSTOPPED(status))
            reaped(pid, status, &usage);
        else if (is_keeper(pid))
            kill(pid, SIGCONT); /* a command has stopped it, and nobody would hear of its end */
    }
}

static bool hunt_tree(struct tree *tree)
{
    kill(tree->keeper, SIGCONT); /* it is our child and not reaped yet */
    hunt_pass(&tree->hunt, tree->keeper, NULL);
    return !tree->hunt.powerless;
}

/* Whether it is time for another pass; a flood of events must not make more of them. */
static bool is_time(void)
{
    static struct timespec last;
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t passed = (now.tv_sec - last.tv_sec) * 1000000000 + now.tv_nsec - last.tv_nsec;
    if (passed < TICK_MS * 1000000)
        return false;
    last = now;
    return true;
}

static bool anything_to_end(void)
{
    for (struct tree *tree = trees; tree != NULL; tree = tree->next)
        if (tree->killing && !tree->orphaned)
            return true;
    return stray_scans > 0;
}

int trees_tick(void)
{
    if (!anything_to_end())
        return -1;
    if (!is_time())
        return TICK_MS;
    bool busy = stray_scans > 0;
    if (stray_scans > 0)
        hunt_strays();
    for (struct tree *tree = trees, *next; tree != NULL; tree = next) {
        next = tree->next;
        if (!tree->killing || tree->orphaned)
            continue;
        if (tree->cgroup.directory >= 0) {
            busy = true;
            kill_headless(tree->cgroup.directory);
            if (tree->ended && tree->source.fd < 0)
                release_cgroup(tree);
        } else if (hunt_tree(tree)) {
            busy = true;
        } else {
            tree->killing = false;
            tree_out_of_reach(tree);
        }
    }
    return busy ? TICK_MS : -1;
}

static bool anything_left(void)
{
    pid_t pid;

    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        ;
    return pid == 0 || errno != ECHILD;
}

static void end_everything(void)
{
    const struct timespec pause = {0, 1000000};
    unsigned powerless = 0;

    for (struct tree *tree = trees; tree != NULL; tree = tree->next)
        tree_kill(tree);
    while (anything_left() && powerless < 1000) {
        bool reached = false;
        if (own_cgroup >= 0)
            write_one(own_cgroup, "cgroup.kill");
        for (struct tree *tree = trees; tree != NULL; tree = tree->next)
            if (tree->keeper > 0)
                reached |= hunt_tree(tree);
        hunt_pass(&strays, getpid(), is_keeper);
        powerless = reached || !strays.powerless ? 0 : powerless + 1;
        nanosleep(&pause, NULL);
    }
}

void trees_close(void)
{
    if (getpid() == 1)
        return; /* whatever is in a pid namespace ends with its first process, and its cgroup is the host's */
    keeper_end_spares();
    spawn_end_ready();
    end_everything();
    if (own_cgroup < 0)
        return;
    for (struct tree *tree = trees; tree != NULL; tree = tree->next)
        remove_cgroup(&tree->cgroup);
    remove_cgroup(&waiting);
    while (spare_count > 0)
        remove_cgroup(&spares[--spare_count]);
    unlinkat(parent_cgroup, own_name, AT_REMOVEDIR);
}
