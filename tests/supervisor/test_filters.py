"""The filter for commands: every one gets it, whatever way it is started, and a broken one means no supervisor."""

import os
import re
import struct
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from paddock import cgroups
from paddock.wire.binary import filter_path, supervisor_path
from paddock.wire.frames import Reply
from supervisor.host import Host, exit_code

PTY = 2
ALLOW = (6, 0, 0, 0x7FFF0000)
STATUS = "grep -E '^(Seccomp|Seccomp_filters|NoNewPrivs):' /proc/self/status >$0"


def options(stack: ExitStack, *, filtered: bool, grouped: bool, name: str) -> tuple[list[str], list[int]]:
    """What the supervisor is told, and the descriptors that it needs for it."""
    words, paths = [], []
    if filtered:
        words, paths = ["--filter", ""], [filter_path("commands")]
    if grouped:
        words, paths = [*words, "--cgroup", "", name], [*paths, cgroups.parent() or pytest.skip("there are no cgroups")]
    fds = [os.open(path, os.O_RDONLY) for path in paths]
    for fd in fds:
        stack.callback(os.close, fd)
    numbers = iter(fds)
    return [word or str(next(numbers)) for word in words], fds


def status(host: Host, directory: Path, flags: int) -> dict[str, str]:
    """What the kernel says of a command's filters."""
    id = host.spawn(["/bin/sh", "-c", STATUS, str(directory / "status")], {"PATH": "/usr/bin:/bin"}, flags=flags)
    assert exit_code(host.wait(Reply.ENDED, id)) == 0
    return dict(re.findall(r"(\w+):\t(\d+)", (directory / "status").read_text()))


@pytest.mark.parametrize("flags", [0, PTY], ids=["pipes", "terminal"])
@pytest.mark.parametrize("grouped", [False, True], ids=["keeper", "cgroup"])
def test_every_command_has_it(grouped: bool, flags: int, tmp_path: Path) -> None:
    found = {}
    for filtered in (False, True):
        with ExitStack() as stack:
            words, fds = options(stack, filtered=filtered, grouped=grouped, name=f"filter-{os.getpid()}")
            host = stack.enter_context(Host(*words, directory=tmp_path, pass_fds=fds))
            found[filtered] = [status(host, tmp_path, flags) for _ in range(3)]
    for without, with_it in zip(found[False], found[True], strict=True):
        assert int(with_it["Seccomp_filters"]) == int(without["Seccomp_filters"]) + 1
        assert (with_it["Seccomp"], with_it["NoNewPrivs"]) == ("2", "1")


def test_it_holds(tmp_path: Path) -> None:
    script = f"cd {tmp_path} && touch f && chmod 755 f && exec chmod 4755 f"
    codes = {}
    for filtered in (False, True):
        with ExitStack() as stack:
            words, fds = options(stack, filtered=filtered, grouped=False, name="")
            host = stack.enter_context(Host(*words, directory=tmp_path, pass_fds=fds))
            id = host.spawn(["/bin/sh", "-c", script], {"PATH": "/usr/bin:/bin"})
            codes[filtered] = exit_code(host.wait(Reply.ENDED, id))
    assert codes == {False: 0, True: 1}


def test_its_descriptor_is_not_inherited(tmp_path: Path) -> None:
    with ExitStack() as stack:
        words, fds = options(stack, filtered=True, grouped=False, name="")
        host = stack.enter_context(Host(*words, directory=tmp_path, pass_fds=fds))
        id = host.spawn(
            ["/bin/sh", "-c", f"readlink /proc/$PPID/fd/{fds[0]} /proc/self/fd/{fds[0]}"], {"PATH": "/usr/bin:/bin"}
        )
        assert exit_code(host.wait(Reply.ENDED, id)) == 1


def start(content: bytes | None, tmp_path: Path) -> "subprocess.CompletedProcess[str]":
    """A supervisor with this filter. Its channel is at its end already, so that a good one ends it too."""
    path = tmp_path / "filter"
    path.write_bytes(content or b"")
    fd = os.open(path if content is not None else tmp_path, os.O_RDONLY)
    try:
        words = [supervisor_path(), "--stdio", "--filter", str(fd)]
        return subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, pass_fds=[fd], timeout=20
        )
    finally:
        os.close(fd)


def program(*steps: tuple[int, int, int, int]) -> bytes:
    return b"".join(struct.pack("<HBBI", *step) for step in steps)


BROKEN = {
    "empty": b"",
    "half an instruction": program(ALLOW)[:4],
    "an instruction and a half": program(ALLOW) + b"\0" * 4,
    "too long": program(*[(0x20, 0, 0, 0)] * 4096, ALLOW),
    "much too long": b"\0" * (1 << 20),
    "no end": program((0x20, 0, 0, 0)),
    "a jump past the end": program((0x15, 9, 9, 0), ALLOW),
    "no instructions at all": b"seccomp?",
    "a directory": None,
    "an end to everything": program((6, 0, 0, 0x80000000)),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_one(content: bytes | None, tmp_path: Path) -> None:
    done = start(content, tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("paddock-init: a filter cannot be used: ")


@pytest.mark.parametrize(
    "content", [program(ALLOW), program(*[(0x20, 0, 0, 0)] * 4095, ALLOW)], ids=["short", "longest"]
)
def test_a_good_one(content: bytes, tmp_path: Path) -> None:
    done = start(content, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_descriptor_that_is_not_there() -> None:
    words = [supervisor_path(), "--stdio", "--filter", "777"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: paddock-init")
