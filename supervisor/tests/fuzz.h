/* What the parts of the fuzzer know of each other. */
#ifndef PADDOCK_FUZZ_H
#define PADDOCK_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../channel.h"

extern int scratch; /* the directory in which everything happens */

void supervisor_reset(void);
bool supervisor_handle(struct channel *channel, const struct header *header, struct reader *payload, int *fds);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
