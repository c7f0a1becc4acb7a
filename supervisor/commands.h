/* The commands that run: their input and output where no descriptors were given, and what the host is told of them. */
#ifndef PADDOCK_COMMANDS_H
#define PADDOCK_COMMANDS_H

#include <stdbool.h>

#include "wire.h"

/* Handle one of the requests REQ_SPAWN to REQ_ATTACH. False when it is malformed. */
bool commands_request(const struct header *header, struct reader *payload, int *fds);
/* Read on where reading stopped because too much waited to be sent. */
void commands_resume(void);

#endif
