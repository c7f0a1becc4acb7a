/* One stream of a command, held here: output that is sent as the window allows, and input that waits to be taken. */
#ifndef PADDOCK_STREAMS_H
#define PADDOCK_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop.h"
#include "ring.h"

#define INPUT_WINDOW (256u << 10)

struct output {
    struct source source; /* first, so that it is the output too */
    int fd;               /* -1 when it has ended */
    uint32_t id;
    uint8_t stream;
    bool dropping; /* the command has ended: what its children print is thrown away */
    uint32_t *window; /* shared by the streams of a command */
    struct ring ring;
};

struct input {
    struct source source;
    int fd; /* -1 when it is closed */
    uint32_t id;
    bool terminal, closing;
    uint8_t *data;
    size_t start, size;
};

/* `fd` is taken over. */
void output_open(struct output *output, int fd, uint32_t id, uint8_t stream, uint32_t *window, size_t keep);
/* Wait for more, if there is window and the channel is not full. */
void output_resume(struct output *output);
/* Send all that is there now, whatever the window. */
void output_drain(struct output *output);
/* Send again what was kept. */
void output_replay(const struct output *output);
void output_close(struct output *output);

void input_open(struct input *input, int fd, uint32_t id, bool terminal);
/* Take more input; none is its end. False when the host sends more than it may. */
bool input_add(struct input *input, const uint8_t *data, size_t size);
/* Tell the host how much more it may send. */
void input_tell_room(const struct input *input);
void input_close(struct input *input);

/* Read from `fd` and throw it away until it ends; `fd` is taken over. */
void drop(int fd);

#endif
