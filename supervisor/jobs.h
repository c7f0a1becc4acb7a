/* Work that may be long, done in steps between other events: nobody who makes a huge tree can keep the supervisor busy. */
#ifndef PADDOCK_JOBS_H
#define PADDOCK_JOBS_H

#include <stdbool.h>
#include <stdint.h>

struct job {
    struct job *next;
    uint32_t id; /* of the request, to answer it */
    /* Do a bounded piece of work; true when all is done and answered. */
    bool (*step)(struct job *job);
    /* Give back what it holds, and itself. */
    void (*release)(struct job *job);
};

/* Take the job over and begin with it; it may be done and released already when this returns. */
void job_start(struct job *job);
/* Go on, when the channel is no longer full. */
void jobs_resume(void);
/* Forget all of them. */
void jobs_close(void);

#endif
