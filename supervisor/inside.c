#include "inside.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define MOST_WAITING 1024 /* connections that nobody has accepted yet; the kernel has a bound of its own */
#define TRIES 16          /* to find a port that is free for both kinds of address */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un local;
};

static int close_keeping_errno(int fd)
{
    int error = errno;

    close(fd);
    errno = error;
    return -1;
}

/* Addresses */

static socklen_t loopback(union address *address, bool second, uint16_t port)
{
    memset(address, 0, sizeof *address);
    if (second) {
        address->v6 = (struct sockaddr_in6){
            .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
        return sizeof address->v6;
    }
    address->v4 = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return sizeof address->v4;
}

/* Of a file: never an abstract name, of which there may be others' where the network is not the sandbox's own. */
static socklen_t path_address(union address *address, const char *path)
{
    size_t length = strlen(path);

    memset(address, 0, sizeof *address);
    if (path[0] != '/' || length >= sizeof address->local.sun_path) {
        errno = path[0] != '/' ? EINVAL : ENAMETOOLONG;
        return 0;
    }
    address->local.sun_family = AF_UNIX;
    memcpy(address->local.sun_path, path, length);
    return sizeof address->local;
}

static uint16_t port_of(int fd, int (*name)(int, struct sockaddr *, socklen_t *))
{
    union address address = {0};
    socklen_t size = sizeof address;

    if (name(fd, &address.any, &size) < 0)
        return 0;
    return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

static int make_socket(int family)
{
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

void inside_hurry(int fd)
{
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* a Unix socket does so anyway, and refuses this */
}

/* Listening */

static int listen_at_port(bool second, uint16_t port)
{
    union address address;
    socklen_t size = loopback(&address, second, port);
    int on = 1, fd = make_socket(address.any.sa_family);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* connections of a listener before may not be forgotten yet */
    if (second)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, &address.any, size) < 0 || listen(fd, MOST_WAITING) < 0)
        return close_keeping_errno(fd);
    return fd;
}

static bool has_no_such_address(void)
{
    return errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL || errno == EPROTONOSUPPORT;
}

static bool listen_at_both(uint16_t port, struct doors *doors)
{
    doors->fds[0] = listen_at_port(false, port);
    if (doors->fds[0] < 0)
        return false;
    doors->port = port_of(doors->fds[0], getsockname);
    doors->fds[1] = listen_at_port(true, doors->port);
    if (doors->fds[1] >= 0 || has_no_such_address())
        return true;
    doors->fds[0] = close_keeping_errno(doors->fds[0]);
    return false;
}

static bool listen_at_path(const char *path, struct doors *doors)
{
    union address address;
    struct stat info;
    socklen_t size = path_address(&address, path);
    int fd = size == 0 ? -1 : make_socket(AF_UNIX);

    if (fd < 0)
        return false;
    doors->path = strdup(path);
    mode_t mask = umask(0177);
    bool bound = doors->path != NULL && bind(fd, &address.any, size) == 0;
    umask(mask);
    if (bound && listen(fd, MOST_WAITING) == 0 && lstat(path, &info) == 0) {
        doors->device = info.st_dev;
        doors->inode = info.st_ino;
        doors->fds[0] = fd;
        return true;
    }
    close_keeping_errno(fd);
    free(doors->path);
    return false;
}

bool inside_listen(const struct inside *where, struct doors *doors)
{
    bool done = false;

    *doors = (struct doors){.fds = {-1, -1}};
    if (where->path[0] != '\0')
        return listen_at_path(where->path, doors);
    for (int tries = 0; !done && tries < (where->port == 0 ? TRIES : 1); tries++)
        done = listen_at_both(where->port, doors);
    return done;
}

void inside_close(struct doors *doors)
{
    struct stat info;

    if (doors->path != NULL && lstat(doors->path, &info) == 0 && S_ISSOCK(info.st_mode) &&
        info.st_dev == doors->device && info.st_ino == doors->inode)
        unlink(doors->path);
    for (int i = 0; i < 2; i++)
        if (doors->fds[i] >= 0)
            close(doors->fds[i]);
    free(doors->path);
    *doors = (struct doors){.fds = {-1, -1}};
}

/* Connecting */

/* Where nobody listens, a socket can meet itself: its own port was chosen from the same numbers. */
static bool met_itself(int fd)
{
    uint16_t port = port_of(fd, getpeername);

    errno = ECONNREFUSED;
    return port == 0 || port == port_of(fd, getsockname);
}

static int connect_to(const union address *address, socklen_t size, bool *under_way)
{
    int fd = size == 0 ? -1 : make_socket(address->any.sa_family);

    if (fd < 0)
        return -1;
    bool done = connect(fd, &address->any, size) == 0;
    *under_way = !done && errno == EINPROGRESS;
    if (*under_way || (done && (address->any.sa_family == AF_UNIX || !met_itself(fd))))
        return fd;
    return close_keeping_errno(fd);
}

int inside_connect(const struct inside *where, bool second, bool *under_way)
{
    union address address;
    socklen_t size = where->path[0] != '\0' ? path_address(&address, where->path) : loopback(&address, second, where->port);

    *under_way = false;
    return connect_to(&address, size, under_way);
}

bool inside_connected(int fd)
{
    int error = 0;
    socklen_t size = sizeof error;

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        return false;
    errno = error;
    return error == 0 && !met_itself(fd);
}
