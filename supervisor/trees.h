/* A command with everything it starts, however that hides: one tree, ended as a whole.
 *
 * Where the host gave us a cgroup, each tree has one of its own and the kernel ends it. Elsewhere each has a keeper: a process
 * of ours between us and the command, to which the kernel gives every orphan of the tree. */
#ifndef PADDOCK_TREES_H
#define PADDOCK_TREES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "loop.h"
#include "processes.h"
#include "spawn.h"

struct cgroup {
    int directory, events;
    uint32_t number; /* 0: there is none */
};

struct tree {
    struct source source; /* cgroup.events, or the keeper's reports: first, so that it is the tree too */
    struct tree *next;
    pid_t pid; /* the command's own process while it has not ended, else 0 */
    pid_t keeper;
    struct cgroup cgroup;
    bool killing;
    bool orphaned; /* its keeper was killed, and what it kept is hunted for */
    bool ended;
    struct hunt hunt;
};

/* What the owner of a tree is told. The last is always tree_gone: then the tree is no longer known here. */
void tree_started(struct tree *tree, pid_t pid);
void tree_failed(struct tree *tree, const struct failure *failure);
void tree_ended(struct tree *tree, int status, const struct rusage *usage);
void tree_gone(struct tree *tree);
/* What is left of it belongs to somebody whom we cannot signal. */
void tree_out_of_reach(struct tree *tree);

/* `parent` is a cgroup2 directory in which one with this name is made, or -1. Whether there is a cgroup for each tree. */
bool trees_open(int parent, const char *name);
/* The same in a cgroup that we are in ourselves, and that the host has made and will remove. */
bool trees_open_in(int cgroup);
/* Start a command. It is told later, or before this returns, how that went. */
void tree_start(struct tree *tree, const struct launch *launch);
/* Get ready for the next one, when there is nothing else to do. */
bool trees_unprepared(void);
void trees_prepare(void);
void tree_signal(struct tree *tree, int number);
/* End all of it; tree_gone follows. */
void tree_kill(struct tree *tree);
/* Some child has ended. */
void trees_reap(void);
/* What has to be done from time to time while trees are being ended; milliseconds until the next time, or -1. */
int trees_tick(void);
/* End every tree, and give back the cgroup. Returns when nothing is left. */
void trees_close(void);

#endif
