/* The last bytes of a stream. */
#ifndef PADDOCK_RING_H
#define PADDOCK_RING_H

#include <stddef.h>
#include <stdint.h>

#define MAX_RING (1u << 20)

struct ring {
    uint8_t *data;
    size_t size; /* 0: nothing is kept */
    size_t start, used;
};

void ring_append(struct ring *ring, const uint8_t *data, size_t size);
/* Copy up to `size` of the oldest bytes from position `from` on; how many. */
size_t ring_copy(const struct ring *ring, size_t from, uint8_t *to, size_t size);
void ring_free(struct ring *ring);

#endif
