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

static bool write_all(int fd, const uint8_t *data, size_t size)
{
    while (size > 0) {
        ssize_t written = write(fd, data, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return false;
        data += written;
        size -= (size_t)written;
    }
    return true;
}

enum copied { COPY_MORE, COPY_END, COPY_BROKEN };

static enum copied copy(int from, int to)
{
    static uint8_t data[64 << 10];
    ssize_t size = read(from, data, sizeof data);

    if (size < 0)
        return errno == EINTR || errno == EAGAIN ? COPY_MORE : COPY_END;
    if (size == 0)
        return COPY_END;
    return write_all(to, data, (size_t)size) ? COPY_MORE : COPY_BROKEN;
}

static int run(int fd)
{
    struct pollfd waits[2] = {{.fd = fd, .events = POLLIN}, {.fd = 0, .events = POLLIN}};

    for (;;) {
        if (poll(waits, 2, -1) < 0)
            continue;
        if (waits[0].revents) {
            enum copied copied = copy(fd, 1);
            if (copied != COPY_MORE)
                return copied == COPY_BROKEN;
        }
        if (waits[1].revents && copy(0, fd) != COPY_MORE) {
            shutdown(fd, SHUT_WR); /* no more will be asked; answers may still come */
            waits[1].fd = -1;
        }
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
