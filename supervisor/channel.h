/* The channel to the host: frames in, frames out, and descriptors with them where it is a socket. */
#ifndef PADDOCK_CHANNEL_H
#define PADDOCK_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "wire.h"

/* Called for every frame. Descriptors that the handler does not set to -1 are closed afterwards. False ends the channel. */
typedef bool (*frame_fn)(const struct header *header, struct reader *payload, int *fds);

/* Speak over `in` and `out`, which may be the same socket. */
void channel_open(int in, int out, frame_fn handle);
/* Whether descriptors can travel. */
bool channel_passes_descriptors(void);
/* Whether it has ended, for whatever reason. */
bool channel_ended(void);
/* Whether so much waits to be sent that no more output should be read. */
bool channel_full(void);
/* Send the message that was begun with message_begin; with a descriptor if `fd` is not -1. */
void channel_send(void);
void channel_send_with(int fd);
/* Answers that many requests have. */
void channel_ok(uint32_t id);
void channel_failed(uint32_t id, int error, enum stage stage);
/* The host does not keep to the protocol, or nothing can be done any more: say why, and end. */
void channel_fail(const char *why);

#endif
