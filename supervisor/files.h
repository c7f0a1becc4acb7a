/* Files beneath the roots that the host named: the calls on the wire, and where commands start. */
#ifndef PADDOCK_FILES_H
#define PADDOCK_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "channel.h"
#include "wire.h"

/* Handle one of the requests REQ_ROOT and REQ_STAT to REQ_UNWATCH. False when it is malformed. */
bool files_request(struct channel *channel, const struct header *header, struct reader *payload);

/* Go on with what waited for the channel to have room; to be called whenever it may have. */
void files_resume(struct channel *channel);

/* Give back everything that a channel has, and remove new files that never got their name. */
void files_close(struct channel *channel);

/* Open what is at `path` below the directory `root`: no link anywhere on the way, no way out. -1 with errno. */
int open_beneath(int root, const char *path, int flags);

/* The descriptor of a root of this channel, or -1 with errno. */
int root_descriptor(const struct channel *channel, uint32_t root);

#endif
