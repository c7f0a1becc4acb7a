#include "channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define FULL (1u << 20)      /* waiting to be sent: read no more output */
#define STUFFED (4u << 20)   /* waiting to be sent: take no more requests */
#define BURSTING (64u << 20) /* waiting to be sent, in spite of both: too much */
#define SPARE (64u << 10)    /* of the queue, kept while nothing waits */
#define LARGE (2 * MAX_DATA) /* received at once: more than data ever is, so that it is one long command */
#define MANY_PASSENGERS 64

/* A descriptor that travels with the byte at this position of all that is ever sent. */
struct passenger {
    struct passenger *next;
    uint64_t at;
    int fd;
};

static bool is_open(const struct channel *channel)
{
    return channel != NULL && !channel->ended && !channel->failing;
}

bool channel_full(const struct channel *channel)
{
    return channel->queue_size > FULL;
}

static bool is_stuffed(const struct channel *channel)
{
    return channel->queue_size > STUFFED || channel->passenger_count > MANY_PASSENGERS;
}

void channel_end(struct channel *channel)
{
    channel->ended = true;
    loop_remove(&channel->in_source);
    loop_remove(&channel->out_source);
}

/* Reading */

static void take_descriptors(struct channel *channel, struct msghdr *message)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (channel->fd_count < MAX_QUEUED_FDS)
                channel->fds[channel->fd_count++] = fd;
            else
                close(fd);
        }
    }
}

static ssize_t receive(struct channel *channel)
{
    char control[CMSG_SPACE(MAX_FDS * sizeof(int))];
    struct iovec part = {channel->received + channel->received_size,
                         HEADER_SIZE + MAX_PAYLOAD - channel->received_size};

    if (!channel->is_socket)
        return read(channel->in, part.iov_base, part.iov_len);
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t size = recvmsg(channel->in, &message, MSG_CMSG_CLOEXEC);
    if (size > 0)
        take_descriptors(channel, &message);
    return size;
}

static void close_all(int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static bool handle_with_descriptors(struct channel *channel, const struct header *header, struct reader *payload)
{
    int fds[MAX_FDS] = {-1, -1, -1, -1, -1, -1, -1, -1};
    size_t count = header->fds;

    if (count > channel->fd_count)
        return false;
    memcpy(fds, channel->fds, count * sizeof *fds);
    channel->fd_count -= count;
    memmove(channel->fds, channel->fds + count, channel->fd_count * sizeof *fds);
    bool fine = channel->handle(channel, header, payload, fds);
    close_all(fds, MAX_FDS);
    return fine;
}

/* Handle the first frame of the buffer, if all of it is there; how many bytes it had. */
static size_t handle_first(struct channel *channel, const uint8_t *at, size_t size)
{
    struct header header;

    if (size < HEADER_SIZE)
        return 0;
    if (!header_read(at, &header)) {
        channel_fail(channel, "a frame's header breaks the rules");
        return 0;
    }
    if (size < HEADER_SIZE + header.size)
        return 0;
    struct reader payload = {at + HEADER_SIZE, at + HEADER_SIZE + header.size, false};
    channel->heard = true;
    if (!handle_with_descriptors(channel, &header, &payload))
        channel_fail(channel, "a frame does not have the fields of its type");
    return HEADER_SIZE + header.size;
}

/* The kernel may have the memory again: a sandbox with nothing to do is to be small, whatever was done in it. */
static void give_back(uint8_t *memory, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)memory + page - 1) & ~(page - 1), to = ((uintptr_t)memory + size) & ~(page - 1);

    if (to > from)
        madvise((void *)from, to - from, MADV_DONTNEED);
}

/* Handle what was received. Small requests can have large answers: while too many wait, neither is another looked at, nor
 * more received. */
static void handle_received(struct channel *channel)
{
    size_t done = 0, used = 1;

    while (is_open(channel) && !is_stuffed(channel) && used > 0) {
        used = handle_first(channel, channel->received + done, channel->received_size - done);
        done += used;
    }
    channel->received_size -= done;
    memmove(channel->received, channel->received + done, channel->received_size);
    if (done > LARGE && channel->received_size == 0)
        give_back(channel->received, done);
    if (is_stuffed(channel))
        loop_remove(&channel->in_source);
}

static void on_readable(struct source *source, uint32_t events)
{
    struct channel *channel = (struct channel *)source;

    (void)events;
    ssize_t size = receive(channel);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (size <= 0) {
        channel_end(channel);
        return;
    }
    channel->received_size += (size_t)size;
    handle_received(channel);
}

/* Writing */

static bool make_room(struct channel *channel, size_t size)
{
    if (channel->queue_start > 0) {
        memmove(channel->queue, channel->queue + channel->queue_start, channel->queue_size);
        channel->queue_start = 0;
    }
    if (channel->queue_size + size <= channel->queue_room)
        return true;
    uint8_t *larger = realloc(channel->queue, channel->queue_size + size);
    if (larger == NULL)
        return false;
    channel->queue = larger;
    channel->queue_room = channel->queue_size + size;
    return true;
}

static void shrink(struct channel *channel)
{
    if (channel->queue_room > SPARE) {
        free(channel->queue);
        channel->queue = NULL;
        channel->queue_room = 0;
    }
    channel->queue_start = 0;
}

/* `fd` is taken over, and may be none. */
static bool add_passenger(struct channel *channel, int fd)
{
    struct passenger **at = &channel->passengers, *passenger = malloc(sizeof *passenger);

    if (passenger == NULL || fd < 0) {
        if (fd >= 0)
            close(fd);
        free(passenger);
        return false;
    }
    while (*at != NULL)
        at = &(*at)->next;
    *passenger = (struct passenger){NULL, channel->sent + channel->queue_size, fd};
    *at = passenger;
    channel->passenger_count++;
    return true;
}

static void drop_passenger(struct channel *channel)
{
    struct passenger *first = channel->passengers;

    channel->passengers = first->next;
    channel->passenger_count--;
    close(first->fd);
    free(first);
}

/* The kernel counts descriptors on their way for each user, in all sandboxes together, and takes no more for now. */
static bool may_not_travel(int error)
{
    return error == ETOOMANYREFS || error == ENOBUFS || error == ENOMEM;
}

/* The first frame of the queue becomes one that says why its descriptor does not come. */
static bool leave_behind(struct channel *channel, int error)
{
    const uint8_t *failed;
    struct header header;
    size_t size;

    header_read(channel->queue + channel->queue_start, &header);
    size_t before = HEADER_SIZE + header.size;
    message_begin(REP_FAILED, header.id);
    put_u32((uint32_t)error);
    put_u8(STAGE_RESOURCES);
    failed = message_bytes(&size);
    if (!make_room(channel, size))
        return false;
    memmove(channel->queue + channel->queue_start + size, channel->queue + channel->queue_start + before,
            channel->queue_size - before);
    memcpy(channel->queue + channel->queue_start, failed, size);
    channel->queue_size += size - before;
    drop_passenger(channel);
    for (struct passenger *later = channel->passengers; later != NULL; later = later->next)
        later->at += size - before;
    return true;
}

static ssize_t send_with_passenger(struct channel *channel, struct iovec *part)
{
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr message = {
        .msg_iov = part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &channel->passengers->fd, sizeof(int));
    ssize_t sent = sendmsg(channel->out, &message, MSG_NOSIGNAL);
    if (sent > 0)
        drop_passenger(channel);
    if (sent < 0 && may_not_travel(errno) && leave_behind(channel, errno))
        return 0;
    return sent;
}

/* Send what waits, but never two descriptors at once: the bytes of each begin a call of its own. */
static ssize_t send_some(struct channel *channel)
{
    struct iovec part = {channel->queue + channel->queue_start, channel->queue_size};
    const struct passenger *first = channel->passengers;
    bool boards = first != NULL && first->at == channel->sent;
    const struct passenger *until = boards ? first->next : first;

    if (until != NULL)
        part.iov_len = (size_t)(until->at - channel->sent);
    if (boards)
        return send_with_passenger(channel, &part);
    return channel->is_socket ? send(channel->out, part.iov_base, part.iov_len, MSG_NOSIGNAL)
                              : write(channel->out, part.iov_base, part.iov_len);
}

/* Send what waits, as far as the other side takes it. */
static void flush(struct channel *channel)
{
    while (channel->queue_size > 0) {
        ssize_t sent = send_some(channel);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN)
            return;
        if (sent < 0) {
            channel_end(channel);
            return;
        }
        channel->moved = true;
        channel->sent += (uint64_t)sent;
        channel->queue_start += (size_t)sent;
        channel->queue_size -= (size_t)sent;
    }
    shrink(channel);
    if (channel->failing)
        channel_end(channel);
}

static void read_on(struct channel *channel)
{
    if (!loop_add(&channel->in_source, channel->in, EPOLLIN, on_readable))
        channel_end(channel);
    handle_received(channel);
}

static void on_writable(struct source *source, uint32_t events)
{
    struct channel *channel = (struct channel *)(void *)((char *)source - offsetof(struct channel, out_source));

    (void)events;
    flush(channel);
    if (channel->ended)
        return;
    if (channel->queue_size == 0)
        loop_remove(&channel->out_source);
    if (channel->was_full && !channel_full(channel)) {
        channel->was_full = false;
        channel->has_room(channel);
    }
    if (is_open(channel) && !is_stuffed(channel) && channel->in_source.fd < 0)
        read_on(channel);
}

static void enqueue(struct channel *channel, const uint8_t *bytes, size_t size)
{
    bool bursts = channel->bounded && channel->queue_size > BURSTING;

    if (bursts || !make_room(channel, size)) {
        channel_end(channel); /* without memory there is no way to go on, and none to say so */
        return;
    }
    memcpy(channel->queue + channel->queue_size, bytes, size);
    channel->queue_size += size;
    flush(channel);
    channel->was_full |= channel_full(channel);
    if (!channel->ended && channel->queue_size > 0 && channel->out_source.fd < 0 &&
        !loop_add(&channel->out_source, channel->out, EPOLLOUT, on_writable))
        channel_end(channel);
}

void channel_send(struct channel *channel)
{
    size_t size;
    const uint8_t *bytes = message_bytes(&size);

    if (!is_open(channel))
        return;
    if (bytes == NULL)
        channel_fail(channel, "an answer became too large");
    else
        enqueue(channel, bytes, size);
}

static bool can_carry(const struct channel *channel)
{
    size_t size;

    return is_open(channel) && channel->is_socket && message_bytes(&size) != NULL;
}

void channel_hand_over(struct channel *channel, int fd)
{
    size_t size;

    if (!can_carry(channel)) {
        close(fd);
    } else if (add_passenger(channel, fd)) {
        ((uint8_t *)(uintptr_t)message_bytes(&size))[5] = 1;
    } else {
        channel_end(channel);
        return;
    }
    channel_send(channel);
}

void channel_send_with(struct channel *channel, int fd)
{
    int copy = fd >= 0 && can_carry(channel) ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;

    if (copy >= 0)
        channel_hand_over(channel, copy);
    else if (fd >= 0 && can_carry(channel))
        channel_end(channel);
    else
        channel_send(channel);
}

void channel_ok(struct asker asker)
{
    message_begin(REP_OK, asker.id);
    channel_send(asker.channel);
}

void channel_failed(struct asker asker, int error, enum stage stage)
{
    message_begin(REP_FAILED, asker.id);
    put_u32((uint32_t)error);
    put_u8((uint8_t)stage);
    channel_send(asker.channel);
}

void channel_fail(struct channel *channel, const char *why)
{
    if (!is_open(channel))
        return;
    message_begin(REP_ERROR, 0);
    put_text(why);
    channel_send(channel);
    channel->failing = channel->moved = true;
    loop_remove(&channel->in_source);
    if (channel->queue_size == 0)
        channel_end(channel);
}

/* Beginning and end */

static void set_up(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static bool is_a_socket(int fd)
{
    int type;
    socklen_t size = sizeof type;

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
}

struct channel *channel_open(int in, int out, frame_fn handle, room_fn has_room)
{
    struct channel *channel = calloc(1, sizeof *channel);
    uint8_t *received = malloc(HEADER_SIZE + MAX_PAYLOAD);
    /* Another number for the same socket, so that reading and writing can be waited for apart. */
    int other = in == out ? fcntl(in, F_DUPFD_CLOEXEC, 3) : out;

    if (channel == NULL || received == NULL || other < 0)
        goto failed;
    *channel = (struct channel){.in = in, .out = other, .received = received, .handle = handle, .has_room = has_room};
    channel->is_socket = in == out && is_a_socket(in);
    channel->out_source.fd = -1;
    jobs_open(&channel->jobs);
    set_up(in);
    set_up(other);
    if (loop_add(&channel->in_source, in, EPOLLIN, on_readable))
        return channel;
failed:
    if (in == out && other >= 0)
        close(other);
    free(received);
    free(channel);
    return NULL;
}

void channel_free(struct channel *channel)
{
    channel_end(channel);
    while (channel->passengers != NULL)
        drop_passenger(channel);
    close_all(channel->fds, channel->fd_count);
    close(channel->in);
    close(channel->out);
    free(channel->received);
    free(channel->queue);
    free(channel);
}
