#include "streams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "wire.h"

#define PIECE (64u << 10)
#define END_OF_INPUT 4 /* what Ctrl-D sends on a terminal */

/* Output */

void output_open(struct output *output, int fd, struct owner *owner, uint8_t stream, size_t keep)
{
    *output = (struct output){.source.fd = -1, .fd = fd, .stream = stream, .owner = owner};
    output->ring.size = keep < MAX_RING ? keep : MAX_RING;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    output_resume(output);
}

void output_end(struct output *output)
{
    loop_remove(&output->source);
    if (output->fd >= 0)
        close(output->fd);
    output->fd = -1;
}

void output_close(struct output *output)
{
    output_end(output);
    ring_free(&output->ring);
}

/* How much may be read now. */
static size_t most_to_send(const struct output *output)
{
    const struct owner *owner = output->owner;

    if (output->dropping || owner->channel == NULL)
        return PIECE;
    if (channel_full(owner->channel))
        return 0;
    return owner->window < PIECE ? owner->window : PIECE;
}

/* Send one piece; what `read` said of it. */
static ssize_t send_piece(struct output *output, size_t most)
{
    struct owner *owner = output->owner;

    message_begin(REP_OUTPUT, owner->id);
    put_u8(output->stream);
    uint8_t *space = put_space(most);
    ssize_t size = read(output->fd, space, most);
    if (size <= 0)
        return size;
    put_back(most - (size_t)size);
    ring_append(&output->ring, space, (size_t)size);
    owner->window -= (uint32_t)size < owner->window ? (uint32_t)size : owner->window;
    channel_send(owner->channel);
    return size;
}

static ssize_t throw_away(int fd)
{
    static uint8_t nowhere[PIECE];

    return read(fd, nowhere, sizeof nowhere);
}

static void on_output(struct source *source, uint32_t events)
{
    struct output *output = (struct output *)source;
    size_t most = most_to_send(output);

    (void)events;
    if (most == 0) {
        loop_remove(source);
        return;
    }
    ssize_t size = output->dropping ? throw_away(output->fd) : send_piece(output, most);
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) /* a terminal ends with EIO */
        output_end(output);
}

void output_resume(struct output *output)
{
    if (output->fd >= 0 && output->source.fd < 0 && most_to_send(output) > 0)
        loop_add(&output->source, output->fd, EPOLLIN, on_output);
}

void output_drain(struct output *output)
{
    ssize_t size = 1;

    /* Bounded, because somebody may go on writing: no pipe or terminal holds more than this. */
    for (int pieces = 0; output->fd >= 0 && size > 0 && pieces < 17; pieces++)
        size = send_piece(output, PIECE);
    if (output->fd >= 0 && (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)))
        output_end(output);
    output->dropping = true;
    output_resume(output);
}

void output_replay(const struct output *output)
{
    size_t from = 0, size;

    do {
        message_begin(REP_OUTPUT, output->owner->id);
        put_u8(output->stream);
        uint8_t *space = put_space(PIECE);
        size = ring_copy(&output->ring, from, space, PIECE);
        put_back(PIECE - size);
        from += size;
        if (size > 0)
            channel_send(output->owner->channel);
    } while (size == PIECE);
}

/* Input */

void input_open(struct input *input, int fd, const struct owner *owner, bool terminal)
{
    *input = (struct input){.source.fd = -1, .fd = fd, .owner = owner, .terminal = terminal};
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

void input_close(struct input *input)
{
    loop_remove(&input->source);
    if (input->fd >= 0)
        close(input->fd);
    input->fd = -1;
    free(input->data);
    input->data = NULL;
    input->start = input->size = 0;
}

static void tell_window(const struct owner *owner, size_t size)
{
    message_begin(REP_WINDOW, owner->id);
    put_u32((uint32_t)size);
    channel_send(owner->channel);
}

static void tell_closed(const struct owner *owner)
{
    channel_failed((struct asker){owner->channel, owner->id}, EPIPE, STAGE_NONE);
}

void input_tell_room(const struct input *input)
{
    if (input->fd < 0 || input->closing)
        tell_closed(input->owner);
    else if (input->size < INPUT_WINDOW)
        tell_window(input->owner, INPUT_WINDOW - input->size);
}

static void on_writable(struct source *source, uint32_t events);

static void write_on(struct input *input)
{
    while (input->size > 0) {
        ssize_t size = write(input->fd, input->data + input->start, input->size);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0 && errno == EAGAIN) {
            if (input->source.fd < 0)
                loop_add(&input->source, input->fd, EPOLLOUT, on_writable);
            return;
        }
        if (size < 0) {
            input_close(input);
            tell_closed(input->owner);
            return;
        }
        input->start += (size_t)size;
        input->size -= (size_t)size;
        tell_window(input->owner, (size_t)size);
    }
    input->start = 0;
    loop_remove(&input->source);
    if (input->closing)
        input_close(input);
}

static void on_writable(struct source *source, uint32_t events)
{
    (void)events;
    write_on((struct input *)source);
}

static bool append(struct input *input, const uint8_t *data, size_t size)
{
    if (input->size + size > INPUT_WINDOW + 1)
        return false;
    if (input->data == NULL && (input->data = malloc(INPUT_WINDOW + 1)) == NULL)
        return false;
    memmove(input->data, input->data + input->start, input->size);
    input->start = 0;
    memcpy(input->data + input->size, data, size);
    input->size += size;
    return true;
}

bool input_add(struct input *input, const uint8_t *data, size_t size)
{
    static const uint8_t end = END_OF_INPUT;

    if (input->fd < 0 || input->closing)
        return true; /* the command, or its input, ended while this was on its way */
    if (size == 0 && input->terminal) {
        data = &end;
        size = 1;
    } else if (size == 0) {
        input->closing = true;
    }
    if (!append(input, data, size))
        return false;
    write_on(input);
    return true;
}

/* Output of commands that have ended */

static void on_dropped(struct source *source, uint32_t events)
{
    (void)events;
    ssize_t size = throw_away(source->fd);
    if (size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    int fd = source->fd;
    loop_remove(source);
    close(fd);
    free(source);
}

void output_leave(struct output *output)
{
    int fd = output->fd;

    loop_remove(&output->source);
    output->fd = -1;
    if (fd >= 0)
        drop(fd);
}

void drop(int fd)
{
    struct source *source = malloc(sizeof *source);

    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    if (source != NULL && loop_add(source, fd, EPOLLIN, on_dropped))
        return;
    free(source);
    close(fd);
}
