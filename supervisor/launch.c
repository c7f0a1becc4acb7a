/* Run between the host's process and bubblewrap. It is born into the sandbox's cgroup, because entering one later takes
 * milliseconds; shows the host's directories where the sandbox's user can reach them, with their owner as that user where they
 * belong to somebody else; lays layers over those that are not to be written; and stops being root. */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/mount.h>
#include <linux/openat2.h>
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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_MOUNTS 128
#define MOST_JOINED 8
#define MOST_KEPT 16
#define PLACE "/tmp" /* which every host has; what the sandbox's process sees there is ours alone */

struct shown {
    int fd;
    const char *path; /* where it is, if it has not been opened yet */
    uid_t uid; /* whose it is on disk */
    gid_t gid;
    int layer; /* the directory with what is changed in it, which is not written itself; or -1 */
    int tree;
    int changes;
};

struct kept {
    const char *path;
    int tree;
};

static struct shown shown[MOST_MOUNTS];
static size_t shown_count;
static struct kept kept[MOST_KEPT];
static size_t kept_count;
static int joined[MOST_JOINED], cgroup = -1;
static size_t joined_count;
static int order = -1; /* where bubblewrap reads what it is to build, or -1 */
static int lean = -1;  /* a mount namespace with only what is kept, or -1 */
static int give = -1;  /* the socket on which the host takes such a one, for the next, or -1 */
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

/* A descriptor or a path of the host's own, and whose it is on disk. */
static void parse_shown(struct shown *one, char **words, int layer)
{
    one->path = words[0] != NULL && words[0][0] == '/' ? words[0] : NULL;
    one->fd = one->path == NULL ? descriptor(words[0]) : -1;
    one->uid = (uid_t)number(words[1]);
    one->gid = (gid_t)number(words[2]);
    one->layer = layer;
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
        } else if (strcmp(*argv, "--in") == 0) {
            lean = descriptor(*++argv);
        } else if (strcmp(*argv, "--give") == 0) {
            give = descriptor(*++argv);
        } else if (strcmp(*argv, "--after") == 0) {
            order = (int)number(*++argv); /* which stays open: bubblewrap reads it */
        } else if (strcmp(*argv, "--show") == 0 && shown_count < MOST_MOUNTS) {
            parse_shown(&shown[shown_count++], argv + 1, -1);
            argv += 3;
        } else if (strcmp(*argv, "--layer") == 0 && shown_count < MOST_MOUNTS) {
            int layer = descriptor(*++argv);
            parse_shown(&shown[shown_count++], argv + 1, layer);
            argv += 3;
        } else if (strcmp(*argv, "--keep") == 0 && kept_count < MOST_KEPT && argv[1] != NULL && argv[1][0] == '/') {
            kept[kept_count++].path = *++argv;
        } else {
            errno = EINVAL;
            fail("options");
        }
    }
    for (size_t i = 0; i < shown_count; i++)
        if (!change_user && shown[i].layer < 0) {
            errno = EINVAL;
            fail("options");
        }
    if (*argv == NULL || argv[1] == NULL) {
        errno = EINVAL;
        fail("options");
    }
    return argv + 1;
}

static bool write_map(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return written;
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
    if (!write_map(path, text))
        fail("id map");
    snprintf(path, sizeof path, "/proc/%ld/gid_map", child);
    snprintf(text, sizeof text, "%u %u 1\n", gid, group);
    if (!write_map(path, text))
        fail("id map");
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
        fail(one->layer >= 0 ? "layer" : "id-mapped mount");
}

/* A mount of what a descriptor stands for that is nowhere yet. With `below`, all that is mounted in it. */
static int cloned(int fd, unsigned below, uint64_t more)
{
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | more};
    int tree = (int)syscall(SYS_open_tree, fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | below);

    if (tree < 0 || syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | below, &attributes, sizeof attributes) < 0)
        fail("mount");
    return tree;
}

/* The host prepares on while we start, and then says what is to be built. If it never does, it is gone. */
static void wait_for_order(void)
{
    char first;

    if (order >= 0 && recv(order, &first, 1, MSG_PEEK) != 1)
        fail("order");
}

/* This has to be done while we are still in the host's mount namespace. Below a layer nothing is written by anybody. */
static void detach(struct shown *one)
{
    bool layered = one->layer >= 0;

    if (one->path != NULL && (one->fd = open(one->path, O_PATH | O_NOFOLLOW | O_CLOEXEC)) < 0)
        fail("mount");
    one->tree = layered ? cloned(one->fd, 0, MOUNT_ATTR_RDONLY) : cloned(one->fd, AT_RECURSIVE, 0);
    one->changes = layered ? cloned(one->layer, 0, 0) : -1;
    map_owner(one);
}

static void move_to(int tree, const char *path)
{
    if (syscall(SYS_move_mount, tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        fail("mount");
    close(tree);
}

/* An overlay of the directories that two descriptors stand for, which are in this mount namespace: a path may hold what
 * separates options. It never follows a mark that somebody else made, and what cannot be written is no layer. Without
 * `volatile` its end would be the time to write all that is on the disk's way to it, anybody's. */
static void overlay(int lower, int changes, const char *path)
{
    char options[256];
    struct statvfs info;

    snprintf(options, sizeof options,
             "lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d/upper,workdir=/proc/self/fd/%d/work,userxattr,volatile", lower,
             changes, changes);
    if (mount("overlay", path, "overlay", MS_NOSUID | MS_NODEV, options) < 0 || statvfs(path, &info) < 0)
        fail("layer");
    if (info.f_flag & ST_RDONLY) {
        errno = EROFS;
        fail("layer");
    }
}

static int directory(const char *path)
{
    int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        fail("layer");
    return fd;
}

/* What a layer is made of has to be somewhere in this mount namespace, until it is made. */
static int beside(int tree, const char *path)
{
    if (mkdir(path, 0700) < 0)
        fail("layer");
    move_to(tree, path);
    return directory(path);
}

static void leave(int fd, const char *path)
{
    close(fd);
    if (umount2(path, MNT_DETACH) < 0 || rmdir(path) < 0)
        fail("layer");
}

static void attach_layer(const struct shown *one, const char *path)
{
    char under[PATH_MAX], over[PATH_MAX];

    snprintf(under, sizeof under, "%s-lower", path);
    snprintf(over, sizeof over, "%s-changes", path);
    int lower = beside(one->tree, under), changes = beside(one->changes, over);
    overlay(lower, changes, path);
    leave(lower, under);
    leave(changes, over);
}

/* Make a place of its kind, and mount it there. */
static void attach(const struct shown *one, const char *path)
{
    struct stat info;

    if (fstat(one->fd, &info) < 0)
        fail("mount");
    if (S_ISDIR(info.st_mode) ? mkdir(path, 0755) < 0 : mknod(path, S_IFREG | 0644, 0) < 0)
        fail("mount");
    if (one->layer >= 0)
        attach_layer(one, path);
    else
        move_to(one->tree, path);
}

/* What is mounted at a path, detached, and nothing of it is ever seen by the host; or -1. With `below`, all that is mounted in
 * it. */
static int copy(const char *path, unsigned below)
{
    struct mount_attr attributes = {.propagation = MS_SLAVE};
    int tree = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | below);

    if (tree >= 0 && syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | below, &attributes, sizeof attributes) < 0)
        fail("mount");
    return tree;
}

static bool copy_kept(void)
{
    for (size_t i = 0; i < kept_count; i++)
        if ((kept[i].tree = copy(kept[i].path, AT_RECURSIVE)) < 0)
            return false;
    return kept_count > 0;
}

/* A root with only what is kept. bubblewrap reads the list of all mounts for each that it makes, and copies them twice: on a host
 * with a few dozen that is a good part of its time. Where the root cannot be changed, in a chroot, or not be had without what is
 * mounted in it, in a user namespace, everything stays. */
static bool leave_the_rest(int root)
{
    if (syscall(SYS_move_mount, root, "", AT_FDCWD, PLACE, MOVE_MOUNT_F_EMPTY_PATH) < 0 || chdir(PLACE) < 0)
        fail("mount");
    for (size_t i = 0; i < kept_count; i++)
        if (syscall(SYS_move_mount, kept[i].tree, "", AT_FDCWD, kept[i].path + 1, MOVE_MOUNT_F_EMPTY_PATH) < 0)
            fail("mount");
    bool left = syscall(SYS_pivot_root, ".", ".") == 0;
    if ((left && umount2(".", MNT_DETACH) < 0) || chdir("/") < 0)
        fail("mount");
    return left;
}

static void send_descriptor(int socket, int fd)
{
    char room[CMSG_SPACE(sizeof fd)] = {0}, byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT); /* or the next one has to do the same again */
}

/* What was left behind stays so for others: the kernel looks at every process of the host for each change of a root. */
static void hand_over(void)
{
    int fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    send_descriptor(give, fd);
    close(fd);
    if (unshare(CLONE_NEWNS) < 0)
        fail("mount namespace");
}

static bool enter_lean(void)
{
    return lean >= 0 && setns(lean, CLONE_NEWNS) == 0 && unshare(CLONE_NEWNS) == 0;
}

static void make_lean(void)
{
    int root = copy_kept() ? copy("/", 0) : -1;

    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        fail("mount namespace");
    if (root >= 0 && leave_the_rest(root) && give >= 0)
        hand_over();
}

static void enter_namespace(void)
{
    if (!enter_lean())
        make_lean();
    if (mount("tmpfs", PLACE, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=1m,nr_inodes=256,mode=755") < 0)
        fail("mount namespace");
}

/* The same directory in the mount namespace that we are in now, by its path, in which nobody has put a link meanwhile. */
static int again(int fd)
{
    char link[64], path[PATH_MAX];
    struct stat before, after;
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        fail("layer");
    path[length] = '\0';
    int found = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    if (found < 0 || fstat(fd, &before) < 0 || fstat(found, &after) < 0)
        fail("replaced");
    if (before.st_dev != after.st_dev || before.st_ino != after.st_ino) {
        errno = ESTALE;
        fail("replaced");
    }
    return found;
}

/* Somebody who is not root may mount an overlay in a user namespace of their own, as themselves; bubblewrap makes another one
 * in that, and has no rights here: they end when it is run. */
static void lay_layers(void)
{
    char uids[64], gids[64];

    snprintf(uids, sizeof uids, "%u %u 1\n", geteuid(), geteuid());
    snprintf(gids, sizeof gids, "%u %u 1\n", getegid(), getegid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 || !write_map("/proc/self/setgroups", "deny") ||
        !write_map("/proc/self/uid_map", uids) || !write_map("/proc/self/gid_map", gids))
        fail("layer");
    for (size_t i = 0; i < shown_count; i++) {
        char path[64];
        int lower = again(shown[i].fd), changes = again(shown[i].layer);
        snprintf(path, sizeof path, "/proc/self/fd/%d/merged", changes);
        overlay(lower, changes, path);
        close(lower);
        close(changes);
    }
}

static void show_directories(void)
{
    if (shown_count == 0)
        return;
    if (!change_user) {
        lay_layers();
        return;
    }
    for (size_t i = 0; i < shown_count; i++)
        detach(&shown[i]);
    enter_namespace();
    for (size_t i = 0; i < shown_count; i++) {
        char path[32];
        snprintf(path, sizeof path, PLACE "/%zu", i);
        attach(&shown[i], path);
    }
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

/* For an engine that mounts by path and knows nothing of owners: show things at paths of the host itself. */
int show_main(int argc, char **argv)
{
    if (argc < 3 || (argc - 3) % 5 != 0) {
        errno = EINVAL;
        fail("options");
    }
    user = (uid_t)number(argv[1]);
    group = (gid_t)number(argv[2]);
    for (char **each = argv + 3; *each != NULL; each += 5) {
        struct shown one;
        parse_shown(&one, each, strcmp(each[3], "-") == 0 ? -1 : descriptor(each[3]));
        detach(&one);
        attach(&one, each[4]);
    }
    return 0;
}

int launch_main(int argc, char **argv)
{
    (void)argc;
    char **program = parse(argv);
    if (cgroup >= 0 && !be_born())
        return 0;
    join_cgroups();
    wait_for_order();
    show_directories();
    become_user();
    execv(program[0], program);
    fail("bubblewrap");
}
