/* Who speaks to us: the channels, from the moment somebody connects until what they held is given back; and how long we stay.
 *
 * With one channel and no socket to listen on, the end of the channel is the end of all. Otherwise hosts come and go. */
#ifndef PADDOCK_CONNECTIONS_H
#define PADDOCK_CONNECTIONS_H

#include <stdbool.h>

#include "channel.h"

/* On what terms we stay. */
struct terms {
    int listen;   /* a socket on which hosts connect, or -1 */
    bool relayed; /* those who connect there are only bytes on their way to a host: descriptors cannot travel */
    bool once;    /* the first that connects is the only one, and its end is the end of all; it has a minute to come */
    int idle;     /* seconds without anybody and without a command, or 0 */
    int lifetime; /* seconds since the start, or 0 */
};

/* Begin; `handle` is given every frame. */
void connections_open(const struct terms *terms, frame_fn handle);
/* One more channel, over `in` and `out`, which are taken over. False when that cannot be, and they are not. */
bool connections_add(int in, int out);
/* Let go of those that have ended, and of those that have kept us waiting too long; milliseconds until the next time, or -1. */
int connections_tick(void);
/* Whether it is time to end. */
bool connections_over(void);
/* Let go of everybody, when no command is left. */
void connections_close(void);

#endif
