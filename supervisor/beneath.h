/* Paths below a directory handle: no link is followed in any position, and nothing leads out. */
#ifndef PADDOCK_BENEATH_H
#define PADDOCK_BENEATH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* ".paddock-", 16 hexadecimal digits, NUL. */
#define TEMPORARY_SIZE 26

/* Where an entry is: the handle of its directory, and its name in it ("." for the root itself). */
struct place {
    int directory;
    bool owned;
    const char *name;
};

/* Find the directory of `path`, below `root`. The name points into `path`. False with errno. */
bool place_open(struct place *place, int root, const char *path);
/* Close what was opened; errno stays as it is. */
void place_close(struct place *place);

/* Close a descriptor; errno stays as it is. */
void close_quietly(int fd);

/* The text "/proc/self/fd/N": the way to what a handle is of, for calls that take only paths. */
#define HANDLE_PATH_SIZE 32
void handle_path(char path[HANDLE_PATH_SIZE], int fd);

/* Change the mode of a directory and of nothing else: by its handle, since chmod would follow a link. -1 with errno. */
int chmod_directory(int parent, const char *name, mode_t mode);

/* A name that nobody can guess, so nobody can be there first. False with errno. */
bool temporary_name(char name[TEMPORARY_SIZE]);

/* Rename, but only if nothing is there: EEXIST otherwise. -1 with errno. */
int rename_new(int source, const char *old, int target, const char *new);
/* Swap two entries. -1 with errno. */
int rename_swap(int source, const char *one, int target, const char *other);

#endif
