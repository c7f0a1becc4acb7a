/* Removing a tree that somebody hostile may have made: links, any depth, any mode. */
#ifndef PADDOCK_REMOVAL_H
#define PADDOCK_REMOVAL_H

#include "asker.h"
#include "beneath.h"

/* Remove the directory at `place` and all below it, and answer the request when that is done. */
void tree_remove(struct asker asker, const struct place *place);

#endif
