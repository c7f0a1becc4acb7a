/* What runs below a process, and ending all of it where no cgroup does that for us. */
#ifndef PADDOCK_PROCESSES_H
#define PADDOCK_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct hunt {
    unsigned passes;       /* since it began, or last ended something */
    size_t alive, running; /* what the last one saw */
    bool powerless;        /* something is left that belongs to somebody else */
};

typedef bool (*spared_fn)(pid_t pid);

/* One pass over everything below `root`. How many were alive.
 *
 * A few are ended at once. Of many the rest is stopped first, which takes no process away from the bound on their number: a
 * storm at its bound cannot go on, and when a pass finds all of it stopped, the next ends it. Each is signalled as it is seen,
 * since a storm leaves us little of the processor until it has become smaller. Those that `spared` names are left alone with
 * what is below them, except that they are made to continue. */
size_t hunt_pass(struct hunt *hunt, pid_t root, spared_fn spared);

#endif
