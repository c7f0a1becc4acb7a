/* Work that may be long, done in steps between other events: nobody who makes a huge tree can keep the supervisor busy. */
#ifndef PADDOCK_JOBS_H
#define PADDOCK_JOBS_H

#include <stdbool.h>
#include <stdint.h>

#include "asker.h"
#include "loop.h"

struct job;

/* The jobs of one channel. Those of another wait for none of them. */
struct jobs {
    struct source always; /* an event that is always there: the loop comes back to us after every other one */
    int always_fd;
    struct job *first;
    unsigned waiting;
};

struct job {
    struct job *next;
    struct asker asker;
    /* Do a bounded piece of work; true when all is done and answered. */
    bool (*step)(struct job *job);
    /* Give back what it holds, and itself. */
    void (*release)(struct job *job);
};

void jobs_open(struct jobs *jobs);
/* Take the job over and begin with it; it may be done and released already when this returns. */
void job_start(struct job *job);
/* Go on, when the channel is no longer full. */
void jobs_resume(struct jobs *jobs);
/* Forget all of them. */
void jobs_close(struct jobs *jobs);

#endif
