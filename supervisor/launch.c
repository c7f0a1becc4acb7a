/* Run between the host's process and bubblewrap. It is born into the sandbox's cgroup, because entering one later takes
 * milliseconds; shows the host's directories where the sandbox's user can reach them, with their owner as that user where they
 * belong to somebody else; and stops being root. */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_MOUNTS 128
#define MOST_JOINED 8
#define PLACE "/tmp" /* which every host has; what the sandbox's process sees there is ours alone */

struct shown {
    int fd;
    uid_t uid; /* whose it is on disk */
    gid_t gid;
    int tree;
};

static struct shown shown[MOST_MOUNTS];
static size_t shown_count;
static int joined[MOST_JOINED], cgroup = -1;
static size_t joined_count;
static bool change_user;
static uid_t user;
static gid_t group;

/* The host reads this: what could not be done, and the errno. */
static _Noreturn void fail(const char *what)
{
    dprintf(2, "paddock-launch: %s: %d\n", what, errno);
    exit(1);
}

static long number(const char *text)
{
    char *end = NULL;
    long value = text == NULL ? -1 : strtol(text, &end, 10);

    if (end == NULL || *text == '\0' || *end != '\0' || value < 0 || value > UINT32_MAX) {
        errno = EINVAL;
        fail("options");
    }
    return value;
}

static int descriptor(const char *text)
{
    int fd = (int)number(text);

    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        fail("descriptors");
    return fd;
}

static char **parse(char **argv)
{
    for (argv++; *argv != NULL && strcmp(*argv, "--") != 0; argv++) {
        if (strcmp(*argv, "--cgroup") == 0) {
            cgroup = descriptor(*++argv);
        } else if (strcmp(*argv, "--join") == 0 && joined_count < MOST_JOINED) {
            joined[joined_count++] = descriptor(*++argv);
        } else if (strcmp(*argv, "--user") == 0) {
            change_user = true;
            user = (uid_t)number(*++argv);
            group = (gid_t)number(*++argv);
        } else if (strcmp(*argv, "--show") == 0 && shown_count < MOST_MOUNTS) {
            struct shown *one = &shown[shown_count++];
            one->fd = descriptor(*++argv);
            one->uid = (uid_t)number(*++argv);
            one->gid = (gid_t)number(*++argv);
        } else {
            errno = EINVAL;
            fail("options");
        }
    }
    if (*argv == NULL || argv[1] == NULL) {
        errno = EINVAL;
        fail("options");
    }
    return argv + 1;
}

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        fail("id map");
    close(fd);
}

/* A user namespace that only says: what is theirs on disk is ours through the mount. A child holds it for a moment. */
static int mapping(uid_t uid, gid_t gid)
{
    char path[64], text[64];
    long child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);

    if (child < 0)
        fail("user namespace");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* if something fails here before it is ended below */
        for (;;)
            pause();
    }
    snprintf(path, sizeof path, "/proc/%ld/uid_map", child);
    snprintf(text, sizeof text, "%u %u 1\n", uid, user);
    write_text(path, text);
    snprintf(path, sizeof path, "/proc/%ld/gid_map", child);
    snprintf(text, sizeof text, "%u %u 1\n", gid, group);
    write_text(path, text);
    snprintf(path, sizeof path, "/proc/%ld/ns/user", child);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fail("user namespace");
    kill((pid_t)child, SIGKILL);
    waitpid((pid_t)child, NULL, 0);
    return fd;
}

static void map_owner(struct shown *one)
{
    static int last = -1;
    static uid_t last_uid;
    static gid_t last_gid;

    if (one->uid == user && one->gid == group)
        return;
    if (last < 0 || one->uid != last_uid || one->gid != last_gid) {
        if (last >= 0)
            close(last);
        last = mapping(one->uid, one->gid);
        last_uid = one->uid;
        last_gid = one->gid;
    }
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)last};
    if (syscall(SYS_mount_setattr, one->tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes, sizeof attributes) < 0)
        fail("id-mapped mount");
}

/* A mount of it that is nowhere yet. This has to be done while we are still in the host's mount namespace. */
static void detach(struct shown *one)
{
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};

    one->tree = (int)syscall(SYS_open_tree, one->fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
    if (one->tree < 0 ||
        syscall(SYS_mount_setattr, one->tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes, sizeof attributes) < 0)
        fail("mount");
    map_owner(one);
}

static void attach(const struct shown *one, size_t index)
{
    char path[32];
    struct stat info;

    snprintf(path, sizeof path, PLACE "/%zu", index);
    if (fstat(one->fd, &info) < 0)
        fail("mount");
    if (S_ISDIR(info.st_mode) ? mkdir(path, 0755) < 0 : mknod(path, S_IFREG | 0644, 0) < 0)
        fail("mount");
    if (syscall(SYS_move_mount, one->tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        fail("mount");
    close(one->tree);
}

static void show_directories(void)
{
    if (shown_count == 0)
        return;
    for (size_t i = 0; i < shown_count; i++)
        detach(&shown[i]);
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 ||
        mount("tmpfs", PLACE, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=1m,nr_inodes=256,mode=755") < 0)
        fail("mount namespace");
    for (size_t i = 0; i < shown_count; i++)
        attach(&shown[i], i);
}

static void become_user(void)
{
    if (!change_user)
        return;
    if (setgroups(0, NULL) < 0 || setresgid(group, group, group) < 0 || setresuid(user, user, user) < 0)
        fail("user");
}

/* In version 1 there is no being born into a cgroup. */
static void join_cgroups(void)
{
    for (size_t i = 0; i < joined_count; i++)
        if (write(joined[i], "0", 1) != 1)
            fail("cgroup");
}

/* A child of the host's own process, in the cgroup. True in the child; this process has only to say its pid. */
static bool be_born(void)
{
    struct clone_args args = {
        .flags = CLONE_INTO_CGROUP | CLONE_PARENT, .exit_signal = 0, .cgroup = (uint64_t)cgroup};
    long pid = syscall(SYS_clone3, &args, sizeof args);

    if (pid < 0)
        fail("cgroup");
    if (pid > 0)
        dprintf(2, "paddock-launch: pid: %ld\n", pid);
    return pid == 0;
}

int launch_main(int argc, char **argv)
{
    (void)argc;
    char **program = parse(argv);
    if (cgroup >= 0 && !be_born())
        return 0;
    join_cgroups();
    show_directories();
    become_user();
    execv(program[0], program);
    fail("bubblewrap");
}
