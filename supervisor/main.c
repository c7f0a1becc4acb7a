/* paddock-init: the first process of a sandbox. It starts commands, ends them, and lets the host at the files. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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
#include "connections.h"
#include "files.h"
#include "filter.h"
#include "launch.h"
#include "loop.h"
#include "reach.h"
#include "relays.h"
#include "spawn.h"
#include "trees.h"
#include "wire.h"

#define MISPLACED 3 /* the exit status that the host knows */
#define MOST_FILTERS 4
#define MAX_SECRET 64

#ifndef PADDOCK_RELEASE
#define PADDOCK_RELEASE "unknown"
#endif

struct options {
    int in, out;
    int owner;  /* a pidfd of the host's process, or -1 */
    int cgroup; /* a cgroup2 directory to make one of ours in, or -1 */
    const char *cgroup_name;
    int own_cgroup; /* a cgroup2 directory that we are in, or -1 */
    struct bounds bounds;
    struct terms terms;
    int filter; /* the filter for commands, to be read; or -1 */
    int confine[MOST_FILTERS];
    size_t confine_count;
    const char *call;  /* where the host waits for us to connect, or NULL */
    const char *serve; /* where we wait for it if it does not, or NULL */
};

static bool ending, has_cgroups;
static char secret[MAX_SECRET + 1]; /* what a host says to be taken for one, where commands can get to our socket as well */

static _Noreturn void usage(int status)
{
    fprintf(status ? stderr : stdout,
            "usage: paddock-init [--channel FD | --stdio | --call SOCKET] [--listen FD | --serve[-once] SOCKET]\n"
            "                    [--idle SECONDS] [--lifetime SECONDS] [--owner FD] [--hold FD] [--cgroup FD NAME | --own-cgroup FD]\n"
            "                    [--pids N | --own-pids N] [--open-files N] [--file-size N] [--address-space N]\n"
            "                    [--at PATH]… [--confine FILE]… [--filter FD | --filter FILE]\n"
            "       paddock-init bridge SOCKET\n"
            "       paddock-init launch [--cgroup FD] [--join FD] [--user UID GID] [--after FD] [--keep PATH]\n"
            "                    [--in FD | --give FD] [--show FD|PATH UID GID] -- PROGRAM …\n"
            "       paddock-init show USER GROUP [FD UID GID PATH]…\n"
            "       paddock-init --version\n"
            "The supervisor of a Paddock sandbox. Paddock starts it; there is nothing to type.\n");
    exit(status);
}

static uint64_t amount(const char *text)
{
    char *end;
    long long value = text == NULL ? -1 : strtoll(text, &end, 10);

    if (text == NULL || *text == '\0' || *end != '\0' || value < 0)
        usage(2);
    return (uint64_t)value;
}

static int number(const char *text)
{
    uint64_t value = amount(text);

    if (value > 1 << 30)
        usage(2);
    return (int)value;
}

/* One that was inherited: it is ours, and no command's. */
static int descriptor(const char *text)
{
    int fd = number(text);

    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        usage(2);
    return fd;
}

/* A file, by its absolute path where no descriptor can be inherited. */
static int file(const char *text)
{
    int fd;

    if (text == NULL || text[0] != '/')
        return descriptor(text);
    fd = open(text, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        fprintf(stderr, "paddock-init: %s: %s\n", text, strerror(errno));
        exit(1);
    }
    return fd;
}

static const char *address(const char *text)
{
    if (text == NULL || text[0] == '\0')
        usage(2);
    return text;
}

/* A mount that an image led elsewhere by a link would be where commands can write, or hide what they must not. */
static void check_place(const char *path)
{
    char real[PATH_MAX];

    if (realpath(path, real) != NULL && strcmp(real, path) == 0)
        return;
    fprintf(stderr, "paddock-init: %s is not where it should be\n", path);
    exit(MISPLACED);
}

/* For containers, which are given nothing but files. */
static bool parse_contained(struct options *options, char ***argv)
{
    const char *option = **argv;

    if (strcmp(option, "--call") == 0) {
        options->call = address(*++*argv);
    } else if (strcmp(option, "--serve") == 0 || strcmp(option, "--serve-once") == 0) {
        options->terms.once = strcmp(option, "--serve-once") == 0;
        options->serve = address(*++*argv);
    } else if (strcmp(option, "--at") == 0) {
        check_place(address(*++*argv));
    } else if (strcmp(option, "--confine") == 0 && options->confine_count < MOST_FILTERS) {
        options->confine[options->confine_count++] = file(*++*argv);
    } else {
        return false;
    }
    return true;
}

static struct options parse(char **argv)
{
    struct options options = {
        .in = -1, .out = -1, .owner = -1, .cgroup = -1, .own_cgroup = -1, .filter = -1, .terms = {.listen = -1}};

    for (argv++; *argv != NULL; argv++) {
        if (parse_contained(&options, &argv))
            continue;
        if (strcmp(*argv, "--stdio") == 0) {
            options.in = 0;
            options.out = 1;
        } else if (strcmp(*argv, "--channel") == 0) {
            options.in = options.out = descriptor(*++argv);
        } else if (strcmp(*argv, "--owner") == 0) {
            options.owner = descriptor(*++argv);
        } else if (strcmp(*argv, "--hold") == 0) {
            descriptor(*++argv); /* only kept open as long as we are there */
        } else if (strcmp(*argv, "--listen") == 0) {
            options.terms.listen = descriptor(*++argv);
        } else if (strcmp(*argv, "--idle") == 0) {
            options.terms.idle = number(*++argv);
        } else if (strcmp(*argv, "--lifetime") == 0) {
            options.terms.lifetime = number(*++argv);
        } else if (strcmp(*argv, "--pids") == 0) {
            options.bounds.pids = (unsigned)number(*++argv);
        } else if (strcmp(*argv, "--own-pids") == 0) {
            options.bounds.pids = (unsigned)number(*++argv);
            options.bounds.own_pids = true;
        } else if (strcmp(*argv, "--open-files") == 0) {
            options.bounds.open_files = amount(*++argv);
        } else if (strcmp(*argv, "--file-size") == 0) {
            options.bounds.file_size = amount(*++argv);
        } else if (strcmp(*argv, "--address-space") == 0) {
            options.bounds.address_space = amount(*++argv);
        } else if (strcmp(*argv, "--filter") == 0) {
            options.filter = file(*++argv);
        } else if (strcmp(*argv, "--cgroup") == 0) {
            options.cgroup = descriptor(*++argv);
            options.cgroup_name = argv[1] != NULL ? *++argv : NULL;
        } else if (strcmp(*argv, "--own-cgroup") == 0) {
            options.own_cgroup = descriptor(*++argv);
        } else {
            usage(strcmp(*argv, "--help") != 0 ? 2 : 0);
        }
    }
    if ((options.in < 0 && options.terms.listen < 0 && options.call == NULL && options.serve == NULL) || (options.cgroup >= 0 && options.cgroup_name == NULL))
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
static void settle(void)
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
}

static void on_signal(struct source *source, uint32_t events)
{
    struct signalfd_siginfo info[16];

    (void)events;
    ssize_t size = read(source->fd, info, sizeof info); /* if there are more, we are called again */
    for (ssize_t i = 0; i < size / (ssize_t)sizeof *info; i++)
        ending |= info[i].ssi_signo != SIGCHLD;
    trees_reap();
}

/* The first process of a namespace takes no orders: what it neither waits for nor handles, the kernel keeps from it. Whoever asks
 * could be inside, and where there are too many signals under way nobody can tell any more who asked. */
static void watch_signals(void)
{
    static const int orders[] = {SIGTERM, SIGINT, SIGHUP};
    static struct source source;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (size_t i = 0; getpid() != 1 && i < sizeof orders / sizeof *orders; i++)
        sigaddset(&set, orders[i]);
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

/* It comes in the environment, where commands could find it by way of /proc: it is wiped before there are any. */
static void take_secret(void)
{
    char *given = getenv("PADDOCK_SECRET");

    if (given == NULL)
        return;
    snprintf(secret, sizeof secret, "%s", given);
    explicit_bzero(given, strlen(given));
}

/* In a time that does not tell how much of it was right. */
static bool same_secret(const char *text)
{
    size_t size = strlen(secret);
    int differs = 0;

    if (text == NULL || strlen(text) != size)
        return false;
    for (size_t i = 0; i < size; i++)
        differs |= text[i] ^ secret[i];
    return differs == 0;
}

static bool greet(struct channel *channel, const struct header *header, struct reader *payload)
{
    uint16_t version = take_u16(payload);

    take_u32(payload);
    bool known = secret[0] == '\0' || same_secret(take_text(payload));
    if (!reader_done(payload))
        return false;
    if (!known) {
        channel_fail(channel, "that is not this sandbox's secret");
        return true;
    }
    if (version != PROTOCOL_VERSION) {
        channel_fail(channel, "this supervisor speaks version 1 of the protocol");
        return true;
    }
    channel->greeted = true;
    message_begin(REP_HELLO, header->id);
    put_u16(PROTOCOL_VERSION);
    put_u32((channel->is_socket ? 1u : 0u) | (has_cgroups ? 2u : 0u));
    put_u32((uint32_t)getpid());
    put_text(PADDOCK_RELEASE);
    channel_send(channel);
    return true;
}

static bool handle(struct channel *channel, const struct header *header, struct reader *payload, int *fds)
{
    bool takes_fds = header->type == REQ_SPAWN || header->type == REQ_DROP;

    if (header->fds > 0 && !takes_fds)
        return false;
    if (header->type == REQ_HELLO)
        return greet(channel, header, payload);
    if (!channel->greeted)
        return false;
    if (header->type == REQ_END) {
        ending |= reader_done(payload);
        return reader_done(payload);
    }
    if (header->type >= REQ_SPAWN && header->type <= REQ_ATTACH)
        return commands_request(channel, header, payload, fds);
    if (header->type == REQ_ROOT || (header->type >= REQ_STAT && header->type <= REQ_UNWATCH))
        return files_request(channel, header, payload);
    if (header->type >= REQ_LISTEN && header->type <= REQ_HANG_UP)
        return relays_request(channel, header, payload);
    channel_failed((struct asker){channel, header->id}, ENOSYS, STAGE_REQUEST);
    return true;
}

/* A container can be given no descriptors. So we call the host, which hands one over before all else: who it is, or a socket
 * on which others will come. */
static bool call_host(struct options *options)
{
    int fd = options->call == NULL ? -1 : reach_connect(options->call), handed = -1;
    char what = 0;

    if (fd < 0)
        return false;
    if (!reach_handed(fd, &what, &handed) || (what != 'O' && what != 'L')) {
        fprintf(stderr, "paddock-init: the host does not keep to the protocol\n");
        exit(1);
    }
    *(what == 'L' ? &options->terms.listen : &options->owner) = handed;
    options->terms.once = false;
    explicit_bzero(secret, sizeof secret); /* nobody else gets to this socket */
    options->in = options->out = fd;
    return true;
}

/* Where no socket of the host's can be reached: it finds a way to ours. */
static void wait_for_host(struct options *options)
{
    if (options->serve == NULL || secret[0] == '\0') {
        fprintf(stderr, "paddock-init: there is no host, and nowhere to wait for it\n");
        exit(1);
    }
    options->terms.listen = reach_listen(options->serve);
    options->terms.relayed = true;
    if (options->terms.listen < 0) {
        fprintf(stderr, "paddock-init: %s: %s\n", options->serve, strerror(errno));
        exit(1);
    }
}

static int earlier(int one, int other)
{
    return one < 0 || (other >= 0 && other < one) ? other : one;
}

static int supervise(struct options *options)
{
    settle();
    for (size_t i = 0; i < options->confine_count; i++)
        filter_confine(options->confine[i]);
    if (options->in < 0 && options->terms.listen < 0 && !call_host(options))
        wait_for_host(options);
    filter_open(options->filter);
    loop_open();
    spawn_open(&options->bounds);
    has_cgroups = options->own_cgroup >= 0 ? trees_open_in(options->own_cgroup)
                                           : trees_open(options->cgroup, options->cgroup_name);
    watch_signals();
    watch_owner(options->owner);
    connections_open(&options->terms, handle);
    if (options->in >= 0 && !connections_add(options->in, options->out))
        ending = true;
    while (!ending && !connections_over()) {
        bool unprepared = trees_unprepared();
        if (!loop_once(unprepared ? 0 : earlier(trees_tick(), connections_tick())) && unprepared)
            trees_prepare();
    }
    trees_close();
    commands_close();
    connections_close();
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
    if (argc > 1 && strcmp(argv[1], "launch") == 0)
        return launch_main(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "show") == 0)
        return show_main(argc - 1, argv + 1);
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("paddock-init %s protocol %d\n", PADDOCK_RELEASE, PROTOCOL_VERSION);
        return 0;
    }
    take_secret();
    struct options options = parse(argv);
    return supervise(&options);
}
