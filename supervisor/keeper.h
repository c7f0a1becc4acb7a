/* The process between the supervisor and one command, where there are no cgroups. */
#ifndef PADDOCK_KEEPER_H
#define PADDOCK_KEEPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "spawn.h"

enum report_kind { REPORT_STARTED = 1, REPORT_FAILED = 2, REPORT_ENDED = 3, REPORT_IDLE = 4 };

struct report {
    enum report_kind kind;
    pid_t pid;
    int status;
    struct failure failure;
    struct rusage usage;
};

#define KILL_GROUP 255 /* instead of a signal's number: end the command's process group */

/* Have a keeper start the command; the keeper's pid, or -1. `*reports` is a socket: reports come out of it as they are, signal
 * numbers for the command go in as one byte. When nothing is left of the tree it says that it is idle, and waits for another
 * command. It ends the tree when we die. */
pid_t keeper_start(const struct launch *launch, int *reports);
/* Have one ready for the next command. */
void keeper_prepare(void);
/* This one is idle. Whether it is kept for another command; if not, closing its socket ends it. */
bool keeper_give_back(pid_t pid, int reports);
/* Whether this process is one that is ready. */
bool keeper_is_spare(pid_t pid);
/* Forget one that was ready: it has died. */
void keeper_drop_spare(pid_t pid);
/* End those that are ready, and wait for them. */
void keeper_end_spares(void);

#endif
