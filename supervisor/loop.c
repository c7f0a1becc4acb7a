#include "loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

static int epoll = -1;

void loop_open(void)
{
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0)
        abort();
}

bool loop_add(struct source *source, int fd, uint32_t events, ready_fn ready)
{
    struct epoll_event event = {.events = events, .data.ptr = source};

    source->fd = -1;
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        return false;
    source->fd = fd;
    source->events = events;
    source->ready = ready;
    return true;
}

void loop_change(struct source *source, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};

    if (source->fd < 0 || source->events == events)
        return;
    source->events = events;
    epoll_ctl(epoll, EPOLL_CTL_MOD, source->fd, &event);
}

void loop_remove(struct source *source)
{
    if (source->fd < 0)
        return;
    epoll_ctl(epoll, EPOLL_CTL_DEL, source->fd, NULL);
    source->fd = -1;
}

bool loop_once(int milliseconds)
{
    struct epoll_event event;

    if (epoll_wait(epoll, &event, 1, milliseconds) != 1)
        return false;
    struct source *source = event.data.ptr;
    source->ready(source, event.events);
    return true;
}
