/* What runs below a process, and ending all of it where no cgroup does that for us. */
#ifndef PADDOCK_PROCESSES_H
#define PADDOCK_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct hunt {
    unsigned passes;
    bool powerless; /* something is left that belongs to somebody else */
};

typedef bool (*spared_fn)(pid_t pid);

/* One pass over everything below `root`: stop what runs, or end what is stopped. How many were alive.
 *
 * Stopping first takes no process away from the bound on their number, so a storm at its bound cannot go on: the next pass
 * finds all of it stopped, and ends it. Those that `spared` names are left alone with what is below them, except that they
 * are made to continue. */
size_t hunt_pass(struct hunt *hunt, pid_t root, spared_fn spared);

#endif
