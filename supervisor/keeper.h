/* The process between the supervisor and one command, where there are no cgroups. */
#ifndef PADDOCK_KEEPER_H
#define PADDOCK_KEEPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "spawn.h"

enum report_kind { REPORT_STARTED = 1, REPORT_FAILED = 2, REPORT_ENDED = 3 };

struct report {
    enum report_kind kind;
    pid_t pid;
    int status;
    struct failure failure;
    struct rusage usage;
};

#define KILL_GROUP 255 /* instead of a signal's number: end the command's process group */

/* Fork a keeper that starts the command; its pid, or -1. `*reports` is a socket: reports come out of it as they are, signal
 * numbers for the command go in as one byte. It exits when nothing is left of the tree, and ends the tree when we die. */
pid_t keeper_start(const struct launch *launch, int *reports);
/* Have one ready for the next command. */
void keeper_prepare(void);
/* Whether this process is the one that is ready. */
bool keeper_is_spare(pid_t pid);
/* Forget the one that was ready: it has died. */
void keeper_drop_spare(void);
/* End the one that is ready, and wait for it. */
void keeper_end_spare(void);

#endif
