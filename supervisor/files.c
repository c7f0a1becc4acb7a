#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "beneath.h"
#include "channel.h"
#include "jobs.h"
#include "nodes.h"
#include "opened.h"
#include "removal.h"
#include "watch.h"

#define MOST_ROOTS 256
#define LISTABLE (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

static struct {
    uint32_t id;
    int fd;
} roots[MOST_ROOTS];
static size_t root_count;

int root_descriptor(uint32_t root)
{
    for (size_t i = 0; i < root_count; i++)
        if (roots[i].id == root)
            return roots[i].fd;
    errno = EBADF;
    return -1;
}

static void answer(uint32_t id, bool fine)
{
    if (fine)
        channel_ok(id);
    else
        channel_failed(id, errno, STAGE_NONE);
}

/* Roots are what the host says: their paths are trusted, and links in them are followed. */
static void add_root(uint32_t id, const char *path)
{
    int fd = -1;

    if (root_descriptor(id) >= 0)
        errno = EEXIST;
    else if (root_count == MOST_ROOTS)
        errno = EMFILE;
    else
        fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        channel_failed(id, errno, STAGE_NONE);
        return;
    }
    roots[root_count].id = id;
    roots[root_count++].fd = fd;
    message_begin(REP_OK, id);
    channel_send_with(channel_passes_descriptors() ? fd : -1);
}

static bool make_directory(const struct place *place, mode_t mode)
{
    struct stat info;
    mode_t mask = umask(0);
    int made = mkdirat(place->directory, place->name, mode);

    umask(mask);
    if (made < 0 || fstatat(place->directory, place->name, &info, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    /* The directory above may give its children other modes than asked for. */
    return (info.st_mode & 0777) == mode || chmod_directory(place->directory, place->name, mode) == 0;
}

/* Remove an entry; a whole tree answers by itself when it is done. */
static void remove_at(uint32_t id, const struct place *place, bool tree)
{
    struct stat info;

    if (fstatat(place->directory, place->name, &info, AT_SYMLINK_NOFOLLOW) < 0)
        answer(id, false);
    else if (!S_ISDIR(info.st_mode))
        answer(id, unlinkat(place->directory, place->name, 0) == 0);
    else if (!tree || strcmp(place->name, ".") == 0) /* the root itself, which the kernel refuses */
        answer(id, unlinkat(place->directory, place->name, AT_REMOVEDIR) == 0);
    else
        tree_remove(id, place);
}

static bool rename_to(const struct place *from, int root, const char *path, uint8_t how)
{
    struct place to;
    int result = -1;

    if (place_open(&to, root, path)) {
        if (how == RENAME_OVER)
            result = renameat(from->directory, from->name, to.directory, to.name);
        else if (how == RENAME_NEW)
            result = rename_new(from->directory, from->name, to.directory, to.name);
        else
            result = rename_swap(from->directory, from->name, to.directory, to.name);
    }
    place_close(&to);
    return result == 0;
}

/* The fields that requests about a path have after it. */
struct more {
    uint8_t flag;
    uint16_t mode;
    const char *text;
};

static void at_place(const struct header *header, int root, const struct place *place, const struct more *more)
{
    switch (header->type) {
    case REQ_STAT:
        node_send(header->id, place);
        break;
    case REQ_MKDIR:
        answer(header->id, make_directory(place, more->mode & 0777));
        break;
    case REQ_REMOVE:
        remove_at(header->id, place, more->flag);
        break;
    case REQ_RENAME:
        answer(header->id, rename_to(place, root, more->text, more->flag));
        break;
    default:
        answer(header->id, symlinkat(more->text, place->directory, place->name) == 0);
    }
}

/* Requests about an entry, of which the directory is found first. */
static bool entry_request(const struct header *header, struct reader *payload)
{
    struct place place;
    struct more more = {0};
    int root = root_descriptor(take_u32(payload));
    const char *path = take_text(payload);

    if (header->type == REQ_RENAME || header->type == REQ_LINK)
        more.text = take_text(payload);
    if (header->type == REQ_REMOVE || header->type == REQ_RENAME)
        more.flag = take_u8(payload);
    if (header->type == REQ_MKDIR)
        more.mode = take_u16(payload);
    if (!reader_done(payload) || more.flag > (header->type == REQ_RENAME ? RENAME_SWAP : 1))
        return false;
    if (root < 0) {
        channel_failed(header->id, EBADF, STAGE_NONE);
        return true;
    }
    if (place_open(&place, root, path))
        at_place(header, root, &place, &more);
    else
        channel_failed(header->id, errno, STAGE_NONE);
    place_close(&place);
    return true;
}

static bool list_request(const struct header *header, struct reader *payload)
{
    int root = root_descriptor(take_u32(payload));
    const char *path = take_text(payload);
    uint8_t stats = take_u8(payload);

    if (!reader_done(payload) || stats > 1)
        return false;
    int directory = root < 0 ? -1 : open_beneath(root, path, LISTABLE);
    if (directory < 0)
        channel_failed(header->id, root < 0 ? EBADF : errno, STAGE_NONE);
    else
        listing_start(header->id, directory, stats ? LISTING_NODES : LISTING_NAMES, 0);
    return true;
}

static bool watch_request(const struct header *header, struct reader *payload)
{
    int root = root_descriptor(take_u32(payload));
    const char *path = take_text(payload);
    uint32_t watcher = take_u32(payload);

    if (!reader_done(payload))
        return false;
    int directory = root < 0 ? -1 : open_beneath(root, path, LISTABLE);
    if (directory < 0)
        channel_failed(header->id, root < 0 ? EBADF : errno, STAGE_NONE);
    else
        watch_add(header->id, watcher, directory);
    return true;
}

static bool unwatch_request(const struct header *header, struct reader *payload)
{
    uint32_t watcher = take_u32(payload);
    uint32_t watch = take_u32(payload);

    if (!reader_done(payload))
        return false;
    watch_remove(watcher, watch);
    channel_ok(header->id);
    return true;
}

/* OPEN and CREATE, which differ only in what they open. */
static bool open_request(const struct header *header, struct reader *payload)
{
    int root = root_descriptor(take_u32(payload));
    const char *path = take_text(payload);

    if (!reader_done(payload))
        return false;
    if (root < 0)
        channel_failed(header->id, EBADF, STAGE_NONE);
    else if (header->type == REQ_OPEN)
        opened_read(header->id, root, path);
    else
        opened_create(header->id, root, path);
    return true;
}

static bool read_request(const struct header *header, struct reader *payload)
{
    uint32_t file = take_u32(payload);
    uint64_t offset = take_u64(payload);
    uint32_t size = take_u32(payload);

    if (!reader_done(payload) || size > MAX_DATA)
        return false;
    opened_data(header->id, file, offset, size);
    return true;
}

static bool append_request(const struct header *header, struct reader *payload)
{
    uint32_t file = take_u32(payload);

    if (payload->bad)
        return false;
    opened_append(header->id, file, payload->at, (size_t)(payload->end - payload->at));
    return true;
}

static bool put_request(const struct header *header, struct reader *payload)
{
    uint32_t file = take_u32(payload);
    const char *name = take_text(payload);
    uint32_t mode = take_u32(payload);
    uint8_t replace = take_u8(payload);

    if (!reader_done(payload) || replace > 1)
        return false;
    opened_put(header->id, file, name, mode, replace);
    return true;
}

static bool close_request(const struct header *header, struct reader *payload)
{
    uint32_t file = take_u32(payload);

    if (!reader_done(payload))
        return false;
    opened_close(header->id, file);
    return true;
}

static bool root_request(const struct header *header, struct reader *payload)
{
    const char *path = take_text(payload);

    if (!reader_done(payload))
        return false;
    add_root(header->id, path);
    return true;
}

bool files_request(const struct header *header, struct reader *payload)
{
    switch (header->type) {
    case REQ_ROOT:
        return root_request(header, payload);
    case REQ_LIST:
        return list_request(header, payload);
    case REQ_OPEN:
    case REQ_CREATE:
        return open_request(header, payload);
    case REQ_READ:
        return read_request(header, payload);
    case REQ_APPEND:
        return append_request(header, payload);
    case REQ_PUT:
        return put_request(header, payload);
    case REQ_CLOSE:
        return close_request(header, payload);
    case REQ_WATCH:
        return watch_request(header, payload);
    case REQ_UNWATCH:
        return unwatch_request(header, payload);
    default:
        return entry_request(header, payload);
    }
}

void files_resume(void)
{
    jobs_resume();
    watches_resume();
}

void files_close(void)
{
    jobs_close();
    watches_close();
    opened_close_all();
    while (root_count > 0)
        close(roots[--root_count].fd);
}
