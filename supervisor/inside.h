/* Sockets inside the sandbox: at a port of its loopback, or at a path. No other address can be said here. */
#ifndef PADDOCK_INSIDE_H
#define PADDOCK_INSIDE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Where: an absolute path, or with an empty one a port. */
struct inside {
    const char *path;
    uint16_t port;
};

/* Who listens there. For a port that may be two sockets, of which the second is -1 where there is no IPv6. */
struct doors {
    int fds[2];
    uint16_t port;
    char *path; /* NULL for a port */
    dev_t device;
    ino_t inode;
};

/* Listen there, at any port if it is 0. False with errno. */
bool inside_listen(const struct inside *where, struct doors *doors);
/* Listen no more; the socket's file goes, if it is still that one. */
void inside_close(struct doors *doors);
/* A connection to there, over IPv6 if `second`; or -1 and errno. `under_way`: it has to be waited for until it can be written to. */
int inside_connect(const struct inside *where, bool second, bool *under_way);
/* Whether a connection that was under way is there. False with errno. */
bool inside_connected(int fd);
/* What is said over it goes at once. */
void inside_hurry(int fd);

#endif
