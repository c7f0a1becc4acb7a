#include "ring.h"

#include <stdlib.h>
#include <string.h>

void ring_append(struct ring *ring, const uint8_t *data, size_t size)
{
    if (ring->size == 0)
        return;
    if (ring->data == NULL && (ring->data = malloc(ring->size)) == NULL) {
        ring->size = 0; /* no memory for it is no reason to lose the command */
        return;
    }
    if (size > ring->size) {
        data += size - ring->size;
        size = ring->size;
    }
    size_t over = ring->used + size > ring->size ? ring->used + size - ring->size : 0;
    ring->start = (ring->start + over) % ring->size;
    ring->used -= over;
    size_t at = (ring->start + ring->used) % ring->size;
    size_t first = size < ring->size - at ? size : ring->size - at;
    memcpy(ring->data + at, data, first);
    memcpy(ring->data, data + first, size - first);
    ring->used += size;
}

size_t ring_copy(const struct ring *ring, size_t from, uint8_t *to, size_t size)
{
    size_t left = from < ring->used ? ring->used - from : 0;

    size = size < left ? size : left;
    for (size_t i = 0; i < size; i++)
        to[i] = ring->data[(ring->start + from + i) % ring->size];
    return size;
}

void ring_free(struct ring *ring)
{
    free(ring->data);
    *ring = (struct ring){0};
}
