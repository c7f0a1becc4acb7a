#include "beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "files.h"

#define DIRECTORY_ONLY (O_PATH | O_DIRECTORY | O_CLOEXEC)

void close_quietly(int fd)
{
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
}

static int fail(int error)
{
    errno = error;
    return -1;
}

static int openat2_beneath(int root, const char *path, int flags)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)flags,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    long fd;
    do {
        fd = syscall(SYS_openat2, root, path, &how, sizeof how);
    } while (fd < 0 && errno == EINTR);
    return (int)fd;
}

/* Whether this kernel, and any filter above it, lets us use openat2. */
static bool has_openat2(void)
{
    static enum { UNKNOWN, YES, NO } answer = UNKNOWN;
    if (answer == UNKNOWN) {
        int here = open("/", DIRECTORY_ONLY);
        int fd = openat2_beneath(here, ".", DIRECTORY_ONLY);
        answer = fd >= 0 ? YES : NO;
        close_quietly(fd);
        close_quietly(here);
    }
    return answer == YES;
}

/* A plain relative path, as the host sends them: names that are neither empty nor "." or "..". */
static bool is_plain(const char *path)
{
    for (;;) {
        size_t size = strcspn(path, "/");
        if (size == 0 || (size == 1 && path[0] == '.') || (size == 2 && path[0] == '.' && path[1] == '.'))
            return false;
        if (path[size] == '\0')
            return true;
        path += size + 1;
    }
}

/* Older kernels of gVisor follow a link when a directory is to be opened for reading, whatever they are told. So it is first
 * only found, and then opened from itself. */
static int open_directory(int directory, const char *name, int flags)
{
    int found = openat(directory, name, DIRECTORY_ONLY | O_NOFOLLOW);
    int fd = found < 0 ? -1 : openat(found, ".", flags | O_CLOEXEC);

    close_quietly(found);
    return fd;
}

static int step(int directory, const char *name, int flags)
{
    bool two_steps = (flags & O_DIRECTORY) && !(flags & O_PATH);
    int fd = two_steps ? open_directory(directory, name, flags) : openat(directory, name, flags | O_NOFOLLOW | O_CLOEXEC);
    struct stat info;
    if (fd >= 0 || errno != ENOTDIR)
        return fd;
    /* A link where a directory was wanted is ENOTDIR here and ELOOP to openat2. */
    errno = ENOTDIR;
    if (fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) == 0)
        errno = S_ISLNK(info.st_mode) ? ELOOP : ENOTDIR;
    return -1;
}

/* The same, name by name, where there is no openat2. */
static int walk(int root, char *path, int flags)
{
    int here = root;
    for (;;) {
        char *slash = strchr(path, '/');
        if (slash)
            *slash = '\0';
        int next = step(here, path, slash ? DIRECTORY_ONLY : flags);
        if (here != root)
            close_quietly(here);
        if (!slash || next < 0)
            return next;
        here = next;
        path = slash + 1;
    }
}

int open_beneath(int root, const char *path, int flags)
{
    char copy[PATH_MAX];
    size_t size = strlen(path);
    if (size == 0)
        path = ".";
    else if (strcmp(path, ".") != 0 && !is_plain(path))
        return fail(EINVAL);
    if (size >= sizeof copy)
        return fail(ENAMETOOLONG);
    if (has_openat2())
        return openat2_beneath(root, path, flags | O_CLOEXEC);
    memcpy(copy, path, strlen(path) + 1);
    return walk(root, copy, flags);
}

bool place_open(struct place *place, int root, const char *path)
{
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    *place = (struct place){.directory = root, .owned = false, .name = *path ? path : "."};
    if (*path && !is_plain(path))
        return fail(EINVAL) == 0;
    if (!slash)
        return true;
    size_t size = (size_t)(slash - path);
    if (size >= sizeof parent)
        return fail(ENAMETOOLONG) == 0;
    memcpy(parent, path, size);
    parent[size] = '\0';
    place->directory = open_beneath(root, parent, DIRECTORY_ONLY);
    place->owned = true;
    place->name = slash + 1;
    return place->directory >= 0;
}

void place_close(struct place *place)
{
    if (place->owned)
        close_quietly(place->directory);
    place->directory = -1;
    place->owned = false;
}

void handle_path(char path[HANDLE_PATH_SIZE], int fd)
{
    snprintf(path, HANDLE_PATH_SIZE, "/proc/self/fd/%d", fd);
}

int chmod_directory(int parent, const char *name, mode_t mode)
{
    char path[HANDLE_PATH_SIZE];
    int fd = step(parent, name, DIRECTORY_ONLY);
    if (fd < 0)
        return -1;
    handle_path(path, fd);
    int result = chmod(path, mode);
    close_quietly(fd);
    return result;
}

bool temporary_name(char name[TEMPORARY_SIZE])
{
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    snprintf(name, TEMPORARY_SIZE, ".paddock-%016llx", (unsigned long long)random);
    return true;
}

/* Not every C library has it. */
static int rename_how(int source, const char *old, int target, const char *new, unsigned how)
{
    return (int)syscall(SYS_renameat2, source, old, target, new, how);
}

/* Whether renameat2 failed because this kernel, file system or filter does not have it. */
static bool has_no_renameat2(void)
{
    return errno == ENOSYS || errno == EINVAL || errno == EPERM;
}

int rename_new(int source, const char *old, int target, const char *new)
{
    struct stat info;
    if (rename_how(source, old, target, new, RENAME_NOREPLACE) == 0)
        return 0;
    if (!has_no_renameat2())
        return -1;
    if (fstatat(target, new, &info, AT_SYMLINK_NOFOLLOW) == 0)
        return fail(EEXIST);
    return errno == ENOENT ? renameat(source, old, target, new) : -1;
}

int rename_swap(int source, const char *one, int target, const char *other)
{
    char aside[TEMPORARY_SIZE];
    if (rename_how(source, one, target, other, RENAME_EXCHANGE) == 0)
        return 0;
    if (!has_no_renameat2() || !temporary_name(aside) || renameat(target, other, target, aside) < 0)
        return -1;
    if (renameat(source, one, target, other) < 0) {
        int error = errno;
        renameat(target, aside, target, other);
        return fail(error);
    }
    return renameat(target, aside, source, one);
}
