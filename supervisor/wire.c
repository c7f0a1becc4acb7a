#include "wire.h"

#include <stdlib.h>
#include <string.h>

bool header_read(const uint8_t bytes[HEADER_SIZE], struct header *header)
{
    struct reader reader = {bytes, bytes + HEADER_SIZE, false};

    header->size = take_u32(&reader);
    header->type = take_u8(&reader);
    header->fds = take_u8(&reader);
    uint16_t zero = take_u16(&reader);
    header->id = take_u32(&reader);
    return header->size <= MAX_PAYLOAD && header->fds <= MAX_FDS && zero == 0;
}

static void write_number(uint8_t *at, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

void header_write(uint8_t bytes[HEADER_SIZE], const struct header *header)
{
    write_number(bytes, header->size, 4);
    bytes[4] = header->type;
    bytes[5] = header->fds;
    write_number(bytes + 6, 0, 2);
    write_number(bytes + 8, header->id, 4);
}

static uint64_t take_number(struct reader *reader, size_t size)
{
    uint64_t value = 0;

    if (reader->bad || (size_t)(reader->end - reader->at) < size) {
        reader->bad = true;
        return 0;
    }
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)reader->at[i] << (8 * i);
    reader->at += size;
    return value;
}

uint8_t take_u8(struct reader *reader)
{
    return (uint8_t)take_number(reader, 1);
}

uint16_t take_u16(struct reader *reader)
{
    return (uint16_t)take_number(reader, 2);
}

uint32_t take_u32(struct reader *reader)
{
    return (uint32_t)take_number(reader, 4);
}

uint64_t take_u64(struct reader *reader)
{
    return take_number(reader, 8);
}

const char *take_text(struct reader *reader)
{
    uint32_t size = take_u32(reader);

    if (reader->bad || (size_t)(reader->end - reader->at) <= size || memchr(reader->at, 0, size + 1u) != reader->at + size) {
        reader->bad = true;
        return "";
    }
    const char *text = (const char *)reader->at;
    reader->at += size + 1u;
    return text;
}

bool reader_done(const struct reader *reader)
{
    return !reader->bad && reader->at == reader->end;
}

char **take_texts(struct reader *reader, uint32_t most)
{
    uint32_t count = take_u32(reader);

    /* Each takes five bytes at least, so a count that lies costs no memory. */
    if (reader->bad || count > most || count > (size_t)(reader->end - reader->at) / 5) {
        reader->bad = true;
        return NULL;
    }
    char **texts = calloc((size_t)count + 1, sizeof *texts);
    if (texts == NULL) {
        reader->bad = true;
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++)
        texts[i] = (char *)(uintptr_t)take_text(reader); /* execve wants them without const, and does not write */
    return texts;
}

static uint8_t frame[HEADER_SIZE + MAX_PAYLOAD];
static size_t frame_size;
static bool frame_bad;

void message_begin(uint8_t type, uint32_t id)
{
    header_write(frame, &(struct header){.type = type, .id = id});
    frame_size = HEADER_SIZE;
    frame_bad = false;
}

size_t message_room(void)
{
    return sizeof frame - frame_size;
}

uint8_t *put_space(size_t size)
{
    if (frame_bad || size > message_room()) {
        frame_bad = true;
        return NULL;
    }
    uint8_t *at = frame + frame_size;
    frame_size += size;
    return at;
}

void put_back(size_t size)
{
    frame_size -= size < frame_size - HEADER_SIZE ? size : frame_size - HEADER_SIZE;
}

static void put_number(uint64_t value, size_t size)
{
    uint8_t *at = put_space(size);

    if (at != NULL)
        write_number(at, value, size);
}

void put_u8(uint8_t value)
{
    put_number(value, 1);
}

void put_u16(uint16_t value)
{
    put_number(value, 2);
}

void put_u32(uint32_t value)
{
    put_number(value, 4);
}

void put_u64(uint64_t value)
{
    put_number(value, 8);
}

void put_text(const char *text)
{
    size_t size = strlen(text);

    put_u32((uint32_t)size);
    uint8_t *at = put_space(size + 1);
    if (at != NULL)
        memcpy(at, text, size + 1);
}

const uint8_t *message_bytes(size_t *size)
{
    if (frame_bad)
        return NULL;
    write_number(frame, frame_size - HEADER_SIZE, 4);
    *size = frame_size;
    return frame;
}

static bool is_complete(const struct reader *reader, const struct spawn_request *request)
{
    return reader_done(reader) && request->argv != NULL && request->argv[0] != NULL && request->environment != NULL;
}

bool spawn_request_read(struct reader *reader, struct spawn_request *request)
{
    request->flags = take_u16(reader);
    request->rows = take_u16(reader);
    request->columns = take_u16(reader);
    request->window = take_u32(reader);
    request->keep = take_u32(reader);
    request->root = take_u32(reader);
    request->directory = take_text(reader);
    request->argv = take_texts(reader, MAX_PAYLOAD);
    request->environment = take_texts(reader, MAX_PAYLOAD);
    if (is_complete(reader, request))
        return true;
    spawn_request_free(request);
    return false;
}

void spawn_request_free(struct spawn_request *request)
{
    free(request->argv);
    free(request->environment);
    request->argv = request->environment = NULL;
}
