/* Who asked, and by which number: where an answer goes. */
#ifndef PADDOCK_ASKER_H
#define PADDOCK_ASKER_H

#include <stdint.h>

struct channel;

struct asker {
    struct channel *channel;
    uint32_t id;
};

#endif
