/* Waiting for many descriptors at once, one event at a time: a handler may free any source, its own too. */
#ifndef PADDOCK_LOOP_H
#define PADDOCK_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct source;
typedef void (*ready_fn)(struct source *source, uint32_t events);

struct source {
    int fd; /* -1 while it is not waited for */
    uint32_t events;
    ready_fn ready;
};

void loop_open(void);
/* Wait for `events` (EPOLLIN and so on) on `fd`; false with errno when the kernel cannot. */
bool loop_add(struct source *source, int fd, uint32_t events, ready_fn ready);
/* Wait for other events; 0 is none but errors and hang-ups, so use loop_remove for rest. */
void loop_change(struct source *source, uint32_t events);
/* Wait no more. The descriptor stays open. */
void loop_remove(struct source *source);
/* Handle one event; `milliseconds` is how long to wait for it (-1 for ever). Whether there was one. */
bool loop_once(int milliseconds);

#endif
