#include "nodes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "channel.h"
#include "jobs.h"
#include "wire.h"

#define FRAME (64u << 10) /* of entries, more or less */
#define LOOKS 100         /* at something that is swapped for a link and back meanwhile */

/* Of the largest node: its numbers, a name and a target. */
#define MAX_NODE (64 + NAME_MAX + PATH_MAX)

struct node {
    struct stat info;
    char target[PATH_MAX];
};

static enum node_kind kind_of(mode_t mode)
{
    if (S_ISREG(mode))
        return NODE_FILE;
    if (S_ISDIR(mode))
        return NODE_DIRECTORY;
    return S_ISLNK(mode) ? NODE_LINK : NODE_OTHER;
}

/* In nanoseconds, held within what can be told: a file may claim any time. */
static uint64_t nanoseconds(const struct timespec *time)
{
    int64_t value;

    if (__builtin_mul_overflow((int64_t)time->tv_sec, INT64_C(1000000000), &value)
        || __builtin_add_overflow(value, (int64_t)time->tv_nsec, &value))
        value = time->tv_sec < 0 ? INT64_MIN : INT64_MAX;
    return (uint64_t)value;
}

/* False with errno. */
static bool look(struct node *node, int directory, const char *name)
{
    node->target[0] = '\0';
    for (int i = 0; i < LOOKS; i++) {
        if (fstatat(directory, name, &node->info, AT_SYMLINK_NOFOLLOW) < 0)
            return false;
        if (!S_ISLNK(node->info.st_mode))
            return true;
        ssize_t size = readlinkat(directory, name, node->target, sizeof node->target - 1);
        if (size >= 0) {
            node->target[size] = '\0';
            return true;
        }
        if (errno != EINVAL) /* which says that it is no longer a link */
            return false;
    }
    errno = EAGAIN;
    return false;
}

static void put_node(const struct node *node, const char *name)
{
    put_u8((uint8_t)kind_of(node->info.st_mode));
    put_u64((uint64_t)node->info.st_size);
    put_u16((uint16_t)(node->info.st_mode & 0777));
    put_u64(nanoseconds(&node->info.st_mtim));
    put_text(name);
    put_text(node->target);
}

void node_send(struct asker asker, const struct place *place)
{
    struct node node;

    if (!look(&node, place->directory, place->name)) {
        channel_failed(asker, errno, STAGE_NONE);
        return;
    }
    message_begin(REP_NODE, asker.id);
    put_node(&node, strcmp(place->name, ".") == 0 ? "" : place->name);
    channel_send(asker.channel);
}

struct listing {
    struct job job;
    DIR *entries;
    enum listing_kind kind;
    uint32_t watch;
};

static enum node_kind entry_kind(int directory, const struct dirent *entry)
{
    struct stat info;

    if (entry->d_type != DT_UNKNOWN)
        return kind_of((mode_t)DTTOIF(entry->d_type));
    if (fstatat(directory, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) < 0)
        return NODE_OTHER; /* removed since the directory was read */
    return kind_of(info.st_mode);
}

/* What is known of an entry without looking at it: its name and kind. */
static void put_bare(enum node_kind kind, const char *name)
{
    put_u8((uint8_t)kind);
    put_u64(0);
    put_u16(0);
    put_u64(0);
    put_text(name);
    put_text("");
}

/* Put one entry into the message, unless it is gone. False with errno. */
static bool put_entry(const struct listing *listing, const struct dirent *entry, uint32_t *count)
{
    int directory = dirfd(listing->entries);
    struct node node;

    if (listing->kind == LISTING_WATCHED) {
        put_u8(entry_kind(directory, entry) == NODE_DIRECTORY);
        put_text(entry->d_name);
    } else if (listing->kind == LISTING_NAMES) {
        put_bare(entry_kind(directory, entry), entry->d_name);
    } else if (look(&node, directory, entry->d_name)) {
        put_node(&node, entry->d_name);
    } else {
        return errno == ENOENT;
    }
    ++*count;
    return true;
}

/* Fill one message; `more` says whether there may be others. False with errno. */
static bool put_entries(const struct listing *listing, uint32_t *count, bool *more)
{
    size_t room = message_room();

    while (room - message_room() < FRAME && message_room() > MAX_NODE) {
        errno = 0;
        const struct dirent *entry = readdir(listing->entries);
        if (entry == NULL) {
            *more = false;
            return errno == 0;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (!put_entry(listing, entry, count))
            return false;
    }
    *more = true;
    return true;
}

static void write_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

/* One frame: whether more follow and how many entries it has is known at its end, so it is written then. */
static bool step(struct job *job)
{
    const struct listing *listing = (struct listing *)job;
    bool more = false;
    uint32_t count = 0;

    message_begin(listing->kind == LISTING_WATCHED ? REP_WATCHED : REP_ENTRIES, job->asker.id);
    uint8_t *more_at = put_space(1);
    if (listing->kind == LISTING_WATCHED)
        put_u32(listing->watch);
    uint8_t *count_at = put_space(4);
    if (!put_entries(listing, &count, &more)) {
        channel_failed(job->asker, errno, STAGE_NONE);
        return true;
    }
    *more_at = more;
    write_u32(count_at, count);
    channel_send(job->asker.channel);
    return !more;
}

static void release(struct job *job)
{
    struct listing *listing = (struct listing *)job;

    closedir(listing->entries);
    free(listing);
}

void listing_start(struct asker asker, int directory, enum listing_kind kind, uint32_t watch)
{
    struct listing *listing = calloc(1, sizeof *listing);
    DIR *entries = listing ? fdopendir(directory) : NULL;

    if (entries == NULL) {
        channel_failed(asker, listing ? errno : ENOMEM, STAGE_NONE);
        close_quietly(directory);
        free(listing);
        return;
    }
    listing->job = (struct job){.asker = asker, .step = step, .release = release};
    listing->entries = entries;
    listing->kind = kind;
    listing->watch = watch;
    job_start(&listing->job);
}
