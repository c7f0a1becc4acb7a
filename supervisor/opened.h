/* Files that are open for the host: to be read, or new and still without their name. A bounded number. */
#ifndef PADDOCK_OPENED_H
#define PADDOCK_OPENED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each answers the request `id`, and takes over no descriptor. */
void opened_read(uint32_t id, int root, const char *path);
void opened_create(uint32_t id, int root, const char *directory);
void opened_data(uint32_t id, uint32_t file, uint64_t offset, uint32_t size);
void opened_append(uint32_t id, uint32_t file, const uint8_t *data, size_t size);
void opened_put(uint32_t id, uint32_t file, const char *name, uint32_t mode, bool replace);
void opened_close(uint32_t id, uint32_t file);

/* Close all of them; new ones are removed. */
void opened_close_all(void);

#endif
