/* Reaching somebody by a Unix socket. An address that begins with '@' is an abstract one: a name without a file. */
#ifndef PADDOCK_REACH_H
#define PADDOCK_REACH_H

#include <stdbool.h>

/* A socket that is connected to whoever listens there, or -1 and errno. */
int reach_connect(const char *address);
/* A socket that listens there, or -1 and errno. */
int reach_listen(const char *address);
/* What the other side hands over before all else: one byte, and one descriptor. False if it does not. */
bool reach_handed(int fd, char *what, int *handed);

#endif
