/* Commands for the fuzzer: nothing runs. One that is "started" prints its first word as often as the word says, holds its ends of
 * the pipes, and ends when it is signalled or killed. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../trees.h"

#define MOST 64
#define NONE_YET 4710 /* so that the vectors attach to the first that is started */

static struct fake {
    struct tree *tree;
    int stdio[3];
} fakes[MOST];
static pid_t last_pid = NONE_YET;

static struct fake *find(const struct tree *tree)
{
    for (int i = 0; i < MOST; i++)
        if (fakes[i].tree == tree)
            return &fakes[i];
    return NULL;
}

static void close_ends(struct fake *fake)
{
    for (int i = 0; i < 3; i++)
        if (fake->stdio[i] >= 0)
            close(fake->stdio[i]);
}

static void print(int fd, const char *word)
{
    static const char filler[60000];
    size_t size = 0;

    for (const char *at = word; *at != '\0' && size < sizeof filler; at++)
        size = 3 * size + (unsigned char)*at;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    if (write(fd, filler, size % sizeof filler) < 0)
        return;
}

static void fail(struct tree *tree, int error, enum stage stage)
{
    tree_failed(tree, &(struct failure){error, stage});
    tree_gone(tree);
}

void tree_start(struct tree *tree, const struct launch *launch)
{
    struct fake *fake = find(NULL);

    *tree = (struct tree){.source = {.fd = -1}, .cgroup = -1};
    for (char **word = launch->environment; *word != NULL; word++)
        if (strlen(*word) > 4096)
            break;
    if (fake == NULL || launch->argv[0][0] == '\0') {
        fail(tree, fake == NULL ? EAGAIN : ENOENT, fake == NULL ? STAGE_RESOURCES : STAGE_PROGRAM);
        return;
    }
    fake->tree = tree;
    for (int i = 0; i < 3; i++)
        fake->stdio[i] = fcntl(launch->stdio[i], F_DUPFD_CLOEXEC, 3);
    if (launch->terminal || launch->argv[0][0] != 'q') {
        print(fake->stdio[1], launch->argv[0]);
        if (launch->argv[1] != NULL)
            print(fake->stdio[2], launch->argv[1]);
    }
    tree->pid = ++last_pid;
    tree_started(tree, tree->pid);
}

static void end(struct fake *fake, int status)
{
    static const struct rusage usage;
    struct tree *tree = fake->tree;

    close_ends(fake);
    fake->stdio[0] = fake->stdio[1] = fake->stdio[2] = -1;
    tree->pid = 0;
    tree_ended(tree, status, &usage);
}

void tree_signal(struct tree *tree, int number)
{
    struct fake *fake = find(tree);

    if (tree->pid > 0 && number != 1) /* its children live on; with 1, so does it */
        end(fake, number);
}

void tree_kill(struct tree *tree)
{
    if (tree->pid == 0 && tree->hunt.passes++ == 0) {
        tree_out_of_reach(tree);
        return;
    }
    tree->killing = true;
}

static void gone(struct fake *fake)
{
    struct tree *tree = fake->tree;

    if (tree->pid > 0)
        end(fake, 9);
    fake->tree = NULL;
    tree_gone(tree);
}

int trees_tick(void)
{
    for (int i = 0; i < MOST; i++)
        if (fakes[i].tree != NULL && fakes[i].tree->killing)
            gone(&fakes[i]);
    return 0;
}

void trees_close(void)
{
    for (int i = 0; i < MOST; i++)
        if (fakes[i].tree != NULL)
            gone(&fakes[i]);
    last_pid = NONE_YET;
}

bool trees_open(int parent, const char *name)
{
    (void)parent, (void)name;
    return false;
}

void trees_reap(void)
{
}

bool trees_open_in(int cgroup)
{
    (void)cgroup;
    return false;
}

bool trees_unprepared(void)
{
    return false;
}

void trees_prepare(void)
{
}

void spawn_open(const struct bounds *bounds)
{
    (void)bounds;
}
