#include "processes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PIDFD_SIGNAL_PROCESS_GROUP
#define PIDFD_SIGNAL_PROCESS_GROUP 4 /* since Linux 6.9 */
#endif

#define FEW 8              /* so few are ended at once */
#define PID_LIMIT (4 << 20) /* there are no higher numbers */
#define STOP_PASSES 20     /* then they are ended, stopped or not */

struct process {
    pid_t pid, parent, group;
    char state;
    int threads;
};

struct waiting {
    pid_t pid, parent;
};

/* What a pass has found so far: a bit for each number; and those whose parents it has not found yet. */
static uint8_t found[PID_LIMIT / 8];
static struct waiting *waiting;
static size_t waiting_count, waiting_room;

static bool read_process(pid_t pid, struct process *process)
{
    char path[32], text[1024];

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    if (size <= 0)
        return false;
    text[size] = '\0';
    char *after = strrchr(text, ')'); /* the name before it may hold anything */
    process->pid = pid;
    return after != NULL &&
           sscanf(after + 1, " %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d", &process->state,
                  &process->parent, &process->group, &process->threads) == 4;
}

static void add_found(pid_t pid)
{
    if (pid < PID_LIMIT)
        found[pid / 8] |= (uint8_t)(1u << pid % 8);
}

static bool is_found(pid_t pid)
{
    return pid < PID_LIMIT && (found[pid / 8] & 1u << pid % 8);
}

static void add_waiting(const struct process *process)
{
    if (waiting_count == waiting_room) {
        size_t larger = waiting_room ? 2 * waiting_room : 256;
        struct waiting *moved = realloc(waiting, larger * sizeof *waiting);
        if (moved == NULL)
            return; /* it will be an orphan when its parent has ended, and is found then */
        waiting = moved;
        waiting_room = larger;
    }
    waiting[waiting_count++] = (struct waiting){process->pid, process->parent};
}

/* A first thread that has ended does not end the others. */
static bool is_dead(const struct process *process)
{
    return process->state == 'X' || (process->state == 'Z' && process->threads < 2);
}

static bool is_stopped(const struct process *process)
{
    return process->state == 'T' || process->state == 't';
}

/* Without a descriptor it is by number, which only our own namespace's first process may: all that could have taken the number
 * meanwhile is in the sandbox as well. */
static bool signal_by_number(const struct process *process, int number)
{
    if (process->group == process->pid)
        kill(-process->pid, number);
    return kill(process->pid, number) == 0 || errno != EPERM;
}

/* Signal this process, and the group that it leads: that can only have members from below it. */
static bool send_signal(int pidfd, const struct process *process, int number)
{
    if (pidfd < 0)
        return signal_by_number(process, number);
    if (process->group == process->pid)
        syscall(SYS_pidfd_send_signal, pidfd, number, NULL, PIDFD_SIGNAL_PROCESS_GROUP);
    return syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0) == 0 || errno != EPERM;
}

/* What this pass does to a process that it has found after so many others. */
static int chosen_signal(const struct hunt *hunt, size_t before)
{
    if (hunt->passes == 0)
        return before < FEW ? SIGKILL : SIGSTOP;
    return hunt->alive <= FEW || hunt->running == 0 || hunt->passes >= STOP_PASSES ? SIGKILL : SIGSTOP;
}

struct pass {
    struct hunt *hunt;
    pid_t root;
    spared_fn spared;
    size_t alive, running, refused;
};

static void take(struct pass *pass, const struct process *process, int pidfd)
{
    int number = chosen_signal(pass->hunt, pass->alive);

    add_found(process->pid);
    pass->alive++;
    pass->running += !is_stopped(process);
    if (number == SIGKILL || !is_stopped(process))
        pass->refused += !send_signal(pidfd, process, number);
}

/* `pidfd` was opened before its state is read: what is signalled is what was looked at, and never another by its number. */
static void look_at(struct pass *pass, pid_t pid, int pidfd)
{
    struct process process;

    if (!read_process(pid, &process) || is_dead(&process))
        return;
    if (pass->spared != NULL && pass->spared(pid)) {
        if (is_stopped(&process) && pidfd >= 0)
            syscall(SYS_pidfd_send_signal, pidfd, SIGCONT, NULL, 0);
        else if (is_stopped(&process))
            kill(pid, SIGCONT);
    } else if (process.parent == pass->root || is_found(process.parent)) {
        take(pass, &process, pidfd);
    } else {
        add_waiting(&process);
    }
}

static void visit(struct pass *pass, pid_t pid)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

    if (pidfd < 0 && (errno != ENOSYS || getpid() != 1)) /* gVisor had none for long */
        return;
    look_at(pass, pid, pidfd);
    if (pidfd >= 0)
        close(pidfd);
}

static void visit_listed(struct pass *pass)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;

    while (proc != NULL && (entry = readdir(proc)) != NULL)
        if (atoi(entry->d_name) > 0)
            visit(pass, atoi(entry->d_name));
    if (proc != NULL)
        closedir(proc);
}

/* The kernel lists them by number, and where the numbers began anew children come before their parents. */
static void visit_waiting(struct pass *pass)
{
    size_t before;

    do {
        before = pass->alive;
        for (size_t i = 0; i < waiting_count; i++)
            if (waiting[i].pid > 0 && is_found(waiting[i].parent)) {
                pid_t pid = waiting[i].pid;
                waiting[i].pid = 0;
                visit(pass, pid);
            }
    } while (pass->alive > before);
}

size_t hunt_pass(struct hunt *hunt, pid_t root, spared_fn spared)
{
    struct pass pass = {.hunt = hunt, .root = root, .spared = spared};

    memset(found, 0, sizeof found);
    waiting_count = 0;
    visit_listed(&pass);
    visit_waiting(&pass);
    bool ended = hunt->passes > 0 && chosen_signal(hunt, pass.alive) == SIGKILL;
    hunt->passes = ended ? 1 : hunt->passes + 1;
    hunt->alive = pass.alive;
    hunt->running = ended ? pass.alive : pass.running;
    hunt->powerless = pass.alive > 0 && pass.refused == pass.alive;
    return pass.alive;
}
