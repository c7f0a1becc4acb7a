/* Removing a tree that somebody hostile may have made: links, any depth, any mode. */
#ifndef PADDOCK_REMOVAL_H
#define PADDOCK_REMOVAL_H

#include <stdint.h>

#include "beneath.h"

/* Remove the directory at `place` and all below it, and answer the request `id` when that is done. */
void tree_remove(uint32_t id, const struct place *place);

#endif
