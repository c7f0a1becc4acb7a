/* paddock-init: the first process of a sandbox. It starts commands, ends them, and lets the host at the files. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bridge.h"
#include "channel.h"
#include "commands.h"
#include "files.h"
#include "filter.h"
#include "loop.h"
#include "spawn.h"
#include "trees.h"
#include "wire.h"

#ifndef PADDOCK_RELEASE
#define PADDOCK_RELEASE "unknown"
#endif

struct options {
    int in, out;
    int owner;  /* a pidfd of the host's process, or -1 */
    int cgroup; /* a cgroup2 directory to make one of ours in, or -1 */
    const char *cgroup_name;
    unsigned pids;
    int filter; /* the filter for commands, to be read; or -1 */
};

static bool ending, greeted, has_cgroups;

static _Noreturn void usage(int status)
{
    fprintf(status ? stderr : stdout,
            "usage: paddock-init --channel FD | --stdio  [--owner FD] [--cgroup FD NAME] [--pids N] [--filter FD]\n"
            "       paddock-init bridge SOCKET\n"
            "       paddock-init --version\n"
            "The supervisor of a Paddock sandbox. Paddock starts it; there is nothing to type.\n");
    exit(status);
}

static int number(const char *text)
{
    char *end;
    long value = text == NULL ? -1 : strtol(text, &end, 10);

    if (text == NULL || *text == '\0' || *end != '\0' || value < 0 || value > 1 << 30)
        usage(2);
    return (int)value;
}

static struct options parse(char **argv)
{
    struct options options = {.in = -1, .out = -1, .owner = -1, .cgroup = -1, .filter = -1};

    for (argv++; *argv != NULL; argv++) {
        if (strcmp(*argv, "--stdio") == 0) {
            options.in = 0;
            options.out = 1;
        } else if (strcmp(*argv, "--channel") == 0) {
            options.in = options.out = number(*++argv);
        } else if (strcmp(*argv, "--owner") == 0) {
            options.owner = number(*++argv);
        } else if (strcmp(*argv, "--pids") == 0) {
            options.pids = (unsigned)number(*++argv);
        } else if (strcmp(*argv, "--filter") == 0) {
            options.filter = number(*++argv);
        } else if (strcmp(*argv, "--cgroup") == 0) {
            options.cgroup = number(*++argv);
            options.cgroup_name = argv[1] != NULL ? *++argv : NULL;
        } else {
            usage(strcmp(*argv, "--help") != 0 ? 2 : 0);
        }
    }
    if (options.in < 0 || (options.cgroup >= 0 && options.cgroup_name == NULL))
        usage(2);
    return options;
}

/* By the kernel's own call: the C library keeps two signals for itself, and `make` leaves its children ignoring them. */
static void reset_signals(void)
{
    static const uint64_t standard[4];

    for (int i = 1; i <= 64; i++)
        syscall(SYS_rt_sigaction, i, standard, NULL, sizeof(uint64_t));
}

/* Whatever the host's process was like, ours begins like this. */
static void settle(const struct options *options)
{
    int fd;

    while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd < 3)
        ; /* so that what is opened later never is a standard stream */
    if (fd >= 3)
        close(fd);
    reset_signals();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file beyond the limit is an error of that call, not our end */
    umask(022);
    prctl(PR_SET_DUMPABLE, 0);         /* nobody reads our memory or takes our descriptors */
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* orphans come to us, and not to the host's first process */
    if (options->owner >= 0)
        fcntl(options->owner, F_SETFD, FD_CLOEXEC);
    if (options->cgroup >= 0)
        fcntl(options->cgroup, F_SETFD, FD_CLOEXEC);
}

static void on_signal(struct source *source, uint32_t events)
{
    struct signalfd_siginfo info[16];
    ssize_t size;

    (void)events;
    while ((size = read(source->fd, info, sizeof info)) > 0)
        for (size_t i = 0; i < (size_t)size / sizeof *info; i++)
            ending |= info[i].ssi_signo != SIGCHLD;
    trees_reap();
}

static void watch_signals(void)
{
    static struct source source;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (!loop_add(&source, signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), EPOLLIN, on_signal))
        abort();
}

static void on_owner(struct source *source, uint32_t events)
{
    (void)source, (void)events;
    ending = true; /* the host's process is gone, even if somebody else holds the channel open */
}

static void watch_owner(int owner)
{
    static struct source source;

    if (owner >= 0)
        loop_add(&source, owner, EPOLLIN, on_owner);
}

static bool greet(const struct header *header, struct reader *payload)
{
    uint16_t version = take_u16(payload);

    take_u32(payload);
    if (!reader_done(payload))
        return false;
    if (version != PROTOCOL_VERSION) {
        channel_fail("this supervisor speaks version 1 of the protocol");
        return true;
    }
    greeted = true;
    message_begin(REP_HELLO, header->id);
    put_u16(PROTOCOL_VERSION);
    put_u32((channel_passes_descriptors() ? 1u : 0u) | (has_cgroups ? 2u : 0u));
    put_u32((uint32_t)getpid());
    put_text(PADDOCK_RELEASE);
    channel_send();
    return true;
}

static bool handle(const struct header *header, struct reader *payload, int *fds)
{
    bool takes_fds = header->type == REQ_SPAWN || header->type == REQ_DROP;

    if (header->fds > 0 && !takes_fds)
        return false;
    if (header->type == REQ_HELLO)
        return greet(header, payload);
    if (!greeted)
        return false;
    if (header->type >= REQ_SPAWN && header->type <= REQ_ATTACH)
        return commands_request(header, payload, fds);
    if (header->type == REQ_ROOT || (header->type >= REQ_STAT && header->type <= REQ_UNWATCH))
        return files_request(header, payload);
    channel_failed(header->id, ENOSYS, STAGE_REQUEST);
    return true;
}

static int supervise(const struct options *options)
{
    bool was_full = false;

    settle(options);
    filter_open(options->filter);
    loop_open();
    spawn_open(options->pids);
    has_cgroups = trees_open(options->cgroup, options->cgroup_name);
    watch_signals();
    watch_owner(options->owner);
    channel_open(options->in, options->out, handle);
    while (!ending && !channel_ended()) {
        loop_once(trees_tick());
        if (was_full && !channel_full()) {
            commands_resume();
            files_resume();
        }
        was_full = channel_full();
    }
    trees_close();
    files_close();
    return 0;
}

int main(int argc, char **argv)
{
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    const char *name = slash != NULL ? slash + 1 : argc > 0 ? argv[0] : "";

    if (strcmp(name, "paddock-bridge") == 0)
        return bridge_main(argc, argv);
    if (argc > 1 && strcmp(argv[1], "bridge") == 0)
        return bridge_main(argc - 1, argv + 1);
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("paddock-init %s protocol %d\n", PADDOCK_RELEASE, PROTOCOL_VERSION);
        return 0;
    }
    struct options options = parse(argv);
    return supervise(&options);
}
