/* A channel to a host: frames in, frames out, and descriptors with them where it is a socket. There may be several. */
#ifndef PADDOCK_CHANNEL_H
#define PADDOCK_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "asker.h"
#include "jobs.h"
#include "loop.h"
#include "wire.h"

#define MAX_QUEUED_FDS 64

struct attempt;
struct channel;
struct listener;
struct opened;
struct passenger;
struct relayed;
struct root;
struct watcher;

/* Called for every frame. Descriptors that the handler does not set to -1 are closed afterwards. False ends the channel. */
typedef bool (*frame_fn)(struct channel *channel, const struct header *header, struct reader *payload, int *fds);
/* Called when it is no longer full. */
typedef void (*room_fn)(struct channel *channel);

struct channel {
    struct source in_source, out_source;
    int in, out;
    bool is_socket;
    bool bounded; /* end it rather than let too much wait for it */
    bool greeted;
    bool failing; /* nothing is taken or told any more: it ends when its last words are sent */
    bool ended;
    bool heard; /* a frame came, and */
    bool moved; /* something was sent, since somebody last asked */
    bool was_full;
    frame_fn handle;
    room_fn has_room;

    uint8_t *received;
    size_t received_size;
    int fds[MAX_QUEUED_FDS];
    size_t fd_count;

    uint8_t *queue;
    size_t queue_start, queue_size, queue_room;
    uint64_t sent;
    struct passenger *passengers; /* descriptors that wait to be sent */
    size_t passenger_count;

    /* What the host at the other end holds here. Each part of the supervisor looks after its own. */
    struct jobs jobs;
    struct root *roots;
    struct opened *opened;
    struct watcher *watchers;
    struct listener *listeners;
    struct attempt *attempts;
    struct relayed *relayed;

    /* Who speaks to us: connections.c */
    struct channel *next;
    int64_t opened_at, stuck_since;
};

/* Speak over `in` and `out`, which may be the same socket and are taken over; or NULL, and they are not. */
struct channel *channel_open(int in, int out, frame_fn handle, room_fn has_room);
/* Give back all that it has. What the host held here has to be given back before. */
void channel_free(struct channel *channel);
/* Say and take nothing more. It is there until it is freed. */
void channel_end(struct channel *channel);
/* Whether so much waits to be sent that no more output should be read. */
bool channel_full(const struct channel *channel);

/* Nothing is ever waited for, and a channel that has ended, or is NULL, swallows all. */

/* Send the message that was begun with message_begin; with a copy of a descriptor if `fd` is not -1. */
void channel_send(struct channel *channel);
void channel_send_with(struct channel *channel, int fd);
/* The same with the descriptor itself, which is taken over. */
void channel_hand_over(struct channel *channel, int fd);
/* Answers that many requests have. */
void channel_ok(struct asker asker);
void channel_failed(struct asker asker, int error, enum stage stage);
/* The host does not keep to the protocol, or nothing can be done any more: say why, and end. */
void channel_fail(struct channel *channel, const char *why);

#endif
