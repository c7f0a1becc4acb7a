#include "removal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "channel.h"
#include "files.h"
#include "jobs.h"

#define DEEPEST 16      /* levels, and so descriptors, held at once */
#define STEPS 512       /* entries looked at before others have a turn */
#define ROUNDS 4        /* looks at a directory that somebody else fills again and again */
#define LISTABLE (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

struct level {
    DIR *entries;
    int rounds;
    char name[NAME_MAX + 1];
};

/* What lies deeper than DEEPEST is first moved up to the top: no path, no stack and no table can be too long. */
struct removal {
    struct job job;
    int parent;
    dev_t device;
    bool begun;
    unsigned depth;
    struct level levels[DEEPEST];
    char name[NAME_MAX + 1];
};

static int handle_of(const struct removal *removal, unsigned depth)
{
    return depth == 0 ? removal->parent : dirfd(removal->levels[depth - 1].entries);
}

/* -1 with errno; ENOENT when there is no such directory any more, which is what was wanted. */
static int open_directory(int parent, const char *name)
{
    int fd = open_beneath(parent, name, LISTABLE);
    if (fd < 0 && (errno == EACCES || errno == EPERM)) {
        if (chmod_directory(parent, name, 0700) < 0)
            return -1;
        fd = open_beneath(parent, name, LISTABLE);
    }
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP)) {
        /* Swapped for a file or a link since it was listed. */
        if (unlinkat(parent, name, 0) == 0)
            errno = ENOENT;
    }
    return fd;
}

static DIR *open_entries(int fd, dev_t device)
{
    struct stat info;
    if (fstat(fd, &info) < 0)
        return NULL;
    if (info.st_dev != device) { /* another file system is mounted there */
        errno = EBUSY;
        return NULL;
    }
    if ((info.st_mode & 0700) != 0700 && fchmod(fd, 0700) < 0)
        return NULL;
    return fdopendir(fd);
}

static bool enter(struct removal *removal, const char *name)
{
    int fd = open_directory(handle_of(removal, removal->depth), name);
    if (fd < 0)
        return errno == ENOENT;
    struct level *level = &removal->levels[removal->depth];
    level->entries = open_entries(fd, removal->device);
    if (!level->entries) {
        close_quietly(fd);
        return false;
    }
    level->rounds = ROUNDS;
    strcpy(level->name, name);
    removal->depth++;
    return true;
}

static bool lift(struct removal *removal, const char *name)
{
    char aside[TEMPORARY_SIZE];
    int here = handle_of(removal, removal->depth);
    if (!temporary_name(aside))
        return false;
    chmod_directory(here, name, 0700); /* moving a directory writes to it; if it fails, so does the move */
    if (renameat(here, name, handle_of(removal, 1), aside) < 0)
        return errno == ENOENT;
    removal->levels[0].rounds = ROUNDS; /* there is something new to see */
    return true;
}

static bool remove_entry(struct removal *removal, const struct dirent *entry)
{
    const char *name = entry->d_name;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return true;
    if (entry->d_type != DT_DIR) {
        if (unlinkat(handle_of(removal, removal->depth), name, 0) == 0 || errno == ENOENT)
            return true;
        if (errno != EISDIR)
            return false;
    }
    return removal->depth < DEEPEST ? enter(removal, name) : lift(removal, name);
}

/* The end of a directory's entries: it should be empty now. Entries may be missed while others are removed: look again. */
static bool leave(struct removal *removal)
{
    struct level *level = &removal->levels[removal->depth - 1];
    if (unlinkat(handle_of(removal, removal->depth - 1), level->name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
        if ((errno != ENOTEMPTY && errno != EEXIST) || level->rounds-- == 0)
            return false;
        rewinddir(level->entries);
        return true;
    }
    closedir(level->entries);
    removal->depth--;
    return true;
}

static bool remove_next(struct removal *removal)
{
    errno = 0;
    struct dirent *entry = readdir(removal->levels[removal->depth - 1].entries);
    if (entry)
        return remove_entry(removal, entry);
    return errno == 0 && leave(removal);
}

static bool begin(struct removal *removal)
{
    struct stat info;
    removal->begun = true;
    if (fstat(removal->parent, &info) < 0)
        return false;
    removal->device = info.st_dev;
    return enter(removal, removal->name);
}

static bool step(struct job *job)
{
    struct removal *removal = (struct removal *)job;
    bool fine = removal->begun || begin(removal);
    for (int turn = 0; fine && removal->depth > 0 && turn < STEPS; turn++)
        fine = remove_next(removal);
    if (fine && removal->depth > 0)
        return false;
    if (fine)
        channel_ok(job->asker);
    else
        channel_failed(job->asker, errno, STAGE_NONE);
    return true;
}

static void release(struct job *job)
{
    struct removal *removal = (struct removal *)job;
    while (removal->depth > 0)
        closedir(removal->levels[--removal->depth].entries);
    close(removal->parent);
    free(removal);
}

void tree_remove(struct asker asker, const struct place *place)
{
    struct removal *removal = calloc(1, sizeof *removal);
    int parent = fcntl(place->directory, F_DUPFD_CLOEXEC, 0);
    if (!removal || parent < 0 || strlen(place->name) > NAME_MAX) {
        channel_failed(asker, !removal ? ENOMEM : parent < 0 ? errno : ENAMETOOLONG, STAGE_NONE);
        close_quietly(parent);
        free(removal);
        return;
    }
    removal->job = (struct job){.asker = asker, .step = step, .release = release};
    removal->parent = parent;
    strcpy(removal->name, place->name);
    job_start(&removal->job);
}
