#include "relays.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "inside.h"
#include "loop.h"
#include "relayed.h"

#define MOST_LISTENERS 64
#define MOST_AWAITED 64 /* connections that a host waits for at one listener */
#define MOST_ATTEMPTS 1024

/* How the host wants a connection. */
struct wish {
    struct asker asker;
    uint32_t window;
    bool descriptor;
};

/* One that a host waits for. */
struct awaited {
    struct awaited *next;
    struct wish wish;
};

struct door {
    struct source source; /* first: the loop gives it back */
    struct listener *listener;
};

struct listener {
    struct listener *next;
    struct asker asker;
    struct doors doors;
    struct door door[2];
    struct awaited *awaited; /* in the order in which they were asked for */
    size_t awaited_count;
};

/* A connection to a port that is under way. */
struct attempt {
    struct source source; /* first: the loop gives it back */
    struct attempt *next;
    struct wish wish;
    uint16_t port;
    bool second; /* over IPv6, since nobody listens on the other */
    int fd;
};

/* A connection is there */

static void arrive(const struct wish *wish, int fd)
{
    inside_hurry(fd);
    if (wish->descriptor) {
        message_begin(REP_CONNECTED, wish->asker.id);
        channel_hand_over(wish->asker.channel, fd);
    } else if (!relayed_has_room(wish->asker.channel)) {
        close(fd);
        channel_failed(wish->asker, EMFILE, STAGE_NONE);
    } else if (!relayed_open(wish->asker, fd, wish->window)) {
        channel_failed(wish->asker, errno, STAGE_NONE);
    }
}

/* Listeners */

static struct listener *find_listener(const struct channel *channel, uint32_t id)
{
    struct listener *listener = channel->listeners;

    while (listener != NULL && listener->asker.id != id)
        listener = listener->next;
    return listener;
}

static void on_connect(struct source *source, uint32_t events);

/* Wait for connections as long as the host waits for one, and can be told. The others stay with the kernel. */
static void watch_doors(struct listener *listener)
{
    bool open = listener->awaited != NULL && !channel_full(listener->asker.channel);

    for (int i = 0; i < 2; i++) {
        struct source *source = &listener->door[i].source;
        if (!open)
            loop_remove(source);
        else if (source->fd < 0 && listener->doors.fds[i] >= 0)
            loop_add(source, listener->doors.fds[i], EPOLLIN, on_connect);
    }
}

static struct wish take_awaited(struct listener *listener, struct awaited **at)
{
    struct awaited *awaited = *at;
    struct wish wish = awaited->wish;

    *at = awaited->next;
    listener->awaited_count--;
    free(awaited);
    return wish;
}

/* One at a time. What keeps us from accepting, descriptors that are all in use, say, the host is told, and asks again later. */
static void on_connect(struct source *source, uint32_t events)
{
    struct listener *listener = ((struct door *)source)->listener;

    (void)events;
    if (listener->awaited == NULL || channel_full(listener->asker.channel)) {
        watch_doors(listener);
        return;
    }
    int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), error = errno;
    if (fd < 0 && (error == EAGAIN || error == EINTR || error == ECONNABORTED))
        return;
    struct wish wish = take_awaited(listener, &listener->awaited);
    if (fd >= 0)
        arrive(&wish, fd);
    else
        channel_failed(wish.asker, error, STAGE_NONE);
    watch_doors(listener);
}

static void close_listener(struct listener *listener)
{
    struct listener **at = &listener->asker.channel->listeners;

    while (*at != listener)
        at = &(*at)->next;
    *at = listener->next;
    for (int i = 0; i < 2; i++)
        loop_remove(&listener->door[i].source);
    while (listener->awaited != NULL)
        take_awaited(listener, &listener->awaited);
    inside_close(&listener->doors);
    free(listener);
}

static bool has_room_for_one(const struct channel *channel)
{
    size_t count = 0;

    for (const struct listener *listener = channel->listeners; listener != NULL; listener = listener->next)
        count++;
    errno = EMFILE;
    return count < MOST_LISTENERS;
}

/* NULL with errno. */
static struct listener *make_listener(struct asker asker, const struct inside *where)
{
    struct listener *listener = has_room_for_one(asker.channel) ? calloc(1, sizeof *listener) : NULL;

    if (listener == NULL)
        return NULL;
    if (!inside_listen(where, &listener->doors)) {
        int error = errno;
        free(listener);
        errno = error;
        return NULL;
    }
    listener->asker = asker;
    for (int i = 0; i < 2; i++)
        listener->door[i] = (struct door){{.fd = -1}, listener};
    listener->next = asker.channel->listeners;
    asker.channel->listeners = listener;
    return listener;
}

/* Attempts */

static void drop_attempt(struct attempt *attempt)
{
    struct attempt **at = &attempt->wish.asker.channel->attempts;

    while (*at != attempt)
        at = &(*at)->next;
    *at = attempt->next;
    loop_remove(&attempt->source);
    if (attempt->fd >= 0)
        close(attempt->fd);
    free(attempt);
}

static void on_connected(struct source *source, uint32_t events);

/* Try the next kind of address. False with errno when there is none left, or the attempt cannot be made. */
static bool try_again(struct attempt *attempt)
{
    struct inside where = {"", attempt->port};
    bool under_way;

    loop_remove(&attempt->source);
    close(attempt->fd);
    attempt->fd = -1;
    if (attempt->second)
        return false;
    attempt->second = true;
    attempt->fd = inside_connect(&where, true, &under_way);
    return attempt->fd >= 0 && loop_add(&attempt->source, attempt->fd, EPOLLOUT, on_connected);
}

static void on_connected(struct source *source, uint32_t events)
{
    struct attempt *attempt = (struct attempt *)source;
    struct wish wish = attempt->wish;

    (void)events;
    if (inside_connected(attempt->fd)) {
        int fd = attempt->fd;
        loop_remove(&attempt->source);
        attempt->fd = -1;
        drop_attempt(attempt);
        arrive(&wish, fd);
        return;
    }
    int error = errno;
    if (error == ECONNREFUSED && try_again(attempt))
        return;
    drop_attempt(attempt);
    channel_failed(wish.asker, error, STAGE_NONE);
}

static bool has_room_to_try(const struct channel *channel)
{
    size_t count = 0;

    for (const struct attempt *attempt = channel->attempts; attempt != NULL; attempt = attempt->next)
        count++;
    return count < MOST_ATTEMPTS;
}

/* `fd` is taken over. */
static void wait_for_connection(const struct wish *wish, const struct inside *where, int fd, bool second)
{
    struct channel *channel = wish->asker.channel;
    struct attempt *attempt = has_room_to_try(channel) ? malloc(sizeof *attempt) : NULL;

    if (attempt == NULL) {
        close(fd);
        channel_failed(wish->asker, EMFILE, STAGE_NONE);
        return;
    }
    *attempt = (struct attempt){{.fd = -1}, channel->attempts, *wish, where->port, second, fd};
    channel->attempts = attempt;
    if (!loop_add(&attempt->source, fd, EPOLLOUT, on_connected)) {
        int error = errno;
        drop_attempt(attempt);
        channel_failed(wish->asker, error, STAGE_NONE);
    }
}

static void connect_for(const struct wish *wish, const struct inside *where)
{
    bool under_way, second = false;
    int fd = inside_connect(where, false, &under_way);

    if (fd < 0 && errno == ECONNREFUSED && where->path[0] == '\0') {
        second = true;
        fd = inside_connect(where, true, &under_way);
        if (fd < 0)
            errno = ECONNREFUSED; /* whatever the other kind of address said: there may be none */
    }
    if (fd < 0)
        channel_failed(wish->asker, errno, STAGE_NONE);
    else if (under_way)
        wait_for_connection(wish, where, fd, second);
    else
        arrive(wish, fd);
}

/* Requests */

static struct awaited **find_awaited(const struct channel *channel, uint32_t id, struct listener **whose)
{
    for (struct listener *listener = channel->listeners; listener != NULL; listener = listener->next)
        for (struct awaited **at = &listener->awaited; *at != NULL; at = &(*at)->next)
            if ((*at)->wish.asker.id == id) {
                *whose = listener;
                return at;
            }
    return NULL;
}

static struct attempt *find_attempt(const struct channel *channel, uint32_t id)
{
    struct attempt *attempt = channel->attempts;

    while (attempt != NULL && attempt->wish.asker.id != id)
        attempt = attempt->next;
    return attempt;
}

static bool is_used(const struct channel *channel, uint32_t id)
{
    struct listener *whose;

    return find_listener(channel, id) != NULL || find_awaited(channel, id, &whose) != NULL ||
           find_attempt(channel, id) != NULL || relayed_find(channel, id) != NULL;
}

static struct inside take_inside(struct reader *payload)
{
    const char *path = take_text(payload);

    return (struct inside){path, take_u16(payload)};
}

/* False when it can be no wish of a host that knows what channel it speaks over. */
static bool take_wish(struct channel *channel, uint32_t id, struct reader *payload, struct wish *wish)
{
    uint8_t descriptor = take_u8(payload);

    *wish = (struct wish){{channel, id}, take_u32(payload), descriptor == 1};
    return reader_done(payload) && descriptor <= 1 && (channel->is_socket || descriptor == 0) && !is_used(channel, id);
}

/* A path, or a port. */
static bool is_meant(const struct inside *where, bool any_port)
{
    errno = EINVAL;
    return where->path[0] != '\0' ? where->port == 0 : any_port || where->port != 0;
}

static bool listen_request(struct channel *channel, const struct header *header, struct reader *payload)
{
    struct asker asker = {channel, header->id};
    struct inside where = take_inside(payload);

    if (!reader_done(payload) || is_used(channel, header->id))
        return false;
    struct listener *listener = is_meant(&where, true) ? make_listener(asker, &where) : NULL;
    if (listener == NULL) {
        channel_failed(asker, errno, STAGE_NONE);
        return true;
    }
    message_begin(REP_LISTENING, asker.id);
    put_u16(listener->doors.port);
    channel_send(channel);
    return true;
}

static bool accept_request(struct channel *channel, const struct header *header, struct reader *payload)
{
    struct listener *listener = find_listener(channel, take_u32(payload));
    struct wish wish;

    if (!take_wish(channel, header->id, payload, &wish))
        return false;
    bool may = listener != NULL && listener->awaited_count < MOST_AWAITED;
    struct awaited *awaited = may ? malloc(sizeof *awaited) : NULL;
    if (awaited == NULL) {
        channel_failed(wish.asker, listener == NULL ? EBADF : EMFILE, STAGE_NONE);
        return true;
    }
    *awaited = (struct awaited){NULL, wish};
    struct awaited **last = &listener->awaited;
    while (*last != NULL)
        last = &(*last)->next;
    *last = awaited;
    listener->awaited_count++;
    watch_doors(listener);
    return true;
}

static bool connect_request(struct channel *channel, const struct header *header, struct reader *payload)
{
    struct inside where = take_inside(payload);
    struct wish wish;

    if (!take_wish(channel, header->id, payload, &wish))
        return false;
    if (is_meant(&where, false))
        connect_for(&wish, &where);
    else
        channel_failed(wish.asker, errno, STAGE_NONE);
    return true;
}

static bool pass_request(struct channel *channel, const struct header *header, struct reader *payload)
{
    struct relayed *relayed = relayed_find(channel, header->id);

    return relayed == NULL || relayed_pass(relayed, payload->at, (size_t)(payload->end - payload->at));
}

static bool allow_request(struct channel *channel, const struct header *header, struct reader *payload)
{
    struct relayed *relayed = relayed_find(channel, header->id);
    uint32_t more = take_u32(payload);

    if (!reader_done(payload))
        return false;
    if (relayed != NULL)
        relayed_allow(relayed, more);
    return true;
}

/* Whatever it is that has this number; one that is not there any more is fine. */
static bool hang_up_request(struct channel *channel, const struct header *header, struct reader *payload)
{
    uint8_t now = take_u8(payload);
    struct listener *listener = find_listener(channel, header->id);
    struct attempt *attempt = find_attempt(channel, header->id);
    struct relayed *relayed = relayed_find(channel, header->id);
    struct awaited **awaited;

    if (!reader_done(payload) || now > 1)
        return false;
    if (listener != NULL) {
        close_listener(listener);
    } else if (attempt != NULL) {
        drop_attempt(attempt);
    } else if (relayed != NULL) {
        relayed_leave(relayed, now == 1);
    } else if ((awaited = find_awaited(channel, header->id, &listener)) != NULL) {
        take_awaited(listener, awaited);
        watch_doors(listener);
    }
    channel_ok((struct asker){channel, header->id});
    return true;
}

bool relays_request(struct channel *channel, const struct header *header, struct reader *payload)
{
    switch (header->type) {
    case REQ_LISTEN: return listen_request(channel, header, payload);
    case REQ_ACCEPT: return accept_request(channel, header, payload);
    case REQ_CONNECT: return connect_request(channel, header, payload);
    case REQ_PASS: return pass_request(channel, header, payload);
    case REQ_ALLOW: return allow_request(channel, header, payload);
    default: return hang_up_request(channel, header, payload);
    }
}

void relays_resume(struct channel *channel)
{
    for (struct listener *listener = channel->listeners; listener != NULL; listener = listener->next)
        watch_doors(listener);
    relayed_resume(channel);
}

void relays_close(struct channel *channel)
{
    while (channel->listeners != NULL)
        close_listener(channel->listeners);
    while (channel->attempts != NULL)
        drop_attempt(channel->attempts);
    relayed_close(channel);
}
