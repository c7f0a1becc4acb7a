#include "relayed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop.h"
#include "wire.h"

#define MOST_RELAYED 1024
#define PIECE (64u << 10)
#define WORTH_TELLING (RELAY_WINDOW / 4) /* bytes taken: fewer are told with the next */

struct relayed {
    struct source source; /* first: the loop gives it back */
    struct relayed *next;
    struct asker asker;
    int fd;
    uint32_t window;  /* bytes that the host takes */
    bool heard_all;   /* the peer sends no more */
    bool ending;      /* nor does the host: the peer hears of it when it has taken all */
    bool deaf;        /* the peer takes no more */
    bool leaving;     /* the host has hung up, and is told nothing */
    uint8_t *data;    /* what waits for the peer, or NULL */
    size_t start, size;
    size_t taken; /* bytes that the host has not been told of */
};

struct relayed *relayed_find(const struct channel *channel, uint32_t id)
{
    struct relayed *relayed = channel->relayed;

    while (relayed != NULL && (relayed->asker.id != id || relayed->leaving))
        relayed = relayed->next;
    return relayed;
}

static void forget_data(struct relayed *relayed)
{
    free(relayed->data);
    relayed->data = NULL;
    relayed->start = relayed->size = 0;
}

static void release(struct relayed *relayed)
{
    struct relayed **at = &relayed->asker.channel->relayed;

    while (*at != relayed)
        at = &(*at)->next;
    *at = relayed->next;
    loop_remove(&relayed->source);
    close(relayed->fd);
    forget_data(relayed);
    free(relayed);
}

/* It is over, for a reason that is told. */
static void fail(struct relayed *relayed, int error)
{
    if (!relayed->leaving)
        channel_failed(relayed->asker, error, STAGE_NONE);
    release(relayed);
}

bool relayed_has_room(struct channel *channel)
{
    struct relayed *oldest = NULL;
    size_t count = 0;

    for (struct relayed *relayed = channel->relayed; relayed != NULL; relayed = relayed->next) {
        count++;
        if (relayed->leaving) /* new ones stand first */
            oldest = relayed;
    }
    errno = EMFILE;
    if (count < MOST_RELAYED)
        return true;
    if (oldest == NULL)
        return false;
    release(oldest);
    return true;
}

/* Waiting */

static void on_ready(struct source *source, uint32_t events);

static uint32_t wanted(const struct relayed *relayed)
{
    bool reads = !relayed->leaving && !relayed->heard_all && relayed->window > 0 && !channel_full(relayed->asker.channel);

    return (reads ? (uint32_t)EPOLLIN : 0u) | (relayed->size > 0 ? (uint32_t)EPOLLOUT : 0u);
}

/* Wait for what there is to wait for, and for nothing else: a peer that is gone would wake us for ever. It may be over then. */
static void wait_on(struct relayed *relayed)
{
    uint32_t events = wanted(relayed);

    if (events == 0)
        loop_remove(&relayed->source);
    else if (relayed->source.fd >= 0)
        loop_change(&relayed->source, events);
    else if (!loop_add(&relayed->source, relayed->fd, events, on_ready))
        fail(relayed, errno);
}

/* To the host */

/* False when it is over. By recv, which has no room for descriptors: those that are sent along are closed by the kernel. */
static bool read_piece(struct relayed *relayed)
{
    size_t most = relayed->window < PIECE ? relayed->window : PIECE;

    message_begin(REP_DATA, relayed->asker.id);
    uint8_t *space = put_space(most);
    ssize_t size = recv(relayed->fd, space, most, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (size < 0) {
        fail(relayed, errno);
        return false;
    }
    put_back(most - (size_t)size);
    relayed->window -= (uint32_t)size;
    relayed->heard_all = size == 0;
    channel_send(relayed->asker.channel);
    return true;
}

void relayed_allow(struct relayed *relayed, uint32_t more)
{
    relayed->window = more < UINT32_MAX - relayed->window ? relayed->window + more : UINT32_MAX;
    wait_on(relayed);
}

/* To the peer */

static void tell_taken(struct relayed *relayed, size_t size)
{
    relayed->taken += size;
    if (relayed->leaving || relayed->taken < WORTH_TELLING)
        return;
    message_begin(REP_WINDOW, relayed->asker.id);
    put_u32((uint32_t)relayed->taken);
    relayed->taken = 0;
    channel_send(relayed->asker.channel);
}

/* How much of it was sent; less than nothing when the connection is over. A peer that takes no more may still have something to say. */
static ssize_t send_some(struct relayed *relayed, const uint8_t *data, size_t size)
{
    ssize_t sent = send(relayed->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (sent >= 0)
        return sent;
    if (errno == EAGAIN || errno == EINTR)
        return 0;
    if (errno != EPIPE || relayed->leaving) {
        fail(relayed, errno);
        return -1;
    }
    relayed->deaf = true;
    channel_failed(relayed->asker, EPIPE, STAGE_NONE);
    return (ssize_t)size;
}

/* All that waited is gone: what else was to happen then? False when it is over. */
static bool settle(struct relayed *relayed)
{
    forget_data(relayed);
    if (relayed->leaving) {
        release(relayed);
        return false;
    }
    if (relayed->ending)
        shutdown(relayed->fd, SHUT_WR);
    return true;
}

/* False when it is over. */
static bool write_piece(struct relayed *relayed)
{
    ssize_t sent = send_some(relayed, relayed->data + relayed->start, relayed->size);

    if (sent < 0)
        return false;
    relayed->start += (size_t)sent;
    relayed->size -= (size_t)sent;
    if (!relayed->deaf)
        tell_taken(relayed, (size_t)sent);
    return relayed->size > 0 || settle(relayed);
}

static bool keep(struct relayed *relayed, const uint8_t *data, size_t size)
{
    if (relayed->data == NULL && (relayed->data = malloc(RELAY_WINDOW)) == NULL)
        return false;
    memmove(relayed->data, relayed->data + relayed->start, relayed->size);
    relayed->start = 0;
    memcpy(relayed->data + relayed->size, data, size);
    relayed->size += size;
    return true;
}

static void pass_data(struct relayed *relayed, const uint8_t *data, size_t size)
{
    ssize_t sent = relayed->size > 0 ? 0 : send_some(relayed, data, size);

    if (sent < 0)
        return;
    if (!relayed->deaf)
        tell_taken(relayed, (size_t)sent);
    if ((size_t)sent < size && !keep(relayed, data + sent, size - (size_t)sent))
        fail(relayed, ENOMEM);
    else
        wait_on(relayed);
}

bool relayed_pass(struct relayed *relayed, const uint8_t *data, size_t size)
{
    if (relayed->ending || relayed->deaf)
        return true; /* it was on its way */
    if (relayed->size + relayed->taken + size > RELAY_WINDOW)
        return false;
    if (size > 0) {
        pass_data(relayed, data, size);
        return true;
    }
    relayed->ending = true;
    if (relayed->size == 0)
        shutdown(relayed->fd, SHUT_WR);
    return true;
}

void relayed_leave(struct relayed *relayed, bool now)
{
    static const struct linger none = {1, 0};

    relayed->leaving = true;
    if (now)
        setsockopt(relayed->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none); /* and the peer hears that it was cut off */
    if (now || relayed->size == 0)
        release(relayed);
    else
        wait_on(relayed);
}

/* Beginning and end */

static void on_ready(struct source *source, uint32_t events)
{
    struct relayed *relayed = (struct relayed *)source;
    uint32_t wants = wanted(relayed), failing = EPOLLERR | EPOLLHUP;

    if (wants & EPOLLOUT && events & (EPOLLOUT | failing) && !write_piece(relayed))
        return;
    if (wants & EPOLLIN && events & (EPOLLIN | failing) && !read_piece(relayed))
        return;
    wait_on(relayed);
}

bool relayed_open(struct asker asker, int fd, uint32_t window)
{
    struct relayed *relayed = calloc(1, sizeof *relayed);

    if (relayed == NULL) {
        close(fd);
        errno = ENOMEM;
        return false;
    }
    *relayed = (struct relayed){
        .source.fd = -1, .next = asker.channel->relayed, .asker = asker, .fd = fd, .window = window};
    asker.channel->relayed = relayed;
    message_begin(REP_CONNECTED, asker.id);
    channel_send(asker.channel);
    wait_on(relayed);
    return true;
}

void relayed_resume(struct channel *channel)
{
    for (struct relayed *relayed = channel->relayed, *next; relayed != NULL; relayed = next) {
        next = relayed->next;
        wait_on(relayed);
    }
}

void relayed_close(struct channel *channel)
{
    while (channel->relayed != NULL)
        release(channel->relayed);
}
