/* Files that are open for the host: to be read, or new and still without their name. A bounded number for each channel. */
#ifndef PADDOCK_OPENED_H
#define PADDOCK_OPENED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "asker.h"

/* Each answers the request, and takes over no descriptor. */
void opened_read(struct asker asker, int root, const char *path);
void opened_create(struct asker asker, int root, const char *directory);
void opened_data(struct asker asker, uint32_t file, uint64_t offset, uint32_t size);
void opened_append(struct asker asker, uint32_t file, const uint8_t *data, size_t size);
void opened_put(struct asker asker, uint32_t file, const char *name, uint32_t mode, bool replace);
void opened_close(struct asker asker, uint32_t file);

/* Close all that a channel has; new ones are removed. */
void opened_close_all(struct channel *channel);

#endif
