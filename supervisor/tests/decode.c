/* Frames taken apart and put together again by the supervisor's own functions, for tests/wire/test_vectors.py.
 *
 * A line of input is the kinds of a payload's fields and the bytes of a frame, both without spaces. The kinds are B, H, I and Q
 * for numbers, T for a text, L for a list of texts, R for the rest, (..) for a count and so many of what is inside, and - for
 * nothing. A line of output is the frame's type, id and descriptors, its fields, and the bytes that the same fields give again;
 * or "bad header", "bad payload". */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../wire.h"

#define MOST_TEXTS 64

static void print_bytes(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        printf("%02x", bytes[i]);
}

static void copy_text(struct reader *reader)
{
    const char *text = take_text(reader);

    printf(" '");
    print_bytes((const uint8_t *)text, strlen(text));
    put_text(text);
}

static void copy_texts(struct reader *reader)
{
    char **texts = take_texts(reader, MOST_TEXTS);
    uint32_t count = 0;

    if (texts == NULL)
        return;
    while (!reader->bad && texts[count] != NULL)
        count++;
    printf(" %" PRIu32, count);
    put_u32(count);
    for (uint32_t i = 0; i < count; i++) {
        printf(" '");
        print_bytes((const uint8_t *)texts[i], strlen(texts[i]));
        put_text(texts[i]);
    }
    free(texts);
}

static void copy_rest(struct reader *reader)
{
    size_t size = reader->bad ? 0 : (size_t)(reader->end - reader->at);
    uint8_t *space = put_space(size);

    printf(" '");
    print_bytes(reader->at, size);
    if (space != NULL)
        memcpy(space, reader->at, size);
    reader->at += size;
}

static void copy_number(struct reader *reader, char kind)
{
    uint64_t value;

    if (kind == 'B')
        put_u8((uint8_t)(value = take_u8(reader)));
    else if (kind == 'H')
        put_u16((uint16_t)(value = take_u16(reader)));
    else if (kind == 'I')
        put_u32((uint32_t)(value = take_u32(reader)));
    else
        put_u64(value = take_u64(reader));
    printf(" %" PRIu64, value);
}

static const char *copy_fields(struct reader *reader, const char *kinds);

static const char *copy_list(struct reader *reader, const char *kinds)
{
    uint32_t count = take_u32(reader);

    printf(" %" PRIu32, count);
    put_u32(count);
    for (uint32_t i = 0; i < count && !reader->bad; i++)
        copy_fields(reader, kinds);
    return strchr(kinds, ')');
}

static const char *copy_fields(struct reader *reader, const char *kinds)
{
    for (; *kinds != '\0' && *kinds != ')' && !reader->bad; kinds++) {
        if (*kinds == 'T')
            copy_text(reader);
        else if (*kinds == 'L')
            copy_texts(reader);
        else if (*kinds == 'R')
            copy_rest(reader);
        else if (*kinds == '(')
            kinds = copy_list(reader, kinds + 1);
        else if (*kinds != '-')
            copy_number(reader, *kinds);
    }
    return kinds;
}

/* The result in a buffer of exactly its size, so that reading beyond its end is noticed. */
static uint8_t *from_hex(const char *text, size_t *size)
{
    *size = strlen(text) / 2;
    uint8_t *bytes = malloc(*size ? *size : 1);

    if (bytes == NULL)
        abort();
    for (size_t i = 0; i < *size; i++)
        sscanf(text + 2 * i, "%2hhx", &bytes[i]);
    return bytes;
}

static void decode(const char *kinds, const uint8_t *bytes, size_t size)
{
    struct header header;

    if (size < HEADER_SIZE || !header_read(bytes, &header)) {
        printf("bad header");
        return;
    }
    if (size != HEADER_SIZE + header.size) {
        printf("bad size");
        return;
    }
    struct reader reader = {bytes + HEADER_SIZE, bytes + size, false};
    printf("%u %" PRIu32 " %u", header.type, header.id, header.fds);
    message_begin(header.type, header.id);
    copy_fields(&reader, kinds);
    if (!reader_done(&reader)) {
        printf(" bad payload");
        return;
    }
    uint8_t *again = (uint8_t *)(uintptr_t)message_bytes(&size);
    again[5] = header.fds;
    printf(" ");
    print_bytes(again, size);
}

int main(void)
{
    static char kinds[256], hex[65536];
    size_t size;

    while (scanf("%255s %65535s", kinds, hex) == 2) {
        uint8_t *bytes = from_hex(hex, &size);
        decode(kinds, bytes, size);
        free(bytes);
        printf("\n");
    }
    return 0;
}
