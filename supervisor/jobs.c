#include "jobs.h"

#include <errno.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "beneath.h"
#include "channel.h"
#include "loop.h"

#define MOST_WAITING 128
#define MOST_AT_ONCE 8 /* those behind wait, and hold one descriptor each */

static struct job *first;
static unsigned waiting;
/* An event that is always there: the loop comes back to us after every other one. */
static struct source always = {.fd = -1};
static int always_fd = -1;

/* Put a job behind those that take turns, or at the end. */
static void queue(struct job *job, unsigned behind)
{
    struct job **at = &first;
    while (*at && behind-- > 0)
        at = &(*at)->next;
    job->next = *at;
    *at = job;
    waiting++;
}

static struct job *unqueue(void)
{
    struct job *job = first;
    first = job->next;
    waiting--;
    return job;
}

static void ready(struct source *source, uint32_t events)
{
    (void)events;
    if (!first || channel_full()) {
        loop_remove(source);
        return;
    }
    struct job *job = unqueue();
    if (job->step(job))
        job->release(job);
    else
        queue(job, MOST_AT_ONCE - 1);
}

/* Have the loop call us; without memory for that, work on without it. */
static void wake(void)
{
    if (always.fd >= 0)
        return;
    if (always_fd < 0)
        always_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    if (always_fd >= 0 && loop_add(&always, always_fd, EPOLLIN, ready))
        return;
    while (first) {
        struct job *job = unqueue();
        while (!job->step(job))
            ;
        job->release(job);
    }
}

void job_start(struct job *job)
{
    if (waiting >= MOST_WAITING) {
        channel_failed(job->id, EMFILE, STAGE_NONE);
        job->release(job);
        return;
    }
    if (waiting < MOST_AT_ONCE && !channel_full() && job->step(job)) {
        job->release(job);
        return;
    }
    queue(job, waiting);
    wake();
}

void jobs_resume(void)
{
    if (first)
        wake();
}

void jobs_close(void)
{
    while (first) {
        struct job *job = unqueue();
        job->release(job);
    }
    if (always.fd >= 0)
        loop_remove(&always);
    close_quietly(always_fd);
    always_fd = -1;
}
