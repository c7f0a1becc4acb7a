/* One stream of a command, held here: output that is sent as the window allows, and input that waits to be taken. */
#ifndef PADDOCK_STREAMS_H
#define PADDOCK_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "channel.h"
#include "loop.h"
#include "ring.h"

#define INPUT_WINDOW (256u << 10)

/* Whose a command is: who is told of it, and how much. All its streams share one. */
struct owner {
    struct channel *channel; /* NULL: nobody's. Then its output is read and kept as if somebody took it all */
    uint32_t id;
    uint32_t window;
};

struct output {
    struct source source; /* first, so that it is the output too */
    int fd;               /* -1 when it has ended */
    uint8_t stream;
    bool dropping; /* the command has ended: what its children print is thrown away */
    struct owner *owner;
    struct ring ring;
};

struct input {
    struct source source;
    int fd; /* -1 when it is closed */
    const struct owner *owner;
    bool terminal, closing;
    uint8_t *data;
    size_t start, size;
};

/* `fd` is taken over. */
void output_open(struct output *output, int fd, struct owner *owner, uint8_t stream, size_t keep);
/* Wait for more, if its owner may be sent more. */
void output_resume(struct output *output);
/* Send all that is there now, whatever the window. From now on the rest is thrown away. */
void output_drain(struct output *output);
/* Send again what was kept. */
void output_replay(const struct output *output);
/* There is no more of it than what was kept. */
void output_end(struct output *output);
void output_close(struct output *output);

void input_open(struct input *input, int fd, const struct owner *owner, bool terminal);
/* Take more input; none is its end. False when the host sends more than it may. */
bool input_add(struct input *input, const uint8_t *data, size_t size);
/* Tell the owner how much more it may send, or that it is closed. */
void input_tell_room(const struct input *input);
void input_close(struct input *input);

/* Read from `fd` and throw it away until it ends; `fd` is taken over. */
void drop(int fd);
/* The same for what is left of one: somebody may still write to it whom nobody knows of any more. */
void output_leave(struct output *output);

#endif
