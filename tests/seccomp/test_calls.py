"""What the kernel makes of the filters: every refused call, and its twin that goes through."""

import json
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from filters import numbers

from seccomp.inside import BASE, BOTH, CAPABILITIES, NONE, Inside, inside

MACHINE = os.uname().machine
CALLS = numbers(MACHINE)
BAD, HERE = (1 << 64) - 1, (1 << 64) - 100  # -1 as a descriptor, and AT_FDCWD
CREATE, TMPFILE = 0o101, 0o20200002 if MACHINE == "x86_64" else 0o20040002
CHILD = 17  # SIGCHLD
NEW = {
    "user": 0x10000000, "mount": 0x00020000, "pid": 0x20000000, "network": 0x40000000,
    "ipc": 0x08000000, "uts": 0x04000000, "cgroup": 0x02000000,
}  # fmt: skip
HIGH = 1 << 32
PROBE = Path(__file__).with_name("probe.py").read_text()


class Case(NamedTuple):
    """A call, and how it ends with the first filter and with both."""

    id: str
    call: str
    arguments: list[Any]
    base: str = ""
    both: str | None = None
    telling: bool = True
    """Whether the kernel itself would answer otherwise; some kernels do not have all of these calls."""

    @property
    def number(self) -> int:
        return CALLS.get(self.call, 9999)


def commands(id: str, call: str, arguments: list[Any], both: str = "") -> Case:
    """What only commands are refused."""
    return Case(id, call, arguments, "", both)


CASES = [
    Case("a call of the future", "unheard of", [], "ENOSYS", telling=False),
    Case("getpid", "getpid", []),
    Case("mount", "mount", [0, 0, 0, 0, 0], "EPERM"),
    Case("umount", "umount2", [0, 0], "EPERM"),
    Case("pivot_root", "pivot_root", [0, 0], "EPERM"),
    Case("chroot", "chroot", ["nowhere"], "EPERM"),
    Case("fsopen", "fsopen", [0, 0], "EPERM"),
    Case("fsmount", "fsmount", [BAD, 0, 0], "EPERM"),
    Case("move_mount", "move_mount", [BAD, 0, BAD, 0, 0], "EPERM"),
    Case("open_tree", "open_tree", [BAD, 0, 0], "EPERM"),
    Case("mount_setattr", "mount_setattr", [BAD, 0, 0, 0, 0], "EPERM"),
    Case("unshare nothing", "unshare", [0], "EPERM"),
    Case("setns", "setns", [BAD, 0], "EPERM"),
    *(Case(f"clone {name}", "clone", [flag | CHILD, 0, 0, 0, 0], "EPERM") for name, flag in NEW.items()),
    Case("clone as fork", "clone", [CHILD, 0, 0, 0, 0]),
    commands("clone3 user", "clone3", [[NEW["user"], 0, 0, 0, CHILD, 0, 0, 0, 0, 0, 0], 88], "ENOSYS"),
    commands("clone3", "clone3", [[0, 0, 0, 0, CHILD, 0, 0, 0, 0, 0, 0], 88], "ENOSYS"),
    Case("ptrace", "ptrace", [16, BAD, 0, 0], "EPERM"),
    Case("process_vm_readv", "process_vm_readv", [BAD, 0, 0, 0, 0, 1], "EPERM"),
    Case("pidfd_getfd", "pidfd_getfd", [BAD, 0, 0], "EPERM"),
    Case("pidfd_open", "pidfd_open", [1, 0]),
    Case("io_uring", "io_uring_setup", [1, [0] * 15], "ENOSYS", telling=False),
    Case("bpf", "bpf", [0, 0, 0], "EPERM", telling=False),
    Case("perf", "perf_event_open", [0, 0, 0, 0, 0], "EPERM", telling=False),
    Case("userfaultfd", "userfaultfd", [0], "EPERM", telling=False),
    Case("keyctl", "keyctl", [9999], "EPERM"),
    Case("add_key", "add_key", [0, 0, 0, 0, 0], "EPERM"),
    Case("handle", "name_to_handle_at", [BAD, 0, 0, 0, 0], "EPERM"),
    Case("fanotify", "fanotify_init", [0x200, 0], "EPERM"),
    Case("inotify", "inotify_init1", [0]),
    Case("NUMA", "get_mempolicy", [0, 0, 0, 0, 0], "ENOSYS", telling=False),
    Case("host name", "sethostname", ["x", 1], "EPERM"),
    Case("personality asked", "personality", [0xFFFFFFFF]),
    Case("personality executable", "personality", [0x00400000], "EPERM"),
    Case("personality fixed", "personality", [0x00040000]),
    Case("personality usual", "personality", [0]),
    Case("prctl name", "prctl", [15, "probe"]),
    Case("prctl map", "prctl", [35, 15, [0], 0, 0], "EPERM"),
    Case("a Unix socket", "socket", [1, 1, 0]),
    Case("a Unix socket with high bits", "socket", [1 | HIGH, 1, 0]),
    Case("TCP", "socket", [2, 1 | 0o2000000, 0]),
    Case("UDP over IPv6", "socket", [10, 2 | 0o4000, 17]),
    Case("raw", "socket", [2, 3, 1], "EPERM"),
    Case("MPTCP", "socket", [2, 1, 262], "EPROTONOSUPPORT", telling=False),
    Case("DCCP", "socket", [2, 6, 0], "ESOCKTNOSUPPORT", telling=False),
    Case("interfaces", "socket", [16, 3, 0]),
    Case("generic netlink", "socket", [16, 3, 16], "EPROTONOSUPPORT"),
    Case("VSOCK", "socket", [40, 1, 0], "EAFNOSUPPORT", telling=False),
    Case("packets", "socket", [17, 3, 0], "EAFNOSUPPORT"),
    Case("packets with high bits", "socket", [17 | HIGH, 3, 0], "EAFNOSUPPORT"),
    Case("a pair", "socketpair", [1, 1, 0, [0]]),
    Case("a pair of TCP", "socketpair", [2, 1, 0, [0]], "EAFNOSUPPORT"),
    Case("TCP without delay", "setsockopt", [BAD, 6, 1, 0, 0], "EBADF", telling=False),
    Case("TLS in the kernel", "setsockopt", [BAD, 6, 31, 0, 0], "ENOPROTOOPT"),
    Case("TIOCGWINSZ", "ioctl", [8, 0x5413, [0]]),
    Case("TIOCGWINSZ with high bits", "ioctl", [8, 0x5413 | HIGH, [0]]),
    Case("TIOCSTI", "ioctl", [BAD, 0x5412, "x"], "EPERM"),
    Case("TIOCSTI with high bits", "ioctl", [BAD, 0x5412 | HIGH, "x"], "EPERM"),
    Case("TIOCLINUX", "ioctl", [BAD, 0x541C, "x"], "EPERM"),
    Case("TIOCSETD", "ioctl", [BAD, 0x5423, 0], "EPERM"),
    Case("flags of a file", "ioctl", [BAD, 0x40086602, 0], "ENOTSUP"),
    Case("another request", "ioctl", [BAD, 0x40086601, 0], "EBADF", telling=False),
    Case("fchmodat2", "fchmodat2", [HERE, "f", 0o755, 0], "ENOSYS", telling=False),
    commands("openat2", "openat2", [HERE, "f", [0, 0, 0], 24], "ENOSYS"),
    commands("openat2 set-uid", "openat2", [HERE, "n0", [CREATE, 0o4755, 0], 24], "ENOSYS"),
    commands("chmod", "chmod", ["f", 0o1755]),
    commands("chmod set-uid", "chmod", ["f", 0o4755], "EPERM"),
    commands("chmod set-gid", "chmod", ["f", 0o2755], "EPERM"),
    commands("chmod set-uid with high bits", "chmod", ["f", 0o4755 | HIGH], "EPERM"),
    commands("fchmod", "fchmod", [9, 0o600]),
    commands("fchmod set-uid", "fchmod", [9, 0o4600], "EPERM"),
    commands("fchmodat", "fchmodat", [HERE, "f", 0o755]),
    commands("fchmodat set-uid", "fchmodat", [HERE, "f", 0o4755], "EPERM"),
    commands("creat", "creat", ["n1", 0o755]),
    commands("creat set-uid", "creat", ["n2", 0o4755], "EPERM"),
    commands("open", "open", ["n3", CREATE, 0o755]),
    commands("open set-uid", "open", ["n4", CREATE, 0o4755], "EPERM"),
    commands("open with a mode for nothing", "open", ["f", 0, 0o4755]),
    commands("openat", "openat", [HERE, "n5", CREATE, 0o755]),
    commands("openat set-gid", "openat", [HERE, "n6", CREATE, 0o2755], "EPERM"),
    commands("openat with a mode for nothing", "openat", [HERE, "f", 0, 0o6755]),
    commands("unnamed", "openat", [HERE, ".", TMPFILE, 0o600]),
    commands("unnamed set-uid", "openat", [HERE, ".", TMPFILE, 0o4600], "EPERM"),
    commands("mkdir", "mkdirat", [HERE, "n7", 0o755]),
    commands("mkdir, which drops the bits", "mkdirat", [HERE, "n8", 0o6755]),
    commands("mknod pipe", "mknodat", [HERE, "n9", 0o010644, 0]),
    commands("mknod file", "mknodat", [HERE, "n10", 0o644, 0]),
    commands("mknod set-uid", "mknodat", [HERE, "n11", 0o104755, 0], "EPERM"),
    commands("mknod whiteout", "mknodat", [HERE, "n12", 0o020000, 0], "EPERM"),
    commands("old mknod pipe", "mknod", ["n13", 0o010644, 0]),
    commands("old mknod whiteout", "mknod", ["n14", 0o020000, 0], "EPERM"),
    commands("rename", "renameat2", [HERE, "n5", HERE, "n15", 1]),
    commands("rename with a whiteout", "renameat2", [HERE, "n15", HERE, "n16", 4], "EINVAL"),
    Case("unshare user", "unshare", [NEW["user"]], "EPERM"),
]  # fmt: skip
CASES = [case for case in CASES if case.call in CALLS or case.call == "unheard of"]


@pytest.fixture(scope="module", params=[NONE, BASE, BOTH])
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, str]]:
    """How the calls end, with these filters."""
    with inside(request.param, tmp_path_factory.mktemp("calls"), *CAPABILITIES) as there:
        calls = json.dumps([(case.number, case.arguments) for case in CASES])
        code, text = there.run('exec "$@"', sys.executable, "-c", PROBE, calls)
    assert code == 0, text
    return request.param, dict(zip((case.id for case in CASES), json.loads(text), strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_call(case: Case, outcomes: tuple[str, dict[str, str]]) -> None:
    filters, found = outcomes
    refused = case.base if filters == BASE or case.both is None else case.both
    if filters != NONE:
        assert found[case.id] == refused
    elif refused and case.telling:
        assert found[case.id] != refused  # or it would not be the filter that refuses
    elif not refused:
        assert found[case.id] == ""


@pytest.fixture(scope="module", params=[BASE, BOTH])
def filtered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    with inside(request.param, tmp_path_factory.mktemp("filtered")) as there:
        yield there


ENTRY = """
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex({code!r}))
print("before", flush=True)
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
print("after", flush=True)
"""
GETPID = {
    "x86_64": ("b827000000" "0f05" "c3", 0),
    "i386": ("b814000000" "cd80" "c3", 159),
    "x32": ("b827000040" "0f05" "c3", 159),
}  # fmt: skip


@pytest.mark.skipif(MACHINE != "x86_64", reason="only x86_64 has these entries")
@pytest.mark.parametrize("entry", GETPID)
def test_other_entries_of_the_kernel(entry: str, filtered: Inside) -> None:
    machine_code, expected = GETPID[entry]
    script = shlex.quote(ENTRY.format(code=machine_code))
    code, text = filtered.run(f"ulimit -c 0; {shlex.quote(sys.executable)} -c {script}; exit $?")
    assert code == expected
    assert text.startswith("before\n")
    assert ("after" in text) == (expected == 0)


def test_no_process_goes_without(filtered: Inside) -> None:
    code, text = filtered.run("cat /proc/[0-9]*/status | grep -E '^(Seccomp|NoNewPrivs):'")
    assert code == 0
    assert set(text.split("\n")) - {""} == {"Seccomp:\t2", "NoNewPrivs:\t1"}


def test_every_process_has_all_of_them(filtered: Inside) -> None:
    code, text = filtered.run("cat /proc/[0-9]*/status | grep '^Seccomp_filters:'")
    assert code == 0
    assert min(int(line.split()[1]) for line in text.splitlines()) >= 2
