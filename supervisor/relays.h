/* Relays: ports and sockets inside that lead to the host, and the other way. A connection is handed over as a descriptor, and then
 * it is none of ours; or its bytes travel in frames. */
#ifndef PADDOCK_RELAYS_H
#define PADDOCK_RELAYS_H

#include <stdbool.h>

#include "channel.h"
#include "wire.h"

/* Handle one of the requests REQ_LISTEN to REQ_HANG_UP. False when it is malformed. */
bool relays_request(struct channel *channel, const struct header *header, struct reader *payload);
/* Go on where we stopped because too much waited to be sent over this channel. */
void relays_resume(struct channel *channel);
/* The channel has ended, and all that it had here with it. */
void relays_close(struct channel *channel);

#endif
