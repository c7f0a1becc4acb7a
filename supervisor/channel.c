#include "channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop.h"

#define FULL (1u << 20)   /* waiting to be sent: read no more output */
#define STUFFED (4u << 20) /* waiting to be sent: take no more requests */
#define SPARE (64u << 10) /* of the queue, kept while nothing waits */
#define MAX_QUEUED_FDS 64
#define LAST_WORDS_MS 1000

static struct source in_source, out_source = {.fd = -1};
static int in_fd = -1, out_fd = -1;
static bool is_socket, ended;
static frame_fn handle_frame;

static uint8_t in_buffer[HEADER_SIZE + MAX_PAYLOAD];
static size_t in_size;
static int in_fds[MAX_QUEUED_FDS];
static size_t in_fd_count;

static uint8_t *out_buffer;
static size_t out_start, out_size, out_room;

bool channel_passes_descriptors(void)
{
    return is_socket;
}

bool channel_ended(void)
{
    return ended;
}

bool channel_full(void)
{
    return out_size > FULL;
}

static void end(void)
{
    if (ended)
        return;
    ended = true;
    loop_remove(&in_source);
    loop_remove(&out_source);
}

/* Reading */

static void take_descriptors(struct msghdr *message)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (in_fd_count < MAX_QUEUED_FDS)
                in_fds[in_fd_count++] = fd;
            else
                close(fd);
        }
    }
}

static ssize_t receive(void)
{
    char control[CMSG_SPACE(MAX_FDS * sizeof(int))];
    struct iovec part = {in_buffer + in_size, sizeof in_buffer - in_size};

    if (!is_socket)
        return read(in_fd, part.iov_base, part.iov_len);
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t size = recvmsg(in_fd, &message, MSG_CMSG_CLOEXEC);
    if (size > 0)
        take_descriptors(&message);
    return size;
}

static void close_all(int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static bool handle_with_descriptors(const struct header *header, struct reader *payload)
{
    int fds[MAX_FDS] = {-1, -1, -1, -1, -1, -1, -1, -1};
    size_t count = header->fds;

    if (count > in_fd_count)
        return false;
    memcpy(fds, in_fds, count * sizeof *fds);
    in_fd_count -= count;
    memmove(in_fds, in_fds + count, in_fd_count * sizeof *in_fds);
    bool fine = handle_frame(header, payload, fds);
    close_all(fds, MAX_FDS);
    return fine;
}

/* Handle the first frame of the buffer, if all of it is there; how many bytes it had. */
static size_t handle_first(const uint8_t *at, size_t size)
{
    struct header header;

    if (size < HEADER_SIZE)
        return 0;
    if (!header_read(at, &header)) {
        channel_fail("a frame's header breaks the rules");
        return 0;
    }
    if (size < HEADER_SIZE + header.size)
        return 0;
    struct reader payload = {at + HEADER_SIZE, at + HEADER_SIZE + header.size, false};
    if (!handle_with_descriptors(&header, &payload))
        channel_fail("a frame does not have the fields of its type");
    return HEADER_SIZE + header.size;
}

/* Handle what was received. Small requests can have large answers: while too many wait, neither is another looked at, nor
 * more received. */
static void handle_received(void)
{
    size_t done = 0, used = 1;

    while (!ended && out_size <= STUFFED && used > 0) {
        used = handle_first(in_buffer + done, in_size - done);
        done += used;
    }
    in_size -= done;
    memmove(in_buffer, in_buffer + done, in_size);
    if (!ended && out_size > STUFFED)
        loop_remove(&in_source);
}

static void on_readable(struct source *source, uint32_t events)
{
    (void)source, (void)events;
    ssize_t size = receive();
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (size <= 0) {
        end();
        return;
    }
    in_size += (size_t)size;
    handle_received();
}

/* Writing */

static bool make_room(size_t size)
{
    if (out_start > 0) {
        memmove(out_buffer, out_buffer + out_start, out_size);
        out_start = 0;
    }
    if (out_size + size <= out_room)
        return true;
    uint8_t *larger = realloc(out_buffer, out_size + size);
    if (larger == NULL)
        return false;
    out_buffer = larger;
    out_room = out_size + size;
    return true;
}

static void shrink(void)
{
    if (out_room > SPARE) {
        free(out_buffer);
        out_buffer = NULL;
        out_room = 0;
    }
    out_start = 0;
}

/* Send what waits, as far as the other side takes it. */
static void flush(void)
{
    while (out_size > 0) {
        ssize_t sent = is_socket ? send(out_fd, out_buffer + out_start, out_size, MSG_NOSIGNAL)
                                 : write(out_fd, out_buffer + out_start, out_size);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN)
            return;
        if (sent < 0) {
            end();
            return;
        }
        out_start += (size_t)sent;
        out_size -= (size_t)sent;
    }
    shrink();
}

static void on_writable(struct source *source, uint32_t events)
{
    (void)source, (void)events;
    flush();
    if (ended)
        return;
    if (out_size == 0)
        loop_remove(&out_source);
    if (out_size > STUFFED || in_source.fd >= 0)
        return;
    if (!loop_add(&in_source, in_fd, EPOLLIN, on_readable))
        end();
    handle_received();
}

static void enqueue(const uint8_t *bytes, size_t size)
{
    if (!make_room(size)) {
        end(); /* without memory there is no way to go on, and none to say so */
        return;
    }
    memcpy(out_buffer + out_size, bytes, size);
    out_size += size;
    flush();
    if (!ended && out_size > 0 && out_source.fd < 0 && !loop_add(&out_source, out_fd, EPOLLOUT, on_writable))
        end();
}

void channel_send(void)
{
    size_t size;
    const uint8_t *bytes = message_bytes(&size);

    if (ended)
        return;
    if (bytes == NULL)
        channel_fail("an answer became too large");
    else
        enqueue(bytes, size);
}

/* Wait until everything was sent: descriptors travel with the bytes they belong to. */
static void flush_all(int milliseconds)
{
    struct pollfd wait = {.fd = out_fd, .events = POLLOUT};

    flush();
    while (!ended && out_size > 0 && poll(&wait, 1, milliseconds) > 0)
        flush();
}

void channel_send_with(int fd)
{
    char control[CMSG_SPACE(sizeof(int))] = {0};
    size_t size;
    uint8_t *bytes = (uint8_t *)(uintptr_t)message_bytes(&size);

    if (ended || bytes == NULL || fd < 0 || !is_socket) {
        channel_send();
        return;
    }
    flush_all(-1);
    bytes[5] = 1;
    struct iovec part = {bytes, size};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    struct pollfd wait = {.fd = out_fd, .events = POLLOUT};
    ssize_t sent;
    while ((sent = sendmsg(out_fd, &message, MSG_NOSIGNAL)) < 0 && (errno == EAGAIN || errno == EINTR))
        poll(&wait, 1, -1);
    if (sent < 0)
        end();
    else if ((size_t)sent < size)
        enqueue(bytes + sent, size - (size_t)sent);
}

void channel_ok(uint32_t id)
{
    message_begin(REP_OK, id);
    channel_send();
}

void channel_failed(uint32_t id, int error, enum stage stage)
{
    message_begin(REP_FAILED, id);
    put_u32((uint32_t)error);
    put_u8((uint8_t)stage);
    channel_send();
}

void channel_fail(const char *why)
{
    if (ended)
        return;
    message_begin(REP_ERROR, 0);
    put_text(why);
    channel_send();
    flush_all(LAST_WORDS_MS);
    end();
}

static void set_nonblocking(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

void channel_open(int in, int out, frame_fn handle)
{
    int type;
    socklen_t size = sizeof type;

    in_fd = in;
    out_fd = out;
    handle_frame = handle;
    is_socket = in == out && getsockopt(in, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
    if (in == out) /* so that reading and writing can be waited for apart */
        out_fd = out = fcntl(in, F_DUPFD_CLOEXEC, 3);
    set_nonblocking(in);
    set_nonblocking(out);
    fcntl(in, F_SETFD, FD_CLOEXEC);
    fcntl(out, F_SETFD, FD_CLOEXEC);
    if (!loop_add(&in_source, in, EPOLLIN, on_readable))
        end();
}
