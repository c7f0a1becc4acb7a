"""Holds one engine. It starts it, and when standard input ends it ends everything: processes, mounts, cgroups, files.

A program of its own, because whoever runs the tests may be killed and the engine must not stay. Whatever leaves its parent,
as the shims and monitors of engines do, comes to the keeper, which is their subreaper; so all of them are found.

`keeper.py DIRECTORY CGROUP COMMAND…`; it ends with 0 when nothing is left, and says what is.
"""

import ctypes
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_MNT_DETACH = 2
_SHIM_SOCKETS = "/run/containerd/s/"  # of every containerd, whatever it was told
_SECONDS = 20.0

_libc = ctypes.CDLL(None, use_errno=True)


def main(directory: str, cgroup: str, *command: str) -> int:
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # they are for who runs the tests, whose end is heard of
    engine = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    while not select.select([sys.stdin], [], [], 0.1)[0]:
        if _reap(engine.pid):
            break
    left = [f"process {pid}" for pid in _end_all()]
    left += [f"mount {path}" for path in _unmount(directory)]
    left += [f"cgroup {path}" for path in _remove([*cgroups(cgroup), *_cgroups_of_podman(directory)])]
    if not mounted(directory):
        shutil.rmtree(directory, ignore_errors=True)
    left += [f"file {path}" for path in Path(directory).rglob("*")][:5]
    print("\n".join(left), end="")
    return len(left) > 0


def _reap(engine: int) -> bool:
    """Whether the engine itself has ended."""
    with suppress(ChildProcessError):
        while pid := os.waitpid(-1, os.WNOHANG)[0]:
            if pid == engine:
                return True
    return False


def _descendants(pid: int) -> Iterator[int]:
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, children.read_text().split()):
                yield child
                yield from _descendants(child)


def _end_all() -> list[int]:
    """From the top: the engine cannot do anything about the end of what it started."""
    deadline = time.monotonic() + _SECONDS
    sockets: set[str] = set()
    while (pids := list(_descendants(os.getpid()))) and time.monotonic() < deadline:
        sockets |= _shim_sockets(pids)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _reap(0)
        time.sleep(0.01)
    for path in sockets:
        Path(path).unlink(missing_ok=True)
    return pids


def _shim_sockets(pids: list[int]) -> set[str]:
    inodes = {name for pid in pids for name in _open_sockets(pid)}
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()]
    return {line[7] for line in lines if len(line) == 8 and line[6] in inodes and line[7].startswith(_SHIM_SOCKETS)}


def _open_sockets(pid: int) -> Iterator[str]:
    for path in Path(f"/proc/{pid}/fd").glob("*"):
        with suppress(OSError):
            if found := re.fullmatch(r"socket:\[(\d+)\]", os.readlink(path)):
                yield found[1]


def mounted(directory: str) -> list[str]:
    """The places below it that something is mounted on, the last one first."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    paths = [line.split()[4].encode().decode("unicode_escape") for line in lines]
    return [path for path in reversed(paths) if path == directory or path.startswith(f"{directory}/")]


def _unmount(directory: str) -> list[str]:
    for path in mounted(directory):
        _libc.umount2(os.fsencode(path), _MNT_DETACH)
    return mounted(directory)


def cgroups(name: str) -> list[Path]:
    """Where it is in each hierarchy: at the top of what can be seen."""
    lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [Path(line[1]) / name.lstrip("/") for line in lines if line[2] in ("cgroup", "cgroup2")]


def _cgroups_of_podman(directory: str) -> list[Path]:
    """It leaves one of each container that it ever had, below a parent that another may use too. Its events tell which."""
    events = Path(directory, "tmp/events/events.log")
    told = events.read_text() if events.exists() else ""
    names = [f"libpod_parent/libpod-{id}" for id in sorted(set(re.findall(r"[0-9a-f]{64}", told)))]
    return [path for name in names for path in cgroups(name) if path.exists()]


def _remove(paths: list[Path]) -> list[str]:
    deadline = time.monotonic() + _SECONDS
    while left := [path for path in paths if path.exists()]:
        for path in left:
            for each in (*sorted(path.rglob("*/"), reverse=True), path):
                with suppress(OSError):
                    each.rmdir()
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    for path in [*cgroups("libpod_parent/conmon"), *cgroups("libpod_parent")] if paths else []:
        with suppress(OSError):  # unless somebody is in it
            path.rmdir()
    return [str(path) for path in left]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
