/* The fuzzer without libFuzzer: the files that are named, and then so many changed ones, always the same for the same seed.
 *
 * usage: fuzz ITERATIONS SEED FILE... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define MOST_SEEDS 1024
#define MOST_SIZE 8192

static struct {
    uint8_t *data;
    size_t size;
} seeds[MOST_SEEDS];
static size_t seed_count;
static uint64_t state;

static uint32_t next(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16) % below;
}

static void load(const char *path)
{
    FILE *file = fopen(path, "rb");

    if (file == NULL || seed_count == MOST_SEEDS)
        exit(2);
    seeds[seed_count].data = malloc(MOST_SIZE);
    seeds[seed_count].size = fread(seeds[seed_count].data, 1, MOST_SIZE, file);
    fclose(file);
    seed_count++;
}

static const uint8_t interesting[] = {0x00, 0x01, 0x02, 0x08, 0x09, 0x10, 0x20, 0x2f, 0x7f, 0x80, 0xff};

/* Change a few bytes; most often the ones in numbers, by what borders are made of. */
static size_t mutate(uint8_t *data, size_t size)
{
    for (uint32_t times = next(5); times > 0 && size > 1; times--) {
        uint32_t at = next((uint32_t)size);
        switch (next(5)) {
        case 0: data[at] = (uint8_t)next(256); break;
        case 1: data[at] = interesting[next(sizeof interesting)]; break;
        case 2: data[at] ^= (uint8_t)(1u << next(8)); break;
        case 3: size = at; break;
        default:
            if (size < 2 * MOST_SIZE - 1) {
                memmove(data + at + 1, data + at, size - at);
                size++;
            }
        }
    }
    return size;
}

/* Some frames after another, of which few are changed: the supervisor goes far before it refuses. */
static void one(void)
{
    uint8_t data[16 * MOST_SIZE];
    size_t size = 1;

    data[0] = next(4) ? (uint8_t)(next(64) | 2u) : (uint8_t)next(256);
    for (uint32_t frames = 1 + next(6); frames > 0; frames--) {
        uint32_t seed = next((uint32_t)seed_count);
        if (size + 2 * MOST_SIZE > sizeof data || seeds[seed].size < 1)
            continue;
        size_t more = seeds[seed].size - 1;
        memcpy(data + size, seeds[seed].data + 1, more);
        size += next(3) ? more : mutate(data + size, more);
    }
    uint8_t *exact = malloc(size);
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    state = strtoull(argv[2], NULL, 10) * 0x9e3779b97f4a7c15u + 1;
    for (int i = 3; i < argc; i++)
        load(argv[i]);
    for (size_t i = 0; i < seed_count; i++)
        LLVMFuzzerTestOneInput(seeds[i].data, seeds[i].size);
    for (long left = strtol(argv[1], NULL, 10); left > 0; left--)
        one();
    for (size_t i = 0; i < seed_count; i++)
        free(seeds[i].data);
    return 0;
}
