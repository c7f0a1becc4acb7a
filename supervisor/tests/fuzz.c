/* Any bytes at all, given to the supervisor as its host would: over a socket or a plain stream, in pieces, with descriptors, alone or
 * beside another.
 *
 * It runs in this process, as it is, but for commands (fuzz_trees.c) and the places of roots (fuzz_parts.c). What it answers has
 * to be frames, and when it is done it has to have given back every descriptor. */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "../channel.h"
#include "../commands.h"
#include "../connections.h"
#include "../files.h"
#include "../loop.h"
#include "../trees.h"

#define MOST_INPUT (64u << 10)
#define MOST_EVENTS 2000
#define ROOT_ID 2

/* The first byte of an input says how the rest is given. */
enum mode { BY_SOCKET = 1, GREETED = 2, IN_PIECES = 4, DEAF = 8, WITH_DESCRIPTORS = 16, TWO_HOSTS = 32 };

int scratch = -1;
static char scratch_path[] = "/dev/shm/paddock-fuzz-XXXXXX";
static int null_fd, listening;

static void fail(const char *why)
{
    fprintf(stderr, "the supervisor %s\n", why);
    abort();
}

/* The scratch directory */

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    if (at->level > 0)
        (kind == FTW_DP ? rmdir : unlink)(path);
    return 0;
}

static void empty_scratch(void)
{
    struct stat info;

    /* Directories that were given modes without meaning for us: we are root, or the next look finds them. */
    nftw(scratch_path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    if (fstat(scratch, &info) == 0 && info.st_nlink == 0)
        fail("removed its root");
}

static void close_scratch(void)
{
    empty_scratch();
    rmdir(scratch_path);
}

static void put_file(const char *name)
{
    int fd = openat(scratch, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    if (fd >= 0 && write(fd, "content of a file\n", 18) == 18)
        close(fd);
}

static void fill_scratch(void)
{
    put_file("f");
    mkdirat(scratch, "d", 0755);
    mkdirat(scratch, "d/e", 0755);
    put_file("d/g");
    if (symlinkat("../../outside", scratch, "l") < 0)
        return;
}

/* A socket to connect to, under a name that the kernel chooses. */
static int listen_somewhere(void)
{
    struct sockaddr_un nowhere = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&nowhere, sizeof nowhere.sun_family) < 0 || listen(fd, 8) < 0)
        abort();
    return fd;
}

static void open_once(void)
{
    if (scratch >= 0)
        return;
    if (access("/dev/shm", W_OK) < 0)
        memcpy(scratch_path, "/var/tmp", 8);
    if (mkdtemp(scratch_path) == NULL || (scratch = open(scratch_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        abort();
    atexit(close_scratch);
    signal(SIGPIPE, SIG_IGN); /* as the supervisor does */
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    listening = listen_somewhere();
    loop_open();
    /* What is opened only once is opened now, so that it is not taken for a leak. */
    close(open_beneath(scratch, ".", O_PATH | O_DIRECTORY));
}

/* The loop */

static int handled;

int __real_epoll_wait(int epoll, struct epoll_event *events, int most, int milliseconds);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int most, int milliseconds);

int __wrap_epoll_wait(int epoll, struct epoll_event *events, int most, int milliseconds)
{
    (void)milliseconds;
    return handled = __real_epoll_wait(epoll, events, most, 0);
}

static void run(void)
{
    for (int events = 0; events < MOST_EVENTS; events++) {
        trees_tick();
        connections_tick();
        loop_once(0);
        if (handled != 1)
            return;
    }
}

/* The host */

struct host {
    int reading, writing;
    bool deaf;
    uint8_t buffer[HEADER_SIZE + 65536];
    size_t size, skip;
};

/* Take what was answered apart, as far as it is frames. */
static void check_answers(struct host *host)
{
    struct header header;
    size_t at = 0;

    while (host->size - at > 0) {
        if (host->skip > 0) {
            size_t part = host->skip < host->size - at ? host->skip : host->size - at;
            host->skip -= part;
            at += part;
            continue;
        }
        if (host->size - at < HEADER_SIZE)
            break;
        if (!header_read(host->buffer + at, &header) || header.type < REP_HELLO)
            fail("answers with what is no frame");
        at += HEADER_SIZE;
        host->skip = header.size;
    }
    host->size -= at;
    memmove(host->buffer, host->buffer + at, host->size);
}

static bool hear(struct host *host)
{
    char control[CMSG_SPACE(8 * sizeof(int))];
    struct iovec part = {host->buffer + host->size, sizeof host->buffer - host->size};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t size = recvmsg(host->reading, &message, MSG_CMSG_CLOEXEC);

    if (size < 0 && errno == ENOTSOCK)
        size = read(host->reading, part.iov_base, part.iov_len);
    else if (size > 0)
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c)) {
            int fd;
            memcpy(&fd, CMSG_DATA(c), sizeof fd);
            close(fd);
        }
    if (size <= 0)
        return false;
    host->size += (size_t)size;
    check_answers(host);
    return true;
}

static void listen_and_run(struct host *host)
{
    do
        run();
    while (!host->deaf && hear(host));
}

static ssize_t say(struct host *host, const uint8_t *data, size_t size, bool with_descriptors)
{
    char control[CMSG_SPACE(3 * sizeof(int))] = {0};
    struct iovec part = {(void *)(uintptr_t)data, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    int one[2], other[2];

    if (!with_descriptors)
        return write(host->writing, data, size);
    if (pipe2(one, O_CLOEXEC) < 0 || pipe2(other, O_CLOEXEC) < 0)
        abort();
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(3 * sizeof(int));
    memcpy(CMSG_DATA(c), (int[]){null_fd, one[1], other[0]}, 3 * sizeof(int));
    ssize_t sent = sendmsg(host->writing, &message, MSG_NOSIGNAL);
    for (int i = 0; i < 2; i++) {
        close(one[i]);
        close(other[i]);
    }
    return sent;
}

static void say_all(struct host *host, const uint8_t *data, size_t size, unsigned mode)
{
    size_t piece = mode & IN_PIECES ? 1 + size / 8 : size;
    bool with_descriptors = mode & WITH_DESCRIPTORS && mode & (BY_SOCKET | TWO_HOSTS);

    while (size > 0 && !connections_over()) {
        ssize_t sent = say(host, data, piece < size ? piece : size, with_descriptors);
        if (sent > 0) {
            data += sent;
            size -= (size_t)sent;
        }
        listen_and_run(host);
        if (sent <= 0) { /* it waits for us to listen */
            if (!host->deaf)
                break;
            host->deaf = false;
        }
    }
}

/* HELLO, and ROOT with the number that the vectors use. */
static const uint8_t greeting[] = {6, 0, 0, 0, REQ_HELLO, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0,
                                   6, 0, 0, 0, REQ_ROOT, 0, 0, 0, ROOT_ID, 0, 0, 0, 1, 0, 0, 0, '/', 0};

static void converse(struct host *host, const uint8_t *data, size_t size, unsigned mode)
{
    if (mode & GREETED)
        say_all(host, greeting, sizeof greeting, 0);
    host->deaf = mode & DEAF;
    say_all(host, data, size, mode);
    host->deaf = false;
    listen_and_run(host);
}

static void hang_up(struct host *host, bool by_socket)
{
    close(host->writing);
    listen_and_run(host);
    if (by_socket)
        shutdown(host->reading, SHUT_WR);
    listen_and_run(host);
    close(host->reading);
}

/* Our end of a socket that the supervisor has accepted. */
static int connect_by_name(void)
{
    struct sockaddr_un name;
    socklen_t size = sizeof name;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (getsockname(listening, (struct sockaddr *)&name, &size) < 0 || connect(fd, (struct sockaddr *)&name, size) < 0)
        abort();
    run();
    return fd;
}

/* Our end of a socket that the supervisor has had from the start. */
static int connect_by_pair(void)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
        abort();
    connections_add(ends[1], ends[1]);
    return ends[0];
}

static void connect_host(struct host *host, unsigned mode)
{
    int ends[4];

    *host = (struct host){0};
    if (mode & (BY_SOCKET | TWO_HOSTS)) {
        host->reading = mode & TWO_HOSTS ? connect_by_name() : connect_by_pair();
        host->writing = fcntl(host->reading, F_DUPFD_CLOEXEC, 3);
        return;
    }
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0 || pipe2(ends + 2, O_CLOEXEC | O_NONBLOCK) < 0)
        abort();
    host->reading = ends[2];
    host->writing = ends[1];
    connections_add(ends[0], ends[3]);
}

static int open_descriptors(void)
{
    int count = 0;

    for (int fd = 0; fd < 128; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void one_host(const uint8_t *data, size_t size, unsigned mode)
{
    static struct host host;

    connect_host(&host, mode);
    converse(&host, data, size, mode);
    hang_up(&host, mode & BY_SOCKET);
    if (!connections_over())
        fail("goes on without its host");
}

/* Both say the same, and the second is there when the first leaves: commands change hands, or have none. */
static void two_hosts(const uint8_t *data, size_t size, unsigned mode)
{
    static struct host one, other;

    connect_host(&one, mode);
    converse(&one, data, size, mode);
    connect_host(&other, mode);
    converse(&other, data, size, mode);
    hang_up(&one, true);
    listen_and_run(&other);
    hang_up(&other, true);
    if (connections_over())
        fail("ends with its hosts, though others could come");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct terms terms = {.listen = -1};

    open_once();
    if (size < 1 || size > MOST_INPUT)
        return 0;
    int before = open_descriptors();
    fill_scratch();
    if (data[0] & TWO_HOSTS)
        terms.listen = listening;
    connections_open(&terms, supervisor_handle);
    (data[0] & TWO_HOSTS ? two_hosts : one_host)(data + 1, size - 1, data[0]);
    trees_close();
    commands_close();
    connections_close();
    supervisor_reset();
    run(); /* what was to be dropped has ended by now */
    empty_scratch();
    if (open_descriptors() != before)
        fail("keeps a descriptor open");
    return 0;
}
