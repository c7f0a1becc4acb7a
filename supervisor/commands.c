#include "commands.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "files.h"
#include "streams.h"
#include "terminal.h"
#include "trees.h"

#define MAX_WORDS 1024 /* bytes of a command line that are remembered for lists */
#define MOST_UNHEARD 8 /* ends of commands that are kept for whoever connects next */

/* How one ended. */
struct end {
    uint32_t exit_code;
    uint64_t processor_time, memory, duration;
};

struct command {
    struct tree tree; /* first, so that it is the command too */
    struct command *next;
    struct owner owner;
    uint16_t flags;
    pid_t pid;
    bool ended;
    bool unheard; /* it ended while it was nobody's */
    bool left;    /* nothing of it is there but what is told of its end */
    bool gone_wanted;
    bool killed; /* by whom it belonged to, for whom its end is no news */
    struct end end;
    struct output output[2];
    struct input input;
    int terminal; /* waiting to be sent to the host, or -1 */
    uint64_t began, started; /* in µs: since some moment, and since 1970 */
    uint32_t word_count;
    size_t words_size;
    char words[MAX_WORDS];
};

static struct command *commands;
static struct command *spare; /* memory of one that was freed: the C library would give it to the kernel and ask for it again */

static uint64_t microseconds(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static struct command *by_id(const struct channel *channel, uint32_t id)
{
    struct command *command = commands;

    while (command != NULL && (command->owner.channel != channel || command->owner.id != id))
        command = command->next;
    return command;
}

static struct asker owner_of(const struct command *command)
{
    return (struct asker){command->owner.channel, command->owner.id};
}

static void remember_words(struct command *command, char **argv)
{
    for (; *argv != NULL; argv++) {
        size_t size = strlen(*argv) + 1;
        if (command->words_size + size > MAX_WORDS)
            return;
        memcpy(command->words + command->words_size, *argv, size);
        command->words_size += size;
        command->word_count++;
    }
}

static struct command *new_command(struct asker asker, const struct spawn_request *request)
{
    struct command *command = spare != NULL ? spare : malloc(sizeof *command);

    if (command == NULL)
        return NULL;
    spare = NULL;
    *command = (struct command){.owner = {asker.channel, asker.id, request->window}};
    command->flags = request->flags;
    command->terminal = command->input.fd = command->input.source.fd = -1;
    command->input.owner = &command->owner;
    for (int i = 0; i < 2; i++)
        command->output[i] = (struct output){.source.fd = -1, .fd = -1, .owner = &command->owner};
    command->began = microseconds(CLOCK_MONOTONIC);
    command->started = microseconds(CLOCK_REALTIME);
    remember_words(command, request->argv);
    command->next = commands;
    commands = command;
    return command;
}

static void unlink_command(const struct command *command)
{
    struct command **at = &commands;

    while (*at != command)
        at = &(*at)->next;
    *at = command->next;
}

static void free_command(struct command *command)
{
    unlink_command(command);
    for (int i = 0; i < 2; i++)
        output_close(&command->output[i]);
    input_close(&command->input);
    if (command->terminal >= 0)
        close(command->terminal);
    free(spare);
    spare = command;
}

/* Standard input, output and error of a command, and our ends of them. */
struct plumbing {
    int theirs[3];
    int ours[3];
};

static void close_descriptors(int *fds)
{
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static bool make_pipe(int *reading, int *writing)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return false;
    *reading = ends[0];
    *writing = ends[1];
    return true;
}

static bool take_descriptors(struct plumbing *plumbing, uint16_t flags, int *fds)
{
    int first = flags & SPAWN_STDIN ? 0 : 1;

    for (int i = first; i < 3; i++) {
        plumbing->theirs[i] = fds[i - first];
        fds[i - first] = -1;
    }
    return true;
}

static bool make_terminal(struct plumbing *plumbing, const struct spawn_request *request)
{
    int slave;

    plumbing->ours[0] = terminal_open(request->rows, request->columns, &slave);
    if (plumbing->ours[0] < 0)
        return false;
    plumbing->theirs[0] = slave;
    plumbing->theirs[1] = fcntl(slave, F_DUPFD_CLOEXEC, 3);
    plumbing->theirs[2] = fcntl(slave, F_DUPFD_CLOEXEC, 3);
    return plumbing->theirs[1] >= 0 && plumbing->theirs[2] >= 0;
}

static bool plumb(struct plumbing *plumbing, const struct spawn_request *request, int *fds)
{
    *plumbing = (struct plumbing){{-1, -1, -1}, {-1, -1, -1}};
    if (request->flags & SPAWN_PTY)
        return make_terminal(plumbing, request);
    if (request->flags & SPAWN_DESCRIPTORS)
        take_descriptors(plumbing, request->flags, fds);
    else if (!make_pipe(&plumbing->ours[1], &plumbing->theirs[1]) ||
             !make_pipe(&plumbing->ours[2], &plumbing->theirs[2]) ||
             (request->flags & SPAWN_STDIN && !make_pipe(&plumbing->theirs[0], &plumbing->ours[0])))
        return false;
    if (plumbing->theirs[0] < 0)
        plumbing->theirs[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return plumbing->theirs[0] >= 0;
}

/* Our ends are the command's from now on. */
static void connect_streams(struct command *command, const struct spawn_request *request, struct plumbing *plumbing)
{
    int *ours = plumbing->ours;
    bool by_descriptors = request->flags & SPAWN_DESCRIPTORS;

    if (request->flags & SPAWN_PTY && by_descriptors) {
        command->terminal = ours[0];
    } else if (request->flags & SPAWN_PTY) {
        int both = fcntl(ours[0], F_DUPFD_CLOEXEC, 3);
        if (both >= 0)
            output_open(&command->output[0], both, &command->owner, 1, request->keep);
        input_open(&command->input, ours[0], &command->owner, true);
    } else if (!by_descriptors) {
        for (uint8_t i = 1; i < 3; i++)
            output_open(&command->output[i - 1], ours[i], &command->owner, i, request->keep);
        if (ours[0] >= 0)
            input_open(&command->input, ours[0], &command->owner, false);
    }
    for (int i = 0; i < 3; i++)
        ours[i] = -1;
}

static void start(struct asker asker, const struct spawn_request *request, int directory, struct plumbing *plumbing)
{
    struct command *command = new_command(asker, request);
    struct launch launch = {
        request->argv, request->environment, directory, {0}, request->flags & SPAWN_PTY, request->flags & SPAWN_QUIET,
    };

    if (command == NULL) {
        channel_failed(asker, ENOMEM, STAGE_RESOURCES);
        return;
    }
    memcpy(launch.stdio, plumbing->theirs, sizeof launch.stdio);
    connect_streams(command, request, plumbing);
    tree_start(&command->tree, &launch);
}

static bool descriptors_fit(const struct header *header, const struct spawn_request *request)
{
    int expected = 0;

    if (request->flags & SPAWN_DESCRIPTORS && !(request->flags & SPAWN_PTY))
        expected = request->flags & SPAWN_STDIN ? 3 : 2;
    return header->fds == expected;
}

static bool spawn(struct channel *channel, const struct header *header, struct reader *payload, int *fds)
{
    struct asker asker = {channel, header->id};
    struct spawn_request request;
    struct plumbing plumbing;

    if (!spawn_request_read(payload, &request))
        return false;
    if (!descriptors_fit(header, &request) || by_id(channel, header->id) != NULL) {
        spawn_request_free(&request);
        return false;
    }
    int root = root_descriptor(channel, request.root);
    int directory = root < 0 ? -1 : open_beneath(root, request.directory, O_PATH | O_DIRECTORY);
    if (directory < 0) {
        channel_failed(asker, errno, STAGE_DIRECTORY);
    } else {
        if (plumb(&plumbing, &request, fds))
            start(asker, &request, directory, &plumbing);
        else
            channel_failed(asker, errno, STAGE_RESOURCES);
        close_descriptors(plumbing.theirs);
        close_descriptors(plumbing.ours);
        close(directory);
    }
    spawn_request_free(&request);
    return true;
}

/* It is nobody's from now on. */
static void leave(struct command *command)
{
    command->owner = (struct owner){0};
    command->gone_wanted = false;
    if (command->flags & SPAWN_QUIET && !command->ended)
        tree_kill(&command->tree);
    for (int i = 0; i < 2; i++)
        output_resume(&command->output[i]);
}

/* What the tree tells */

void tree_started(struct tree *tree, pid_t pid)
{
    struct command *command = (struct command *)tree;

    command->pid = pid;
    if (command->flags & SPAWN_QUIET)
        return;
    message_begin(REP_STARTED, command->owner.id);
    put_u32((uint32_t)pid);
    channel_send_with(command->owner.channel, command->terminal);
    if (command->terminal >= 0)
        close(command->terminal);
    command->terminal = -1;
    if (command->flags & SPAWN_LEFT)
        leave(command);
}

void tree_failed(struct tree *tree, const struct failure *failure)
{
    struct command *command = (struct command *)tree;

    command->ended = true;
    channel_failed(owner_of(command), failure->error, failure->stage);
}

static uint32_t exit_code(int status)
{
    return (uint32_t)(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static uint64_t in_microseconds(const struct timeval *time)
{
    return (uint64_t)time->tv_sec * 1000000u + (uint64_t)time->tv_usec;
}

static void tell_ended(const struct command *command)
{
    message_begin(REP_ENDED, command->owner.id);
    put_u32((uint32_t)command->pid);
    put_u32(command->end.exit_code);
    put_u64(command->end.processor_time);
    put_u64(command->end.memory);
    put_u64(command->end.duration);
    channel_send(command->owner.channel);
}

/* Also if whoever it belongs to has hung up, and was not missed yet. */
static bool is_nobodys(const struct command *command)
{
    return command->owner.channel == NULL || command->owner.channel->ended;
}

void tree_ended(struct tree *tree, int status, const struct rusage *usage)
{
    struct command *command = (struct command *)tree;

    command->ended = true;
    command->unheard = is_nobodys(command) && !command->killed && command->pid > 0 &&
                       !(command->flags & (SPAWN_QUIET | SPAWN_DESCRIPTORS));
    command->end = (struct end){
        .exit_code = exit_code(status),
        .processor_time = in_microseconds(&usage->ru_utime) + in_microseconds(&usage->ru_stime),
        .memory = (uint64_t)usage->ru_maxrss * 1024u,
        .duration = microseconds(CLOCK_MONOTONIC) - command->began,
    };
    for (int i = 0; i < 2; i++)
        output_drain(&command->output[i]);
    input_close(&command->input);
    tell_ended(command);
    if (command->flags & SPAWN_PTY) /* what is left of the session hears that its terminal is gone */
        output_end(&command->output[0]);
}

static void tell_gone(struct asker asker)
{
    message_begin(REP_GONE, asker.id);
    channel_send(asker.channel);
}

/* Until somebody attaches to it, or too many others have ended: it comes first, whenever it was started. */
static void keep_end(struct command *ended)
{
    size_t count = 0;

    unlink_command(ended);
    ended->next = commands;
    commands = ended;
    ended->left = true;
    for (struct command *command = commands, *older; command != NULL; command = older) {
        older = command->next;
        if (command->left && ++count > MOST_UNHEARD)
            free_command(command);
    }
}

void tree_gone(struct tree *tree)
{
    struct command *command = (struct command *)tree;

    if (command->gone_wanted)
        tell_gone(owner_of(command));
    for (int i = 0; command->terminal < 0 && i < 2; i++)
        output_leave(&command->output[i]);
    if (command->unheard)
        keep_end(command);
    else
        free_command(command);
}

void tree_out_of_reach(struct tree *tree)
{
    struct command *command = (struct command *)tree;

    command->gone_wanted = false;
    channel_failed(owner_of(command), EPERM, STAGE_NONE);
}

/* Other requests */

static bool send_signal(struct channel *channel, const struct header *header, struct reader *payload)
{
    struct command *command = by_id(channel, header->id);
    uint8_t number = take_u8(payload);

    if (!reader_done(payload) || number == 0 || number > 64)
        return false;
    if (command != NULL)
        tree_signal(&command->tree, number);
    return true;
}

static bool kill_command(struct channel *channel, const struct header *header, struct reader *payload)
{
    struct command *command = by_id(channel, header->id);

    if (!reader_done(payload))
        return false;
    if (command == NULL) {
        tell_gone((struct asker){channel, header->id});
        return true;
    }
    command->gone_wanted = command->killed = true;
    tree_kill(&command->tree);
    return true;
}

static bool give_input(struct channel *channel, const struct header *header, struct reader *payload)
{
    struct command *command = by_id(channel, header->id);

    return command == NULL || input_add(&command->input, payload->at, (size_t)(payload->end - payload->at));
}

static bool resize(struct channel *channel, const struct header *header, struct reader *payload)
{
    struct command *command = by_id(channel, header->id);
    uint16_t rows = take_u16(payload), columns = take_u16(payload);

    if (!reader_done(payload))
        return false;
    if (command != NULL && command->input.terminal && command->input.fd >= 0)
        terminal_resize(command->input.fd, rows, columns);
    return true;
}

static bool widen(struct channel *channel, const struct header *header, struct reader *payload)
{
    struct command *command = by_id(channel, header->id);
    uint32_t more = take_u32(payload);

    if (!reader_done(payload))
        return false;
    if (command == NULL)
        return true;
    command->owner.window = more < UINT32_MAX - command->owner.window ? command->owner.window + more : UINT32_MAX;
    for (int i = 0; i < 2; i++)
        output_resume(&command->output[i]);
    return true;
}

static bool drop_descriptors(const struct header *header, struct reader *payload, int *fds)
{
    if (!reader_done(payload))
        return false;
    for (int i = 0; i < header->fds; i++) {
        drop(fds[i]);
        fds[i] = -1;
    }
    return true;
}

/* Whether a channel is told of a command: of all that run in the background or have ended unheard, and of its own. */
static bool is_listed(const struct command *command, const struct channel *channel)
{
    bool shown = command->owner.channel == channel || !(command->flags & SPAWN_QUIET);

    return shown && (!command->ended || command->unheard) && command->pid > 0; /* which one has that has started */
}

static void put_command(const struct command *command, const struct channel *channel)
{
    const char *word = command->words;

    put_u32(command->owner.channel == channel ? command->owner.id : 0);
    put_u32((uint32_t)command->pid);
    put_u16(command->ended ? (uint16_t)(command->flags | LISTED_ENDED | command->end.exit_code << 8) : command->flags);
    put_u64(command->started);
    put_u32(command->word_count);
    for (uint32_t i = 0; i < command->word_count; i++, word += strlen(word) + 1)
        put_text(word);
}

#define MOST_LISTED 128 /* in one frame: it is large enough for all that each may hold */

static bool list(struct channel *channel, const struct header *header, struct reader *payload)
{
    const struct command *command = commands;

    if (!reader_done(payload))
        return false;
    do {
        const struct command *first = command;
        uint32_t count = 0;
        for (; command != NULL && count < MOST_LISTED; command = command->next)
            count += is_listed(command, channel);
        message_begin(REP_PROCESSES, header->id);
        put_u8(command != NULL);
        put_u32(count);
        for (; first != command; first = first->next)
            if (is_listed(first, channel))
                put_command(first, channel);
        channel_send(channel);
    } while (command != NULL);
    return true;
}

static void replay(struct command *command)
{
    message_begin(REP_STARTED, command->owner.id);
    put_u32((uint32_t)command->pid);
    channel_send(command->owner.channel);
    if (command->flags & (SPAWN_STDIN | SPAWN_PTY) && !(command->flags & SPAWN_DESCRIPTORS))
        input_tell_room(&command->input);
    for (int i = 0; i < 2; i++) {
        output_replay(&command->output[i]);
        output_resume(&command->output[i]);
    }
}

static bool attach(struct channel *channel, const struct header *header, struct reader *payload)
{
    struct asker asker = {channel, header->id};
    pid_t pid = (pid_t)take_u32(payload);
    uint32_t window = take_u32(payload);
    struct command *command = commands;

    if (!reader_done(payload) || by_id(channel, header->id) != NULL)
        return false;
    while (command != NULL && (command->pid != pid || !is_listed(command, channel)))
        command = command->next;
    if (command == NULL) {
        channel_failed(asker, ESRCH, STAGE_NONE);
        return true;
    }
    if (command->owner.channel != channel) {
        if (command->flags & SPAWN_DESCRIPTORS) { /* what it prints goes where its host wanted it */
            channel_failed(asker, ENOTSUP, STAGE_NONE);
            return true;
        }
        channel_failed(owner_of(command), ESTALE, STAGE_NONE);
        command->gone_wanted = false;
    }
    command->owner = (struct owner){channel, header->id, window};
    replay(command);
    if (command->unheard)
        tell_ended(command);
    command->unheard = false;
    if (command->left)
        free_command(command);
    return true;
}

/* Hosts that come and go */

void commands_resume(struct channel *channel)
{
    for (struct command *command = commands; command != NULL; command = command->next)
        if (command->owner.channel == channel)
            for (int i = 0; i < 2; i++)
                output_resume(&command->output[i]);
}

void commands_leave(struct channel *channel)
{
    for (struct command *command = commands, *next; command != NULL; command = next) {
        next = command->next;
        if (command->owner.channel == channel)
            leave(command);
    }
}

void commands_close(void)
{
    for (struct command *command = commands, *next; command != NULL; command = next) {
        next = command->next;
        if (command->left)
            free_command(command);
    }
}

bool commands_running(void)
{
    const struct command *command = commands;

    while (command != NULL && command->ended)
        command = command->next;
    return command != NULL;
}

bool commands_request(struct channel *channel, const struct header *header, struct reader *payload, int *fds)
{
    switch (header->type) {
    case REQ_SPAWN: return spawn(channel, header, payload, fds);
    case REQ_SIGNAL: return send_signal(channel, header, payload);
    case REQ_KILL: return kill_command(channel, header, payload);
    case REQ_INPUT: return give_input(channel, header, payload);
    case REQ_RESIZE: return resize(channel, header, payload);
    case REQ_WINDOW: return widen(channel, header, payload);
    case REQ_DROP: return drop_descriptors(header, payload, fds);
    case REQ_PROCESSES: return list(channel, header, payload);
    default: return attach(channel, header, payload);
    }
}
