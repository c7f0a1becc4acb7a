#include "opened.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "beneath.h"
#include "channel.h"
#include "files.h"
#include "wire.h"

#define MOST_OPEN 256
#define FILE_MODE 0644
#define MODE_BITS 0777

struct opened {
    struct opened *next;
    uint32_t id;
    int fd;
    uint64_t size;  /* when it was opened: nothing beyond is read */
    int directory;  /* of a new file; else -1 */
    int error;      /* of a write that failed: such a file never gets its name */
    char temporary[TEMPORARY_SIZE];
};

static struct opened *find(const struct channel *channel, uint32_t id)
{
    for (struct opened *file = channel->opened; file != NULL; file = file->next)
        if (file->id == id)
            return file;
    errno = EBADF;
    return NULL;
}

static bool has_room_for_one(const struct channel *channel)
{
    size_t count = 0;

    for (const struct opened *file = channel->opened; file != NULL; file = file->next)
        count++;
    errno = EMFILE;
    return count < MOST_OPEN;
}

/* A new one, with nothing open. NULL with errno. */
static struct opened *add(struct asker asker)
{
    if (find(asker.channel, asker.id)) {
        errno = EEXIST;
        return NULL;
    }
    struct opened *file = has_room_for_one(asker.channel) ? malloc(sizeof *file) : NULL;
    if (file != NULL) {
        *file = (struct opened){.next = asker.channel->opened, .id = asker.id, .fd = -1, .directory = -1};
        asker.channel->opened = file;
    }
    return file;
}

/* Let go of a file; errno stays as it is. A new one that still has its temporary name is removed. */
static void forget(struct channel *channel, struct opened *file)
{
    struct opened **at = &channel->opened;
    int error = errno;

    while (*at != file)
        at = &(*at)->next;
    *at = file->next;
    if (file->directory >= 0 && file->temporary[0])
        unlinkat(file->directory, file->temporary, 0);
    close_quietly(file->fd);
    close_quietly(file->directory);
    free(file);
    errno = error;
}

static void answer(struct asker asker, bool fine)
{
    if (fine)
        channel_ok(asker);
    else
        channel_failed(asker, errno, STAGE_NONE);
}

/* What something is called by that is not a regular file: to read, and to write over. */
static int not_a_file(mode_t mode)
{
    if (S_ISDIR(mode))
        return EISDIR;
    return S_ISLNK(mode) ? ELOOP : ENXIO;
}

/* A regular file and nothing else. It is opened so that nothing can make us wait. -1 with errno. */
static int open_regular(int root, const char *path, struct stat *info)
{
    int fd = open_beneath(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return -1;
    if (fstat(fd, info) == 0) {
        if (S_ISREG(info->st_mode))
            return fd;
        errno = not_a_file(info->st_mode);
    }
    close_quietly(fd);
    return -1;
}

void opened_read(struct asker asker, int root, const char *path)
{
    struct stat info;
    struct opened *file = add(asker);

    if (file != NULL)
        file->fd = open_regular(root, path, &info);
    if (file == NULL || file->fd < 0) {
        channel_failed(asker, errno, STAGE_NONE);
        if (file != NULL)
            forget(asker.channel, file);
        return;
    }
    file->size = (uint64_t)info.st_size;
    message_begin(REP_OPENED, asker.id);
    put_u64(file->size);
    put_u16((uint16_t)(info.st_mode & MODE_BITS));
    channel_send(asker.channel);
}

/* As much as there is; -1 with errno. */
static ssize_t read_fully(int fd, uint8_t *buffer, size_t size, off_t offset)
{
    size_t done = 0;

    while (done < size) {
        ssize_t part = pread(fd, buffer + done, size - done, offset + (off_t)done);
        if (part < 0 && errno == EINTR)
            continue;
        if (part < 0)
            return -1;
        if (part == 0)
            break;
        done += (size_t)part;
    }
    return (ssize_t)done;
}

void opened_data(struct asker asker, uint32_t file_id, uint64_t offset, uint32_t size)
{
    const struct opened *file = find(asker.channel, file_id);

    if (file == NULL || file->directory >= 0) {
        channel_failed(asker, EBADF, STAGE_NONE);
        return;
    }
    uint64_t left = offset < file->size ? file->size - offset : 0;
    size_t wanted = left < size ? (size_t)left : size;
    message_begin(REP_DATA, asker.id);
    uint8_t *buffer = put_space(wanted);
    ssize_t done = read_fully(file->fd, buffer, wanted, (off_t)offset);
    if (done < 0) {
        channel_failed(asker, errno, STAGE_NONE);
        return;
    }
    put_back(wanted - (size_t)done);
    channel_send(asker.channel);
}

/* A new file under a name that nobody can guess. False with errno. */
static bool create(struct opened *file, int root, const char *directory)
{
    file->directory = open_beneath(root, directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (file->directory < 0 || !temporary_name(file->temporary))
        return false;
    file->fd = openat(file->directory, file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file->fd < 0)
        file->temporary[0] = '\0';
    return file->fd >= 0;
}

void opened_create(struct asker asker, int root, const char *directory)
{
    struct opened *file = add(asker);
    bool fine = file != NULL && create(file, root, directory);

    answer(asker, fine);
    if (file != NULL && !fine)
        forget(asker.channel, file);
}

/* False with errno. */
static bool write_fully(int fd, const uint8_t *data, size_t size)
{
    while (size > 0) {
        ssize_t part = write(fd, data, size);
        if (part < 0 && errno == EINTR)
            continue;
        if (part < 0)
            return false;
        data += part;
        size -= (size_t)part;
    }
    return true;
}

/* A new file that can still become a whole one. NULL with errno. */
static struct opened *find_new(const struct channel *channel, uint32_t id)
{
    struct opened *file = find(channel, id);

    if (file != NULL && file->directory < 0)
        errno = EBADF;
    else if (file != NULL && file->error != 0)
        errno = file->error;
    else
        return file;
    return NULL;
}

void opened_append(struct asker asker, uint32_t file_id, const uint8_t *data, size_t size)
{
    struct opened *file = find_new(asker.channel, file_id);
    bool fine = file != NULL && write_fully(file->fd, data, size);

    if (file != NULL && !fine)
        file->error = errno; /* the host may have sent PUT already */
    answer(asker, fine);
}

/* The mode that the new file gets: the one asked for, or that of the file it replaces. False with errno. */
static bool choose_mode(const struct opened *file, const char *name, uint32_t asked, bool replace, mode_t *mode)
{
    struct stat old;

    *mode = asked == KEEP_MODE ? FILE_MODE : asked & MODE_BITS;
    if (fstatat(file->directory, name, &old, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT;
    if (!S_ISREG(old.st_mode) || !replace) {
        errno = S_ISREG(old.st_mode) ? EEXIST : not_a_file(old.st_mode);
        return false;
    }
    if (asked == KEEP_MODE)
        *mode = old.st_mode & MODE_BITS;
    return true;
}

/* False with errno. */
static bool put_in_place(struct opened *file, const char *name, uint32_t asked, bool replace)
{
    mode_t mode;

    if (!choose_mode(file, name, asked, replace, &mode) || fchmod(file->fd, mode) < 0)
        return false;
    int result = replace ? renameat(file->directory, file->temporary, file->directory, name)
                         : rename_new(file->directory, file->temporary, file->directory, name);
    if (result < 0)
        return false;
    file->temporary[0] = '\0';
    return true;
}

void opened_put(struct asker asker, uint32_t file_id, const char *name, uint32_t mode, bool replace)
{
    struct opened *file = find_new(asker.channel, file_id);
    bool fine = false;

    if (file != NULL && strchr(name, '/') != NULL)
        errno = EINVAL;
    else if (file != NULL)
        fine = put_in_place(file, *name ? name : ".", mode, replace);
    int error = errno;
    file = find(asker.channel, file_id);
    if (file != NULL && file->directory >= 0)
        forget(asker.channel, file);
    errno = error;
    answer(asker, fine);
}

void opened_close(struct asker asker, uint32_t file_id)
{
    struct opened *file = find(asker.channel, file_id);

    if (file != NULL)
        forget(asker.channel, file);
    channel_ok(asker);
}

void opened_close_all(struct channel *channel)
{
    while (channel->opened != NULL)
        forget(channel, channel->opened);
}
