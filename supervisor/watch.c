#include "watch.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
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
    bool used;
    bool paused; /* until the channel has room */
    uint32_t id;
    int inotify;
};

static struct watcher watchers[MOST_WATCHERS];

static void tell(const struct watcher *watcher, const struct inotify_event *event)
{
    message_begin(REP_CHANGED, watcher->id);
    put_u32((uint32_t)event->wd);
    put_u32(event->mask);
    put_text(event->len > 0 ? event->name : "");
    channel_send();
}

static void ready(struct source *source, uint32_t events)
{
    struct watcher *watcher = (struct watcher *)source;
    char buffer[EVENTS] __attribute__((aligned(__alignof__(struct inotify_event))));
    const struct inotify_event *event;

    (void)events;
    if (channel_full()) { /* the kernel's queue is bounded, and says when it overflowed */
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

static struct watcher *find(uint32_t id)
{
    for (size_t i = 0; i < MOST_WATCHERS; i++)
        if (watchers[i].used && watchers[i].id == id)
            return &watchers[i];
    return NULL;
}

static void release(struct watcher *watcher)
{
    loop_remove(&watcher->source);
    close_quietly(watcher->inotify);
    watcher->used = false;
}

/* NULL with errno. */
static struct watcher *make(uint32_t id)
{
    struct watcher *watcher = watchers;

    while (watcher < watchers + MOST_WATCHERS && watcher->used)
        watcher++;
    if (watcher == watchers + MOST_WATCHERS) {
        errno = EMFILE;
        return NULL;
    }
    int inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (inotify < 0)
        return NULL;
    *watcher = (struct watcher){.source = {.fd = -1}, .used = true, .id = id, .inotify = inotify};
    if (loop_add(&watcher->source, inotify, EPOLLIN, ready))
        return watcher;
    release(watcher);
    return NULL;
}

void watch_add(uint32_t id, uint32_t watcher_id, int directory)
{
    char path[HANDLE_PATH_SIZE];
    struct watcher *known = find(watcher_id), *watcher = known ? known : make(watcher_id);

    /* By the handle, not by a path that could lead elsewhere by now. */
    handle_path(path, directory);
    int watch = watcher ? inotify_add_watch(watcher->inotify, path, MASK) : -1;
    if (watch >= 0) {
        listing_start(id, directory, LISTING_WATCHED, (uint32_t)watch);
        return;
    }
    channel_failed(id, errno, STAGE_NONE);
    close_quietly(directory);
    if (watcher && !known)
        release(watcher);
}

void watch_remove(uint32_t watcher_id, uint32_t watch)
{
    struct watcher *watcher = find(watcher_id);

    if (watcher && watch == ALL_WATCHES)
        release(watcher);
    else if (watcher)
        inotify_rm_watch(watcher->inotify, (int)watch);
}

void watches_resume(void)
{
    for (size_t i = 0; i < MOST_WATCHERS && !channel_full(); i++)
        if (watchers[i].used && watchers[i].paused)
            watchers[i].paused = !loop_add(&watchers[i].source, watchers[i].inotify, EPOLLIN, ready);
}

void watches_close(void)
{
    for (size_t i = 0; i < MOST_WATCHERS; i++)
        if (watchers[i].used)
            release(&watchers[i]);
}
