/* Directory entries as they are told to the host. */
#ifndef PADDOCK_NODES_H
#define PADDOCK_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include "asker.h"
#include "beneath.h"

/* Answer with the entry at `place`. */
void node_send(struct asker asker, const struct place *place);

/* What is told of each entry of a directory. */
enum listing_kind { LISTING_NAMES, LISTING_NODES, LISTING_WATCHED };

/* Answer with the entries of `directory`, a listable handle that is taken over. `watch` is told with LISTING_WATCHED. */
void listing_start(struct asker asker, int directory, enum listing_kind kind, uint32_t watch);

#endif
