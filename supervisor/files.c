#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
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

struct root {
    struct root *next;
    uint32_t id;
    int fd;
};

int root_descriptor(const struct channel *channel, uint32_t id)
{
    for (const struct root *root = channel->roots; root != NULL; root = root->next)
        if (root->id == id)
            return root->fd;
    errno = EBADF;
    return -1;
}

static void answer(struct asker asker, bool fine)
{
    if (fine)
        channel_ok(asker);
    else
        channel_failed(asker, errno, STAGE_NONE);
}

static bool has_room_for_one(const struct channel *channel)
{
    size_t count = 0;

    for (const struct root *root = channel->roots; root != NULL; root = root->next)
        count++;
    errno = EMFILE;
    return count < MOST_ROOTS;
}

/* NULL with errno. */
static struct root *make_root(struct asker asker, const char *path)
{
    if (root_descriptor(asker.channel, asker.id) >= 0) {
        errno = EEXIST;
        return NULL;
    }
    struct root *root = has_room_for_one(asker.channel) ? malloc(sizeof *root) : NULL;
    if (root == NULL)
        return NULL;
    *root = (struct root){asker.channel->roots, asker.id, open(path, O_PATH | O_DIRECTORY | O_CLOEXEC)};
    if (root->fd < 0) {
        int error = errno;
        free(root);
        errno = error;
        return NULL;
    }
    return root;
}

/* Roots are what the host says: their paths are trusted, and links in them are followed. */
static void add_root(struct asker asker, const char *path)
{
    struct root *root = make_root(asker, path);

    if (root == NULL) {
        channel_failed(asker, errno, STAGE_NONE);
        return;
    }
    asker.channel->roots = root;
    message_begin(REP_OK, asker.id);
    channel_send_with(asker.channel, root->fd);
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
static void remove_at(struct asker asker, const struct place *place, bool tree)
{
    struct stat info;

    if (fstatat(place->directory, place->name, &info, AT_SYMLINK_NOFOLLOW) < 0)
        answer(asker, false);
    else if (!S_ISDIR(info.st_mode))
        answer(asker, unlinkat(place->directory, place->name, 0) == 0);
    else if (!tree || strcmp(place->name, ".") == 0) /* the root itself, which the kernel refuses */
        answer(asker, unlinkat(place->directory, place->name, AT_REMOVEDIR) == 0);
    else
        tree_remove(asker, place);
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

static void at_place(struct asker asker, uint8_t type, int root, const struct place *place, const struct more *more)
{
    switch (type) {
    case REQ_STAT:
        node_send(asker, place);
        break;
    case REQ_MKDIR:
        answer(asker, make_directory(place, more->mode & 0777));
        break;
    case REQ_REMOVE:
        remove_at(asker, place, more->flag);
        break;
    case REQ_RENAME:
        answer(asker, rename_to(place, root, more->text, more->flag));
        break;
    default:
        answer(asker, symlinkat(more->text, place->directory, place->name) == 0);
    }
}

/* Requests about an entry, of which the directory is found first. */
static bool entry_request(struct asker asker, const struct header *header, struct reader *payload)
{
    struct place place;
    struct more more = {0};
    int root = root_descriptor(asker.channel, take_u32(payload));
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
        channel_failed(asker, EBADF, STAGE_NONE);
        return true;
    }
    if (place_open(&place, root, path))
        at_place(asker, header->type, root, &place, &more);
    else
        channel_failed(asker, errno, STAGE_NONE);
    place_close(&place);
    return true;
}

static bool list_request(struct asker asker, struct reader *payload)
{
    int root = root_descriptor(asker.channel, take_u32(payload));
    const char *path = take_text(payload);
    uint8_t stats = take_u8(payload);

    if (!reader_done(payload) || stats > 1)
        return false;
    int directory = root < 0 ? -1 : open_beneath(root, path, LISTABLE);
    if (directory < 0)
        channel_failed(asker, root < 0 ? EBADF : errno, STAGE_NONE);
    else
        listing_start(asker, directory, stats ? LISTING_NODES : LISTING_NAMES, 0);
    return true;
}

static bool watch_request(struct asker asker, struct reader *payload)
{
    int root = root_descriptor(asker.channel, take_u32(payload));
    const char *path = take_text(payload);
    uint32_t watcher = take_u32(payload);

    if (!reader_done(payload))
        return false;
    int directory = root < 0 ? -1 : open_beneath(root, path, LISTABLE);
    if (directory < 0)
        channel_failed(asker, root < 0 ? EBADF : errno, STAGE_NONE);
    else
        watch_add(asker, watcher, directory);
    return true;
}

static bool unwatch_request(struct asker asker, struct reader *payload)
{
    uint32_t watcher = take_u32(payload);
    uint32_t watch = take_u32(payload);

    if (!reader_done(payload))
        return false;
    watch_remove(asker.channel, watcher, watch);
    channel_ok(asker);
    return true;
}

/* OPEN and CREATE, which differ only in what they open. */
static bool open_request(struct asker asker, const struct header *header, struct reader *payload)
{
    int root = root_descriptor(asker.channel, take_u32(payload));
    const char *path = take_text(payload);

    if (!reader_done(payload))
        return false;
    if (root < 0)
        channel_failed(asker, EBADF, STAGE_NONE);
    else if (header->type == REQ_OPEN)
        opened_read(asker, root, path);
    else
        opened_create(asker, root, path);
    return true;
}

static bool read_request(struct asker asker, struct reader *payload)
{
    uint32_t file = take_u32(payload);
    uint64_t offset = take_u64(payload);
    uint32_t size = take_u32(payload);

    if (!reader_done(payload) || size > MAX_DATA)
        return false;
    opened_data(asker, file, offset, size);
    return true;
}

static bool append_request(struct asker asker, struct reader *payload)
{
    uint32_t file = take_u32(payload);

    if (payload->bad)
        return false;
    opened_append(asker, file, payload->at, (size_t)(payload->end - payload->at));
    return true;
}

static bool put_request(struct asker asker, struct reader *payload)
{
    uint32_t file = take_u32(payload);
    const char *name = take_text(payload);
    uint32_t mode = take_u32(payload);
    uint8_t replace = take_u8(payload);

    if (!reader_done(payload) || replace > 1)
        return false;
    opened_put(asker, file, name, mode, replace);
    return true;
}

static bool close_request(struct asker asker, struct reader *payload)
{
    uint32_t file = take_u32(payload);

    if (!reader_done(payload))
        return false;
    opened_close(asker, file);
    return true;
}

static bool root_request(struct asker asker, struct reader *payload)
{
    const char *path = take_text(payload);

    if (!reader_done(payload))
        return false;
    add_root(asker, path);
    return true;
}

bool files_request(struct channel *channel, const struct header *header, struct reader *payload)
{
    struct asker asker = {channel, header->id};

    switch (header->type) {
    case REQ_ROOT:
        return root_request(asker, payload);
    case REQ_LIST:
        return list_request(asker, payload);
    case REQ_OPEN:
    case REQ_CREATE:
        return open_request(asker, header, payload);
    case REQ_READ:
        return read_request(asker, payload);
    case REQ_APPEND:
        return append_request(asker, payload);
    case REQ_PUT:
        return put_request(asker, payload);
    case REQ_CLOSE:
        return close_request(asker, payload);
    case REQ_WATCH:
        return watch_request(asker, payload);
    case REQ_UNWATCH:
        return unwatch_request(asker, payload);
    default:
        return entry_request(asker, header, payload);
    }
}

void files_resume(struct channel *channel)
{
    jobs_resume(&channel->jobs);
    watches_resume(channel);
}

void files_close(struct channel *channel)
{
    jobs_close(&channel->jobs);
    watches_close(channel);
    opened_close_all(channel);
    while (channel->roots != NULL) {
        struct root *root = channel->roots;
        channel->roots = root->next;
        close(root->fd);
        free(root);
    }
}
