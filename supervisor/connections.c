#include "connections.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "commands.h"
#include "files.h"
#include "relays.h"

#define MOST_CONNECTIONS 64
#define MOST_STRANGERS 8    /* who have not said hello: commands may be among them, and must not keep a host out */
#define HELLO_MS 10000      /* to say hello in */
#define COME_MS 60000       /* to connect in, for the only one */
#define STUCK_MS 60000      /* without taking anything of what waits to be sent */
#define LAST_WORDS_MS 1000  /* the same, for one that is told why it ends */
#define ACCEPT_AGAIN_MS 100 /* when there was no descriptor or no memory for one more */
#define NEVER INT64_MAX

static struct terms terms;
static frame_fn handle_frame;
static struct channel *channels;
static unsigned count;
static struct source listening = {.fd = -1};
static int64_t started, idle_since, accept_again = NEVER;
static bool was_held, over;

static int64_t milliseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool comes_and_goes(void)
{
    return terms.listen >= 0;
}

/* Beginning and end of one */

static void has_room(struct channel *channel)
{
    commands_resume(channel);
    files_resume(channel);
    relays_resume(channel);
}

bool connections_add(int in, int out)
{
    struct channel *channel = channel_open(in, out, handle_frame, has_room);

    if (channel == NULL)
        return false;
    channel->bounded = comes_and_goes();
    channel->opened_at = milliseconds();
    channel->next = channels;
    channels = channel;
    count++;
    return true;
}

static void let_go(struct channel *channel)
{
    files_close(channel);
    relays_close(channel);
    channel_free(channel);
    count--;
}

static void let_go_of_ended(void)
{
    for (struct channel **at = &channels; *at != NULL;) {
        struct channel *channel = *at;
        if (!channel->ended) {
            at = &channel->next;
            continue;
        }
        *at = channel->next;
        commands_leave(channel);
        let_go(channel);
    }
}

static void listen_no_more(void)
{
    loop_remove(&listening);
    close(terms.listen);
    terms.listen = -1;
}

static unsigned greeted(void)
{
    unsigned found = 0;

    for (struct channel *channel = channels; channel != NULL; channel = channel->next)
        found += channel->greeted && !channel->ended;
    return found;
}

static unsigned strangers(void)
{
    unsigned found = 0;

    for (struct channel *channel = channels; channel != NULL; channel = channel->next)
        found += !channel->greeted && !channel->ended;
    return found;
}

/* New ones stand first. */
static void end_oldest_stranger(void)
{
    struct channel *oldest = NULL;

    for (struct channel *channel = channels; channel != NULL; channel = channel->next)
        if (!channel->greeted && !channel->ended)
            oldest = channel;
    if (oldest != NULL)
        channel_end(oldest);
}

static void take_in(int fd)
{
    if (strangers() >= MOST_STRANGERS)
        end_oldest_stranger();
    if (terms.once)
        listen_no_more();
    if (count >= MOST_CONNECTIONS || !connections_add(fd, fd))
        close(fd);
    else
        channels->is_socket &= !terms.relayed;
}

static void on_connect(struct source *source, uint32_t events)
{
    int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    (void)events;
    if (fd >= 0) {
        take_in(fd);
    } else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        loop_remove(source); /* it waits, and would wake us again and again */
        accept_again = milliseconds() + ACCEPT_AGAIN_MS;
    }
}

/* Time */

/* Until when somebody may keep us waiting. */
static int64_t patience_with(struct channel *channel, int64_t now)
{
    if (channel->moved || channel->queue_size == 0)
        channel->stuck_since = now;
    channel->moved = false;
    if (channel->failing)
        return channel->stuck_since + LAST_WORDS_MS;
    if (!comes_and_goes())
        return NEVER;
    if (!channel->greeted)
        return channel->opened_at + HELLO_MS;
    return channel->queue_size > 0 ? channel->stuck_since + STUCK_MS : NEVER;
}

static int64_t check_channels(int64_t now)
{
    int64_t next = NEVER;

    for (struct channel *channel = channels; channel != NULL; channel = channel->next) {
        int64_t until = patience_with(channel, now);
        if (until <= now)
            channel_end(channel);
        else if (until < next)
            next = until;
    }
    return next;
}

/* Whether a host that stays on one channel has said anything. */
static bool was_heard(void)
{
    bool heard = !comes_and_goes() && channels != NULL && channels->heard;

    if (heard)
        channels->heard = false;
    return heard;
}

static int64_t end_of_idling(int64_t now)
{
    bool held = commands_running() || (comes_and_goes() && greeted() > 0);

    if (terms.idle == 0)
        return NEVER;
    if (held || was_held || was_heard())
        idle_since = now;
    was_held = held;
    return held ? NEVER : idle_since + (int64_t)terms.idle * 1000;
}

static int64_t end_of_life(void)
{
    return terms.lifetime == 0 ? NEVER : started + (int64_t)terms.lifetime * 1000;
}

static int64_t end_of_waiting(void)
{
    return terms.once && terms.listen >= 0 ? started + COME_MS : NEVER;
}

static int64_t check_listening(int64_t now)
{
    if (accept_again <= now)
        accept_again = loop_add(&listening, terms.listen, EPOLLIN, on_connect) ? NEVER : now + ACCEPT_AGAIN_MS;
    return accept_again;
}

/* Whether the time matters at all: a host that waits for a command should not have to pay for our looking at the clock. */
static bool is_timed(void)
{
    return comes_and_goes() || terms.idle > 0 || terms.lifetime > 0 || (channels != NULL && channels->failing);
}

static int64_t sooner(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

int connections_tick(void)
{
    if (!is_timed())
        return -1;
    int64_t now = milliseconds(), next = check_channels(now);
    if (comes_and_goes())
        let_go_of_ended();
    int64_t end = sooner(end_of_waiting(), sooner(end_of_idling(now), end_of_life()));
    over |= end <= now;
    next = sooner(sooner(next, end), check_listening(now));
    if (connections_over())
        return 0;
    if (next == NEVER)
        return -1;
    return next - now < INT_MAX ? (int)(next - now) : INT_MAX;
}

bool connections_over(void)
{
    return over || (!comes_and_goes() && (channels == NULL || channels->ended));
}

/* All of them */

void connections_open(const struct terms *chosen, frame_fn handle)
{
    terms = *chosen;
    handle_frame = handle;
    started = idle_since = milliseconds();
    over = was_held = false;
    if (!comes_and_goes())
        return;
    fcntl(terms.listen, F_SETFL, fcntl(terms.listen, F_GETFL) | O_NONBLOCK);
    accept_again = 0; /* the first look at the clock begins it */
}

void connections_close(void)
{
    loop_remove(&listening);
    accept_again = NEVER;
    while (channels != NULL) {
        struct channel *channel = channels;
        channels = channel->next;
        let_go(channel);
    }
}
