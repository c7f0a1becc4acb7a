#include "bridge.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reach.h"

/* What came from standard input and the socket has not taken yet. */
struct inward {
    uint8_t data[64 << 10];
    size_t start, size;
    bool ended; /* no more will come, or be taken */
};

static bool is_for_later(void)
{
    return errno == EINTR || errno == EAGAIN;
}

/* Also to one that somebody else has made not to wait. */
static bool write_all(int fd, const uint8_t *data, size_t size)
{
    while (size > 0) {
        ssize_t written = write(fd, data, size);
        if (written < 0 && !is_for_later())
            return false;
        if (written < 0) {
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
            continue;
        }
        data += written;
        size -= (size_t)written;
    }
    return true;
}

enum copied { COPY_MORE, COPY_END, COPY_BROKEN };

static enum copied copy_outward(int fd)
{
    static uint8_t data[64 << 10];
    ssize_t size = recv(fd, data, sizeof data, MSG_DONTWAIT);

    if (size < 0)
        return is_for_later() ? COPY_MORE : COPY_END;
    if (size == 0)
        return COPY_END;
    return write_all(1, data, (size_t)size) ? COPY_MORE : COPY_BROKEN;
}

/* The socket is never waited for: who is at its other end may take no more before we have taken what comes from there. */
static void send_inward(struct inward *inward, int fd)
{
    ssize_t sent = send(fd, inward->data + inward->start, inward->size, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (sent < 0 && is_for_later())
        return;
    if (sent < 0)
        inward->ended = true;
    inward->start += sent < 0 ? 0 : (size_t)sent;
    inward->size -= sent < 0 ? inward->size : (size_t)sent;
}

static void copy_inward(struct inward *inward, int fd)
{
    ssize_t size = read(0, inward->data, sizeof inward->data);

    if (size < 0 && is_for_later())
        return;
    if (size <= 0) {
        inward->ended = true;
        shutdown(fd, SHUT_WR); /* no more will be asked; answers may still come */
        return;
    }
    inward->start = 0;
    inward->size = (size_t)size;
    send_inward(inward, fd);
}

static int run(int fd)
{
    static struct inward inward;

    for (;;) {
        bool waits_to_send = inward.size > 0;
        struct pollfd waits[2] = {{.fd = fd, .events = waits_to_send ? POLLIN | POLLOUT : POLLIN},
                                  {.fd = waits_to_send || inward.ended ? -1 : 0, .events = POLLIN}};
        if (poll(waits, 2, -1) < 0)
            continue;
        if (waits[0].revents & ~POLLOUT) {
            enum copied copied = copy_outward(fd);
            if (copied != COPY_MORE)
                return copied == COPY_BROKEN;
        }
        if (waits_to_send && waits[0].revents)
            send_inward(&inward, fd);
        if (waits[1].revents)
            copy_inward(&inward, fd);
    }
}

int bridge_main(int argc, char **argv)
{
    if (argc != 2 || argv[1][0] == '-' || argv[1][0] == '\0') {
        fprintf(stderr, "usage: paddock-bridge SOCKET\n"
                        "Connects standard input and output to the Unix socket at that path, or with that abstract name (@NAME).\n");
        return 2;
    }
    prctl(PR_SET_DUMPABLE, 0); /* nobody in the sandbox reads what passes through, or what the engine gave us */
    signal(SIGPIPE, SIG_IGN); /* SIGINT and SIGTERM end it, as they end any program */
    int fd = reach_connect(argv[1]);
    if (fd < 0) {
        fprintf(stderr, "paddock-bridge: %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    return run(fd);
}
