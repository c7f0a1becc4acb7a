#include "processes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FEW 8          /* so few are ended at once */
#define STOP_PASSES 20 /* then they are ended, stopped or not */

struct process {
    pid_t pid, parent;
    char state;
    unsigned long long started;
};

static struct process *all;
static size_t count, room;

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
    return after != NULL && sscanf(after + 1,
                                   " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                                   &process->state, &process->parent, &process->started) == 3;
}

static bool remember(const struct process *process)
{
    if (count == room) {
        size_t larger = room ? 2 * room : 256;
        struct process *moved = realloc(all, larger * sizeof *all);
        if (moved == NULL)
            return false;
        all = moved;
        room = larger;
    }
    all[count++] = *process;
    return true;
}

static int by_pid(const void *one, const void *other)
{
    pid_t a = ((const struct process *)one)->pid, b = ((const struct process *)other)->pid;

    return (a > b) - (a < b);
}

static void scan(void)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    struct process process;

    count = 0;
    while (proc != NULL && (entry = readdir(proc)) != NULL) {
        int pid = atoi(entry->d_name);
        if (pid > 0 && read_process(pid, &process) && !remember(&process))
            break;
    }
    if (proc != NULL)
        closedir(proc);
    qsort(all, count, sizeof *all, by_pid);
}

static const struct process *find(pid_t pid)
{
    struct process key = {.pid = pid};

    return count ? bsearch(&key, all, count, sizeof *all, by_pid) : NULL;
}

static bool is_below(const struct process *process, pid_t root, spared_fn spared)
{
    for (size_t steps = 0; process != NULL && steps <= count; steps++) {
        if (spared != NULL && spared(process->pid))
            return false;
        if (process->parent == root)
            return true;
        process = find(process->parent);
    }
    return false;
}

/* Signal the process that was seen, and never another that has its number by now. */
static bool signal_exactly(const struct process *seen, int number)
{
    struct process now;
    int fd = (int)syscall(SYS_pidfd_open, seen->pid, 0);

    if (fd < 0)
        return true;
    bool same = read_process(seen->pid, &now) && now.started == seen->started;
    bool allowed = !same || syscall(SYS_pidfd_send_signal, fd, number, NULL, 0) == 0 || errno != EPERM;
    close(fd);
    return allowed;
}

static bool is_dead(const struct process *process)
{
    return process->state == 'Z' || process->state == 'X';
}

static bool is_stopped(const struct process *process)
{
    return process->state == 'T' || process->state == 't';
}

/* Move those that are ours and alive to the front. */
static size_t choose(pid_t root, spared_fn spared)
{
    struct process *chosen = malloc((count + 1) * sizeof *chosen);
    size_t found = 0;

    if (chosen == NULL)
        return 0;
    for (size_t i = 0; i < count; i++)
        if (!is_dead(&all[i]) && is_below(&all[i], root, spared))
            chosen[found++] = all[i];
    memcpy(all, chosen, found * sizeof *chosen);
    free(chosen);
    return found;
}

static void resume_spared(spared_fn spared)
{
    for (size_t i = 0; spared != NULL && i < count; i++)
        if (is_stopped(&all[i]) && spared(all[i].pid))
            signal_exactly(&all[i], SIGCONT);
}

size_t hunt_pass(struct hunt *hunt, pid_t root, spared_fn spared)
{
    size_t running = 0, refused = 0;

    scan();
    resume_spared(spared);
    size_t alive = choose(root, spared);
    for (size_t i = 0; i < alive; i++)
        running += !is_stopped(&all[i]);
    bool stop = alive > FEW && running > 0 && hunt->passes < STOP_PASSES;
    for (size_t i = 0; i < alive; i++)
        if (!stop || !is_stopped(&all[i]))
            refused += !signal_exactly(&all[i], stop ? SIGSTOP : SIGKILL);
    hunt->passes = stop ? hunt->passes + 1 : 0;
    hunt->powerless = alive > 0 && refused == alive;
    return alive;
}
