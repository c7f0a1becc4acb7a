#include "reach.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MOST_WAITING 16

static bool set_address(struct sockaddr_un *address, socklen_t *size, const char *text)
{
    size_t length = strlen(text);

    if (length >= sizeof address->sun_path) {
        errno = ENAMETOOLONG;
        return false;
    }
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, text, length);
    *size = sizeof *address;
    if (text[0] == '@') {
        address->sun_path[0] = '\0';
        *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    }
    return true;
}

static int close_keeping_errno(int fd)
{
    int error = errno;

    close(fd);
    errno = error;
    return -1;
}

int reach_connect(const char *text)
{
    struct sockaddr_un address;
    socklen_t size;

    if (!set_address(&address, &size, text))
        return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, size) < 0)
        return close_keeping_errno(fd);
    return fd;
}

int reach_listen(const char *text)
{
    struct sockaddr_un address;
    socklen_t size;

    if (!set_address(&address, &size, text))
        return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && (bind(fd, (struct sockaddr *)&address, size) < 0 || listen(fd, MOST_WAITING) < 0))
        return close_keeping_errno(fd);
    return fd;
}

bool reach_handed(int fd, char *what, int *handed)
{
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec data = {.iov_base = what, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t got;

    while ((got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    struct cmsghdr *header = got == 1 ? CMSG_FIRSTHDR(&message) : NULL;
    if (header == NULL || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
        header->cmsg_len != CMSG_LEN(sizeof(int)))
        return false;
    memcpy(handed, CMSG_DATA(header), sizeof(int));
    return true;
}
