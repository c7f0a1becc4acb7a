/* Starting one process: what it is given, and nothing else. */
#ifndef PADDOCK_SPAWN_H
#define PADDOCK_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

#include "wire.h"

struct launch {
    char **argv;
    char **environment;
    int directory; /* where it starts: a descriptor */
    int stdio[3];
    bool terminal; /* whether its standard input is to be its controlling terminal */
};

struct failure {
    int error;
    enum stage stage;
};

/* Remember what limits commands get back, and raise those of this process. */
void spawn_open(unsigned pids);
/* Start it in the cgroup with this descriptor (-1: in ours). Its pid, or -1: then `failure` says where it failed. */
pid_t spawn_process(const struct launch *launch, int cgroup, struct failure *failure);

#endif
