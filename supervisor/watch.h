/* Watchers: one inotify each, of single directories. What is a tree to the user is put together by the host. */
#ifndef PADDOCK_WATCH_H
#define PADDOCK_WATCH_H

#include <stdint.h>

#include "asker.h"

#define ALL_WATCHES 0xffffffffu

/* Let `watcher` watch `directory`, a listable handle that is taken over, and answer with what is in it. */
void watch_add(struct asker asker, uint32_t watcher, int directory);
/* Stop one watch, or the whole watcher. What is not there is no error. */
void watch_remove(struct channel *channel, uint32_t watcher, uint32_t watch);
/* Go on, when the channel is no longer full. */
void watches_resume(struct channel *channel);
/* Stop all that a channel has. */
void watches_close(struct channel *channel);

#endif
