/* One connection whose bytes travel in frames: what the peer inside sends as the window allows, and what waits for it to be taken. */
#ifndef PADDOCK_RELAYED_H
#define PADDOCK_RELAYED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "asker.h"
#include "channel.h"

#define RELAY_WINDOW (128u << 10) /* bytes of the host's that may wait for the peer */

struct relayed *relayed_find(const struct channel *channel, uint32_t id);
/* Whether one more may be: those that only wait for their peers to take the rest make room. False with errno. */
bool relayed_has_room(struct channel *channel);
/* Carry the bytes of `fd`, which is taken over. False with errno, and it is closed. */
bool relayed_open(struct asker asker, int fd, uint32_t window);
/* Bytes for the peer; none means that there will be no more. False when the host sends more than it may. */
bool relayed_pass(struct relayed *relayed, const uint8_t *data, size_t size);
/* The host takes so much more. */
void relayed_allow(struct relayed *relayed, uint32_t more);
/* The host has hung up. What the peer has not taken yet it still gets, unless this is to be the end `now`. */
void relayed_leave(struct relayed *relayed, bool now);
/* Go on, when the channel is no longer full. */
void relayed_resume(struct channel *channel);
void relayed_close(struct channel *channel);

#endif
