#include "jobs.h"

#include <errno.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "beneath.h"
#include "channel.h"

#define MOST_WAITING 128
#define MOST_AT_ONCE 8 /* those behind wait, and hold one descriptor each */

/* Put a job behind those that take turns, or at the end. */
static void queue(struct jobs *jobs, struct job *job, unsigned behind)
{
    struct job **at = &jobs->first;
    while (*at && behind-- > 0)
        at = &(*at)->next;
    job->next = *at;
    *at = job;
    jobs->waiting++;
}

static struct job *unqueue(struct jobs *jobs)
{
    struct job *job = jobs->first;
    jobs->first = job->next;
    jobs->waiting--;
    return job;
}

static void ready(struct source *source, uint32_t events)
{
    struct jobs *jobs = (struct jobs *)source;

    (void)events;
    if (!jobs->first || channel_full(jobs->first->asker.channel)) {
        loop_remove(source);
        return;
    }
    struct job *job = unqueue(jobs);
    if (job->step(job))
        job->release(job);
    else
        queue(jobs, job, MOST_AT_ONCE - 1);
}

/* Have the loop call us; without memory for that, work on without it. */
static void wake(struct jobs *jobs)
{
    if (jobs->always.fd >= 0)
        return;
    if (jobs->always_fd < 0)
        jobs->always_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    if (jobs->always_fd >= 0 && loop_add(&jobs->always, jobs->always_fd, EPOLLIN, ready))
        return;
    while (jobs->first) {
        struct job *job = unqueue(jobs);
        while (!job->step(job))
            ;
        job->release(job);
    }
}

void jobs_open(struct jobs *jobs)
{
    *jobs = (struct jobs){.always = {.fd = -1}, .always_fd = -1};
}

void job_start(struct job *job)
{
    struct jobs *jobs = &job->asker.channel->jobs;

    if (jobs->waiting >= MOST_WAITING) {
        channel_failed(job->asker, EMFILE, STAGE_NONE);
        job->release(job);
        return;
    }
    if (jobs->waiting < MOST_AT_ONCE && !channel_full(job->asker.channel) && job->step(job)) {
        job->release(job);
        return;
    }
    queue(jobs, job, jobs->waiting);
    wake(jobs);
}

void jobs_resume(struct jobs *jobs)
{
    if (jobs->first)
        wake(jobs);
}

void jobs_close(struct jobs *jobs)
{
    while (jobs->first) {
        struct job *job = unqueue(jobs);
        job->release(job);
    }
    loop_remove(&jobs->always);
    close_quietly(jobs->always_fd);
    jobs->always_fd = -1;
}
