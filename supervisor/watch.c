#include "watch.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "beneath.h"
#include "channel.h"
#include "loop.h"
#include "nodes.h"
#include "wire.h"

#define MOST_WATCHERS 64
#define EVENTS (16u << 10) /* bytes of them, read at once */
#define MASK \
    (IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_DELETE_SELF \
     | IN_MOVE_SELF | IN_ONLYDIR)

struct watcher {
    struct source source; /* first: the loop gives it back */
    struct watcher *next;
    struct channel *channel;
    bool paused; /* until the channel has room */
    uint32_t id;
    int inotify;
};

static void tell(const struct watcher *watcher, const struct inotify_event *event)
{
    message_begin(REP_CHANGED, watcher->id);
    put_u32((uint32_t)event->wd);
    put_u32(event->mask);
    put_text(event->len > 0 ? event->name : "");
    channel_send(watcher->channel);
}

static void ready(struct source *source, uint32_t events)
{
    struct watcher *watcher = (struct watcher *)source;
    char buffer[EVENTS] __attribute__((aligned(__alignof__(struct inotify_event))));
    const struct inotify_event *event;

    (void)events;
    if (channel_full(watcher->channel)) { /* the kernel's queue is bounded, and says when it overflowed */
        loop_remove(source);
        watcher->paused = true;
        return;
    }
    ssize_t size = read(watcher->inotify, buffer, sizeof buffer);
    for (ssize_t at = 0; at < size; at += (ssize_t)(sizeof *event + event->len)) {
        event = (const struct inotify_event *)(const void *)(buffer + at);
        tell(watcher, event);
    }
}

static struct watcher *find(const struct channel *channel, uint32_t id)
{
    struct watcher *watcher = channel->watchers;

    while (watcher != NULL && watcher->id != id)
        watcher = watcher->next;
    return watcher;
}

static void release(struct watcher *watcher)
{
    struct watcher **at = &watcher->channel->watchers;

    while (*at != watcher)
        at = &(*at)->next;
    *at = watcher->next;
    loop_remove(&watcher->source);
    close_quietly(watcher->inotify);
    free(watcher);
}

static bool has_room_for_one(const struct channel *channel)
{
    size_t count = 0;

    for (const struct watcher *watcher = channel->watchers; watcher != NULL; watcher = watcher->next)
        count++;
    errno = EMFILE;
    return count < MOST_WATCHERS;
}

/* NULL with errno. */
static struct watcher *make(struct channel *channel, uint32_t id)
{
    struct watcher *watcher = has_room_for_one(channel) ? malloc(sizeof *watcher) : NULL;

    if (watcher == NULL)
        return NULL;
    *watcher = (struct watcher){.source = {.fd = -1}, .next = channel->watchers, .channel = channel, .id = id};
    channel->watchers = watcher;
    watcher->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (watcher->inotify >= 0 && loop_add(&watcher->source, watcher->inotify, EPOLLIN, ready))
        return watcher;
    int error = errno;
    release(watcher);
    errno = error;
    return NULL;
}

void watch_add(struct asker asker, uint32_t watcher_id, int directory)
{
    char path[HANDLE_PATH_SIZE];
    struct watcher *known = find(asker.channel, watcher_id);
    struct watcher *watcher = known ? known : make(asker.channel, watcher_id);

    /* By the handle, not by a path that could lead elsewhere by now. */
    handle_path(path, directory);
    int watch = watcher ? inotify_add_watch(watcher->inotify, path, MASK) : -1;
    if (watch >= 0) {
        listing_start(asker, directory, LISTING_WATCHED, (uint32_t)watch);
        return;
    }
    channel_failed(asker, errno, STAGE_NONE);
    close_quietly(directory);
    if (watcher && !known)
        release(watcher);
}

void watch_remove(struct channel *channel, uint32_t watcher_id, uint32_t watch)
{
    struct watcher *watcher = find(channel, watcher_id);

    if (watcher && watch == ALL_WATCHES)
        release(watcher);
    else if (watcher)
        inotify_rm_watch(watcher->inotify, (int)watch);
}

void watches_resume(struct channel *channel)
{
    for (struct watcher *watcher = channel->watchers; watcher != NULL; watcher = watcher->next)
        if (watcher->paused)
            watcher->paused = !loop_add(&watcher->source, watcher->inotify, EPOLLIN, ready);
}

void watches_close(struct channel *channel)
{
    while (channel->watchers != NULL)
        release(channel->watchers);
}
