"""What the processes of a sandbox may ask of the kernel, and why. `filters.py` makes programs of it, `docs` a page."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """What the kernel does with a call: a word for people, and the value of a filter."""

    word: str
    value: int


# Arguments are compared by their low 32 bits: all that the kernel takes of the ones here, whatever a program puts above.


@dataclass(frozen=True)
class AnyBit:
    """An argument has one of these bits."""

    argument: int
    bits: int

    def holds(self, value: int) -> bool:
        """Whether it is so, with this value of the argument."""
        return value & self.bits != 0


@dataclass(frozen=True)
class OneOf:
    """An argument, or what `mask` leaves of it, is one of these values."""

    argument: int
    values: tuple[int, ...]
    mask: int = 0xFFFFFFFF

    def holds(self, value: int) -> bool:
        """Whether it is so, with this value of the argument."""
        return value & self.mask in self.values


@dataclass(frozen=True)
class NoneOf:
    """An argument, or what `mask` leaves of it, is anything but these values."""

    argument: int
    values: tuple[int, ...]
    mask: int = 0xFFFFFFFF

    def holds(self, value: int) -> bool:
        """Whether it is so, with this value of the argument."""
        return value & self.mask not in self.values


Condition = AnyBit | OneOf | NoneOf


@dataclass(frozen=True)
class Refusal:
    """An answer to calls for which all of the conditions hold; they are about different arguments."""

    answer: Answer
    conditions: tuple[Condition, ...]

    def holds(self, arguments: Sequence[int]) -> bool:
        """Whether a call with these arguments is meant."""
        return all(condition.holds(arguments[condition.argument]) for condition in self.conditions)


# A list: allowed, but for these. If two of them mean the same call, their answers are the same too.
Decision = Answer | list[Refusal]


@dataclass(frozen=True)
class Group:
    """Calls that are decided for one reason: names, with a space between them, and the decision about them."""

    title: str
    rules: dict[str, Decision]
    reason: str

    def decisions(self) -> dict[str, Decision]:
        """By the name of each call."""
        return {name: decision for names, decision in self.rules.items() for name in names.split()}


@dataclass(frozen=True)
class Policy:
    """All of a table. `otherwise` is for the calls in no group, those that are yet to be invented among them."""

    groups: tuple[Group, ...]
    otherwise: Answer

    def decisions(self) -> dict[str, Decision]:
        """By the name of each call; none may be there twice."""
        found: dict[str, Decision] = {}
        for group in self.groups:
            for name, decision in group.decisions().items():
                if name in found:
                    raise ValueError(f"{name} is in two groups")
                found[name] = decision
        return found


def _fails(word: str, number: int) -> Answer:
    return Answer(word, 0x00050000 | number)


ALLOW = Answer("allowed", 0x7FFF0000)
KILL = Answer("SIGSYS", 0x80000000)
EPERM = _fails("EPERM", 1)
EINVAL = _fails("EINVAL", 22)
ENOSYS = _fails("ENOSYS", 38)
ENOPROTOOPT = _fails("ENOPROTOOPT", 92)
EPROTONOSUPPORT = _fails("EPROTONOSUPPORT", 93)
ESOCKTNOSUPPORT = _fails("ESOCKTNOSUPPORT", 94)
EOPNOTSUPP = _fails("EOPNOTSUPP", 95)
EAFNOSUPPORT = _fails("EAFNOSUPPORT", 97)


def judge(decision: Decision, arguments: Sequence[int]) -> Answer:
    """What is decided about a call with these arguments."""
    if isinstance(decision, Answer):
        return decision
    found = {refusal.answer for refusal in decision if refusal.holds(arguments)} or {ALLOW}
    if len(found) > 1:
        raise ValueError(f"two answers to one call: {found}")
    return found.pop()


# What an argument may be


def _refuse(answer: Answer, *conditions: Condition) -> Refusal:
    return Refusal(answer, conditions)


# CLONE_NEWTIME is not one of them: its bit is part of the signal here, and only clone3 and unshare know it.
NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
MOST_PIDS = 1 << 22
"""A kernel has no more."""

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
STREAM, DATAGRAM, RAW, TYPE = 1, 2, 3, 0xF
DEFAULT, ICMP, TCP, UDP, ICMPV6 = 0, 1, 6, 17, 58
NETLINK_ROUTE = 0

_INTERNET_PROTOCOLS = (DEFAULT, ICMP, TCP, UDP, ICMPV6)
_INTERNET = OneOf(0, (AF_INET, AF_INET6))
_SOCKET = [
    _refuse(EAFNOSUPPORT, NoneOf(0, (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK))),
    _refuse(EPERM, _INTERNET, OneOf(1, (RAW,), TYPE)),
    _refuse(ESOCKTNOSUPPORT, _INTERNET, NoneOf(1, (STREAM, DATAGRAM, RAW), TYPE)),
    _refuse(EPROTONOSUPPORT, _INTERNET, OneOf(1, (STREAM, DATAGRAM), TYPE), NoneOf(2, _INTERNET_PROTOCOLS)),
    _refuse(EPROTONOSUPPORT, OneOf(0, (AF_NETLINK,)), NoneOf(2, (NETLINK_ROUTE,))),
]

IPPROTO_TCP, TCP_ULP = 6, 31

TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD = 0x5412, 0x541C, 0x541D, 0x5423
SETFLAGS, SETXATTR, SET_ENCRYPTION, ENABLE_VERITY = 0x40086602, 0x401C5820, 0x800C6613, 0x40806685
_REQUEST = [
    _refuse(EPERM, OneOf(1, (TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD))),
    _refuse(EOPNOTSUPP, OneOf(1, (SETFLAGS, SETXATTR, SET_ENCRYPTION, ENABLE_VERITY))),
]

PR_SET_MM, PR_SCHED_CORE = 35, 62
_PROCESS = [_refuse(EPERM, OneOf(0, (PR_SET_MM,))), _refuse(EINVAL, OneOf(0, (PR_SCHED_CORE,)))]

PER_LINUX, ADDR_NO_RANDOMIZE, ASK_PERSONALITY = 0, 0x00040000, 0xFFFFFFFF

SET_ID = 0o6000
"""S_ISUID and S_ISGID."""
CREATES = 0o100 | 0o20000000
"""O_CREAT and the bit of O_TMPFILE: without them `open` does not look at the mode, and it may be anything."""
FILE_TYPE, PLAIN_TYPES = 0o170000, (0, 0o100000, 0o010000, 0o140000)
"""S_IFMT; nothing said, S_IFREG, S_IFIFO, S_IFSOCK."""
RENAME_WHITEOUT = 4


def _mode(argument: int) -> Refusal:
    return _refuse(EPERM, AnyBit(argument, SET_ID))


def _creating_mode(argument: int) -> Refusal:
    return _refuse(EPERM, AnyBit(argument - 1, CREATES), AnyBit(argument, SET_ID))


def _node_type(argument: int) -> Refusal:
    return _refuse(EPERM, NoneOf(argument, PLAIN_TYPES, FILE_TYPE))


# For every process of the sandbox, the supervisor too

BASE = Policy(
    otherwise=ENOSYS,
    groups=(
        Group(
            "Files",
            {
                "read write close lseek pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 open openat "
                "openat2 creat access faccessat faccessat2 stat fstat lstat newfstatat statx statfs fstatfs getdents "
                "getdents64 getcwd chdir fchdir rename renameat renameat2 mkdir mkdirat rmdir link linkat unlink "
                "unlinkat symlink symlinkat readlink readlinkat mknod mknodat chmod fchmod fchmodat chown fchown "
                "lchown fchownat umask utime utimes futimesat utimensat truncate ftruncate fallocate fsync fdatasync "
                "syncfs sync_file_range fadvise64 readahead cachestat flock fcntl dup dup2 dup3 close_range sendfile "
                "splice tee vmsplice copy_file_range setxattr lsetxattr fsetxattr setxattrat getxattr lgetxattr "
                "fgetxattr getxattrat listxattr llistxattr flistxattr listxattrat removexattr lremovexattr "
                "fremovexattr removexattrat": ALLOW
            },
            "What can be reached is a matter of mounts and permissions. An attribute that gives capabilities needs a "
            "capability to be set, and one with an access list cannot hold a set-uid bit.",
        ),
        Group(
            "Memory",
            {
                "mmap munmap mremap mprotect pkey_mprotect pkey_alloc pkey_free brk msync mincore madvise mlock "
                "mlock2 munlock mlockall munlockall remap_file_pages memfd_create membarrier mseal map_shadow_stack": ALLOW
            },
            "A process's own.",
        ),
        Group(
            "Processes and threads",
            {
                "fork vfork execve execveat exit exit_group wait4 waitid getpid getppid gettid getpgid getpgrp "
                "setpgid getsid setsid set_tid_address set_robust_list get_robust_list rseq futex futex_waitv "
                "futex_wake futex_wait futex_requeue arch_prctl pidfd_open getpriority setpriority ioprio_set "
                "ioprio_get getrlimit setrlimit getrusage times getcpu sched_yield sched_setparam "
                "sched_getparam sched_setscheduler sched_getscheduler sched_get_priority_max sched_get_priority_min "
                "sched_rr_get_interval sched_setaffinity sched_getaffinity sched_setattr sched_getattr "
                "restart_syscall": ALLOW
            },
            "Only the sandbox's own processes can be seen.",
        ),
        Group(
            "Limits of others",
            {"prlimit64": [_refuse(EPERM, AnyBit(0, MOST_PIDS - 1))]},
            "A process's own only, as `setrlimit` and every `ulimit` have it. The supervisor is the same user: a bound on "
            "its processor time or descriptors would end the sandbox.",
        ),
        Group(
            "Signals",
            {
                "kill tkill tgkill pidfd_send_signal rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending "
                "rt_sigtimedwait rt_sigqueueinfo rt_tgsigqueueinfo rt_sigsuspend sigaltstack pause alarm": ALLOW
            },
            "They go to the sandbox's own processes.",
        ),
        Group(
            "Users and rights",
            {
                "getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid setregid "
                "setresuid setresgid setfsuid setfsgid setgroups capget capset seccomp landlock_create_ruleset "
                "landlock_add_rule landlock_restrict_self": ALLOW
            },
            "There is no other user to become, and no capability to gain. Programs that lock themselves in may.",
        ),
        Group(
            "Waiting",
            {
                "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 "
                "eventfd eventfd2 signalfd signalfd4 pipe pipe2 inotify_init inotify_init1 inotify_add_watch "
                "inotify_rm_watch io_setup io_destroy io_getevents io_pgetevents io_submit io_cancel": ALLOW
            },
            "On a process's own descriptors. The old asynchronous input and output is what databases use; it does "
            "much less than io_uring.",
        ),
        Group(
            "Time",
            {
                "nanosleep clock_nanosleep gettimeofday time clock_gettime clock_getres getitimer setitimer "
                "timer_create timer_settime timer_gettime timer_getoverrun timer_delete timerfd_create "
                "timerfd_settime timerfd_gettime": ALLOW
            },
            "Reading clocks, and waiting for them.",
        ),
        Group(
            "Connections",
            {
                "connect accept accept4 bind listen sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg shutdown "
                "getsockname getpeername getsockopt": ALLOW
            },
            "On sockets that could be made, in a network of the sandbox's own. The supervisor listens and connects there as "
            "well, for relays; which families there are, the rule about `socket` says for both.",
        ),
        Group(
            "Messages and shared memory",
            {
                "shmget shmat shmctl shmdt semget semop semtimedop semctl msgget msgsnd msgrcv msgctl mq_open "
                "mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr": ALLOW
            },
            "The sandbox has an IPC namespace of its own. What has a mode there cannot be executed.",
        ),
        Group("The system", {"uname sysinfo getrandom": ALLOW}, "It tells little, and every program asks."),
        Group(
            "Probes of the host",
            {"uretprobe uprobe": ALLOW},
            "Made by the kernel when somebody on the host traces the program, which would crash without them.",
        ),
        Group(
            "New processes",
            {"clone": [_refuse(EPERM, AnyBit(0, NAMESPACES))]},
            "Threads and processes, but no new namespaces: a user namespace is a way to most of the kernel.",
        ),
        Group(
            "New processes, with flags in memory",
            {"clone3": ALLOW},
            "A filter cannot see the flags. The supervisor starts each command in its cgroup by this call; commands "
            "themselves are refused it by a filter of their own.",
        ),
        Group(
            "Sockets",
            {"socket": _SOCKET},
            "Unix and internet sockets (TCP, UDP, ping), and netlink for the list of interfaces. AF_VSOCK reaches the "
            "host past a network namespace. Other families and protocols (packet, ALG, Bluetooth, CAN, XDP, SCTP, "
            "DCCP, MPTCP) are seldom used and often broken.",
        ),
        Group(
            "Pairs of sockets",
            {"socketpair": [_refuse(EAFNOSUPPORT, NoneOf(0, (AF_UNIX,)))]},
            "The only family that has them.",
        ),
        Group(
            "Options of sockets",
            {"setsockopt": [_refuse(ENOPROTOOPT, OneOf(1, (IPPROTO_TCP,)), OneOf(2, (TCP_ULP,)))]},
            "All but TCP_ULP, which puts other code of the kernel (TLS) onto a connection. Programs do without.",
        ),
        Group(
            "Devices and terminals",
            {"ioctl": _REQUEST},
            "All but a few. TIOCSTI and TIOCLINUX type into a terminal, TIOCCONS takes the console's output, TIOCSETD "
            "loads drivers: EPERM. Switches of a file system (flags and project of a file, among them names without "
            "case, so that `.GIT` would be `.git`; encryption; verity): EOPNOTSUPP, as where it has none.",
        ),
        Group(
            "A process about itself",
            {"prctl": _PROCESS},
            "All but PR_SET_MM, which changes what /proc tells of a process, and PR_SCHED_CORE, which keeps others "
            "off a core of the host.",
        ),
        Group(
            "Personality",
            {"personality": [_refuse(EPERM, NoneOf(0, (PER_LINUX, ADDR_NO_RANDOMIZE, ASK_PERSONALITY)))]},
            "To ask, the usual one, and the one without random addresses, which sanitizers start themselves again "
            "with. Others make memory executable or act like other systems.",
        ),
        Group(
            "Mounts",
            {
                "mount umount2 pivot_root chroot fsopen fsmount fsconfig fspick open_tree open_tree_attr move_mount "
                "mount_setattr": EPERM
            },
            "The file tree is made before the sandbox starts, and is final.",
        ),
        Group(
            "Namespaces",
            {"unshare setns": EPERM},
            "Inside a user namespace of its own a process would be root to most of the kernel.",
        ),
        Group(
            "Other processes' memory",
            {"ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd": EPERM},
            "One command must not take over another, or the supervisor. So there are no debuggers inside, and no leak "
            "checks by a sanitizer (ASAN_OPTIONS=detect_leaks=0).",
        ),
        Group(
            "Other processes' memory, as advice",
            {"process_madvise process_mrelease": ENOSYS},
            "As on kernels that are older; nothing needs them.",
        ),
        Group(
            "io_uring",
            {"io_uring_setup io_uring_enter io_uring_register": ENOSYS},
            "Its operations pass no filter, and it is where many holes were. Programs take it for an older kernel and "
            "use ordinary calls.",
        ),
        Group(
            "Code in the kernel",
            {"bpf perf_event_open userfaultfd": EPERM},
            "As on hosts that keep them from ordinary users. userfaultfd stops the kernel in the middle of a copy, "
            "which makes races into certainties.",
        ),
        Group(
            "Keys", {"add_key request_key keyctl": EPERM}, "Keyrings belong to users of the host, not to namespaces."
        ),
        Group(
            "Files by handle",
            {"open_by_handle_at name_to_handle_at": EPERM},
            "A handle names a file anywhere on the disk, past all mounts.",
        ),
        Group(
            "Events of a whole file system",
            {"fanotify_init fanotify_mark": EPERM},
            "They tell of files outside. inotify watches those inside.",
        ),
        Group(
            "File modes and attributes in memory",
            {"fchmodat2 file_setattr file_getattr": ENOSYS},
            "New ways to set what is checked, or refused, in older calls. The C library falls back to those.",
        ),
        Group(
            "All disks",
            {"sync": EPERM},
            "It waits for every disk of the host, and it has no way to fail that a program would see. A file has "
            "fsync.",
        ),
        Group(
            "The host's kernel",
            {
                "kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff acct "
                "quotactl quotactl_fd syslog sethostname setdomainname iopl ioperm vhangup": EPERM
            },
            "For the host's administrator.",
        ),
        Group(
            "The host's clock",
            {"settimeofday clock_settime adjtimex clock_adjtime": EPERM},
            "There is one for all.",
        ),
        Group(
            "Memory of many processors",
            {"mbind set_mempolicy get_mempolicy set_mempolicy_home_node migrate_pages move_pages": ENOSYS},
            "libnuma takes this answer for a machine where all memory is alike, and says no more.",
        ),
        Group(
            "Secret memory",
            {"memfd_secret": ENOSYS},
            "Memory that the host cannot swap out or hibernate with.",
        ),
        Group(
            "Segments",
            {"modify_ldt set_thread_area get_thread_area": ENOSYS},
            "For 16-bit and 32-bit programs, which cannot run here.",
        ),
        Group(
            "Tables of mounts and security modules",
            {"statmount listmount lsm_get_self_attr lsm_set_self_attr lsm_list_modules": ENOSYS},
            "New, and told by /proc as well.",
        ),
        Group(
            "History",
            {
                "uselib ustat sysfs _sysctl create_module get_kernel_syms query_module nfsservctl getpmsg putpmsg "
                "afs_syscall tuxcall security vserver epoll_ctl_old epoll_wait_old lookup_dcookie": ENOSYS
            },
            "Gone from Linux, or never there, or asked by nobody.",
        ),
    ),
)

# On top of it for every command; with cgroups loaded each time, so there is little of it

COMMANDS = Policy(
    otherwise=ALLOW,
    groups=(
        Group(
            "Flags and modes in memory",
            {"clone3 openat2": ENOSYS},
            "A filter cannot see them. Programs take it for an older kernel and use clone and openat.",
        ),
        Group(
            "Modes",
            {
                "chmod fchmod creat": [_mode(1)],
                "fchmodat": [_mode(2)],
                "open": [_creating_mode(2)],
                "openat": [_creating_mode(3)],
            },
            "No set-uid or set-gid bits: in a directory that is shared with the host such a file would be one of the "
            "host's user too. A filter cannot tell a directory from a file, so `chmod g+s` on a directory is refused "
            "as well. (`mkdir` drops these bits by itself.)",
        ),
        Group(
            "Nodes",
            {"mknod": [_mode(1), _node_type(1)], "mknodat": [_mode(2), _node_type(2)]},
            "The same, and pipes, sockets and plain files only: the one device that anybody may make hides files of "
            "an overlay.",
        ),
        Group(
            "Whiteouts",
            {"renameat2": [_refuse(EINVAL, AnyBit(4, RENAME_WHITEOUT))]},
            "The other way to make that device.",
        ),
    ),
)
