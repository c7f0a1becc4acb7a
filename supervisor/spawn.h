/* Starting one process: what it is given, and nothing else. */
#ifndef PADDOCK_SPAWN_H
#define PADDOCK_SPAWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire.h"

struct launch {
    char **argv;
    char **environment;
    int directory; /* where it starts: a descriptor */
    int stdio[3];
    bool terminal; /* whether its standard input is to be its controlling terminal */
    bool quiet;    /* whether nobody waits to hear that it began */
};

/* What commands may use, each by itself; 0: what this process may. */
struct bounds {
    unsigned pids;
    bool own_pids; /* whether no others are counted than those in here */
    uint64_t open_files, file_size, address_space;
};

struct failure {
    int error;
    enum stage stage;
};

/* Remember what limits commands get back, and raise those of this process. */
void spawn_open(const struct bounds *bounds);
/* Make a process that waits in this cgroup (-1: in ours) to be the next command there. It may not work; then all is slower. */
void spawn_prepare(int cgroup);
/* Give the filter of commands to this process: those that it makes from now on inherit it, which takes less than to load it. */
void spawn_share_filter(void);
/* Whether this is the one that waits. */
bool spawn_is_ready(pid_t pid);
/* Forget it: it has died. */
void spawn_forget_ready(void);
/* End it, and wait for it. */
void spawn_end_ready(void);
/* Start it in the cgroup with this descriptor (-1: in ours). Its pid, or -1: then `failure` says where it failed. `meanwhile`, if
 * any, is called before we wait until it runs. */
pid_t spawn_process(const struct launch *launch, int cgroup, struct failure *failure, void (*meanwhile)(void));

#endif
