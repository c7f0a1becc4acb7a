/* The commands that run: their input and output where no descriptors were given, and what the host is told of them. */
#ifndef PADDOCK_COMMANDS_H
#define PADDOCK_COMMANDS_H

#include <stdbool.h>

#include "channel.h"
#include "wire.h"

/* Handle one of the requests REQ_SPAWN to REQ_ATTACH. False when it is malformed. */
bool commands_request(struct channel *channel, const struct header *header, struct reader *payload, int *fds);
/* Read on where reading stopped because too much waited to be sent over this channel. */
void commands_resume(struct channel *channel);
/* The channel has ended. What it waited for is killed, and what it started in the background is nobody's from now on. */
void commands_leave(struct channel *channel);
/* When all trees are closed: nobody will ask any more how a command ended. */
void commands_close(void);
/* Whether there is a command that has not ended. */
bool commands_running(void);

#endif
