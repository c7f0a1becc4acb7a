"""What the kernel can be asked for: its dangerous calls, namespaces, other machines' entries, its settings and devices."""

import os
from typing import NamedTuple

import pytest
from filters import numbers

from paddock import Sandbox
from security import inside
from security.suite import NOT_THERE, REFUSED, Suite, ask, failed, not_refused

MACHINE = os.uname().machine
NUMBERS = numbers(MACHINE) if MACHINE in ("x86_64", "aarch64") else {}

NAMESPACES = {
    "mount": 0x00020000,
    "cgroup": 0x02000000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "net": 0x40000000,
}


class Call(NamedTuple):
    """A system call with arguments that would do, why it is not for sandboxes, and the answer if it is a special one."""

    name: str
    arguments: tuple[object, ...]
    reason: str
    answers: frozenset[str] = frozenset(REFUSED)


_NO_FAMILY = frozenset({"EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", *REFUSED})

REFUSED_CALLS = (
    Call("mount", (["none"], ["/tmp"], ["tmpfs"], 0, 0), "the file tree is final"),
    Call("mount", (0, ["/usr"], 0, 32 | 4096, 0), "a read-only mount stays one"),
    Call("umount2", (["/proc/sys"], 2), "what is covered stays covered"),
    Call("pivot_root", (["/"], ["/"]), "the file tree is final"),
    Call("chroot", (["/tmp"],), "a way out of a root that is no mount"),
    Call("fsopen", (["tmpfs"], 0), "mounts by descriptors"),
    Call("open_tree", (-100, ["/usr"], 1), "mounts by descriptors"),
    Call("move_mount", (-100, ["/usr"], -100, ["/tmp"], 0), "mounts by descriptors"),
    Call("mount_setattr", (-100, ["/usr"], 0, [32], 32), "a read-only mount stays one"),
    Call("setns", (0, 0), "namespaces of others"),
    Call("ptrace", (16, 1, 0, 0), "the supervisor's memory"),
    Call("process_vm_readv", (1, 0, 0, 0, 0, 0), "the supervisor's memory"),
    Call("process_vm_writev", (1, 0, 0, 0, 0, 0), "the supervisor's memory"),
    Call("pidfd_getfd", (0, 0, 0), "the supervisor's descriptors"),
    Call("kcmp", (1, 1, 0, 0, 0), "the supervisor's descriptors"),
    Call("bpf", (0, [128], 128), "code in the kernel"),
    Call("perf_event_open", ([128], 0, -1, -1, 0), "side channels, and many holes"),
    Call("io_uring_setup", (4, [120]), "calls that pass no filter"),
    Call("userfaultfd", (1,), "holds the kernel in the middle of a copy"),
    Call("keyctl", (0, -3, 1), "keyrings belong to users of the host"),
    Call("add_key", (["user"], ["name"], ["x"], 1, -3), "keyrings belong to users of the host"),
    Call("request_key", (["user"], ["name"], 0, -3), "keyrings belong to users of the host"),
    Call("kexec_load", (0, 0, 0, 0), "another kernel"),
    Call("kexec_file_load", (-1, -1, 0, 0, 0), "another kernel"),
    Call("init_module", (0, 0, [""]), "code in the kernel"),
    Call("finit_module", (0, [""], 0), "code in the kernel"),
    Call("reboot", (0, 0, 0, 0), "the host goes on"),
    Call("swapon", (["/tmp/none"], 0), "the host's memory"),
    Call("acct", (["/tmp/none"],), "a log of all processes"),
    Call("syslog", (3, [64], 64), "the kernel's own log"),
    Call("quotactl", (0, 0, 0, 0), "the host's disks"),
    Call("sethostname", (["evil"], 4), "the sandbox's name is given"),
    Call("settimeofday", (0, 0), "one clock for all"),
    Call("clock_settime", (0, [16]), "one clock for all"),
    Call("adjtimex", ([208],), "one clock for all"),
    Call("open_by_handle_at", (-100, [64], 0), "files past all mounts"),
    Call("name_to_handle_at", (-100, ["/usr"], [64], [4], 0), "files past all mounts"),
    Call("fanotify_init", (0, 0), "events of all files"),
    Call("memfd_secret", (0,), "memory that nobody can account for"),
    Call("vhangup", (), "the host's terminal"),
    Call("socket", (40, 1, 0), "AF_VSOCK reaches the host past a network namespace", _NO_FAMILY),
    Call("socket", (17, 3, 0), "AF_PACKET", _NO_FAMILY),
    Call("socket", (38, 5, 0), "AF_ALG: the kernel's ciphers", _NO_FAMILY),
    Call("socket", (31, 3, 0), "AF_BLUETOOTH", _NO_FAMILY),
    Call("socket", (16, 3, 9), "the kernel's audit", _NO_FAMILY),
    Call("socket", (2, 3, 255), "raw packets", _NO_FAMILY),
    Call("socket", (2, 1, 132), "SCTP", _NO_FAMILY),
    Call("personality", (0x0400000,), "memory that can be executed"),
    Call("prctl", (35, 1, 0, 0, 0), "what /proc tells of a process"),
    Call("clone3", ([88], 88), "flags that a filter cannot see"),
    Call("openat2", (-100, ["/tmp"], [24], 24), "modes that a filter cannot see"),
)

ALLOWED_CALLS = (
    Call("clone", (17, 0, 0, 0, 0), "a process"),
    Call("getpid", (), "anything"),
    Call("socket", (1, 1, 0), "AF_UNIX"),
    Call("socket", (2, 1, 6), "TCP"),
    Call("socket", (10, 2, 17), "UDP"),
    Call("socket", (16, 3, 0), "the list of interfaces"),
    Call("socketpair", (1, 1, 0, [8]), "AF_UNIX"),
    Call("pidfd_open", (1, 0), "waiting for a process"),
    Call("memfd_create", (["name"], 0), "memory as a file"),
    Call("inotify_init1", (0,), "events of our own files"),
    Call("personality", (0xFFFFFFFF,), "asking"),
    Call("prctl", (15, ["name"], 0, 0, 0), "a name"),
    Call("seccomp", (2, 0, [4]), "locking oneself in further"),
    Call("timerfd_create", (1, 0), "time"),
    Call("getrandom", ([8], 8, 0), "chance"),
)


def _table(calls: tuple[Call, ...]) -> dict[str, list[object]]:
    known = [call for call in calls if call.name in NUMBERS]
    return {f"{call.name}{call.arguments}: {call.reason}": [NUMBERS[call.name], *call.arguments] for call in known}


UNSHARE_USER_I386, GETPID_I386 = 310, 20


def _through_i386(number: int, argument: int) -> str:
    """push rbx; mov eax, number; mov ebx, argument; int 0x80; pop rbx; ret"""
    return "53b8" + number.to_bytes(4, "little").hex() + "bb" + argument.to_bytes(4, "little").hex() + "cd805bc3"


def _through_x86_64(number: int) -> str:
    """mov eax, number; syscall; ret"""
    return "b8" + number.to_bytes(4, "little").hex() + "0f05c3"


class KernelSecurity(Suite):
    """The kernel's dangerous parts are closed, and what programs need is open."""

    async def test_refused_calls(self, sb: Sandbox) -> None:
        found = await ask(sb, inside.system_calls, _table(REFUSED_CALLS))
        answers = dict(zip(_table(REFUSED_CALLS), (c.answers for c in REFUSED_CALLS if c.name in NUMBERS), strict=True))
        assert {what: word for what, word in found.items() if word not in answers[what]} == {}

    async def test_allowed_calls(self, sb: Sandbox) -> None:
        assert failed(await ask(sb, inside.system_calls, _table(ALLOWED_CALLS))) == {}

    async def test_no_new_namespaces(self, sb: Sandbox) -> None:
        found = await ask(sb, inside.new_namespaces, NUMBERS, NAMESPACES)
        assert not_refused(found, {*REFUSED, "ENOSPC"}) == {}
        assert len(found) == 3 * len(NAMESPACES)
        assert (await ask(sb, inside.new_namespaces, NUMBERS, {"none": 0}))["clone none"] == "ok"

    @pytest.mark.skipif(MACHINE != "x86_64", reason="only x86_64 has other entries to the kernel")
    async def test_other_machines(self, sb: Sandbox) -> None:
        """The numbers of i386 and x32 mean other calls, which a filter by numbers would let pass."""
        codes = {
            "unshare by i386": _through_i386(UNSHARE_USER_I386, NAMESPACES["user"]),
            "getpid by i386": _through_i386(GETPID_I386, 0),
            "getpid by x32": _through_x86_64(39 | 0x40000000),
            "getpid": _through_x86_64(39),
        }
        found = await ask(sb, inside.by_machine_code, codes)
        assert found.pop("getpid") == "ok"
        assert set(found.values()) <= {"SIGSYS", "SIGSEGV", "ENOSYS"}

    async def test_settings_of_the_kernel(self, sb: Sandbox, contained: bool) -> None:
        files = [
            "/proc/sys/kernel/core_pattern",
            "/proc/sys/kernel/hostname",
            "/proc/sys/kernel/modprobe",
            "/proc/sys/kernel/ns_last_pid",
            "/proc/sys/vm/drop_caches",
            "/proc/sys/net/ipv4/ip_forward",
            "/proc/sys/user/max_user_namespaces",
            "/proc/sysrq-trigger",
            "/proc/acpi/wakeup",
            "/proc/bus/pci/devices",
            "/proc/irq/0/smp_affinity",
            "/proc/mtrr",
            "/proc/timer_list",
            "/proc/1/oom_score_adj",
            "/sys/kernel/uevent_helper",
            "/sys/power/state",
            "/sys/fs/cgroup/cgroup.procs",
            "/sys/kernel/mm/ksm/run",
        ]
        found = await ask(sb, inside.open_to_write, files)
        if contained:  # an engine covers it with /dev/null
            assert (await sb.exec("echo 1 > /proc/timer_list; wc -c < /proc/timer_list")).stdout.strip() in ("0", "")
            found.pop("/proc/timer_list")
        assert not_refused(found, NOT_THERE) == {}
        assert failed(await ask(sb, inside.open_to_write, ["/proc/self/comm", "/dev/null"])) == {}
        mounts = await ask(sb, inside.mounts)  # even for somebody who might
        assert [mount["where"] for mount in mounts if "ro" in mount["options"].split(",")].count("/proc/sys") == 1
        secret = ["/proc/kcore", "/proc/kmsg", "/dev/mem", "/dev/kmsg", "/dev/port", "/proc/1/mem", "/proc/1/environ"]
        assert not_refused(await ask(sb, inside.read, secret), NOT_THERE) == {}
        assert failed(await ask(sb, inside.read, ["/proc/sys/kernel/hostname", "/proc/self/status"])) == {}

    async def test_devices(self, sb: Sandbox) -> None:
        known = {"full", "null", "random", "tty", "urandom", "zero"}
        others = {"core", "fd", "ptmx", "pts", "shm", "stderr", "stdin", "stdout", "console", "mqueue"}
        names = set(await ask(sb, inside.list_directory, "/dev"))
        assert known <= names <= known | others
        made = await ask(sb, inside.make_nodes, "/workspace")
        allowed = {made.pop("pipe"), made.pop("file")}
        assert (not_refused(made), allowed) == ({}, {"ok"})
        assert (await sb.exec("head -c 5 /dev/zero > /dev/null; head -c 5 /dev/urandom | wc -c")).stdout.strip() == "5"
