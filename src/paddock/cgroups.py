"""Control groups of this host (version 2): where ours could be made, and removing one that a crash left."""

import os
import signal
import time
from contextlib import suppress
from functools import cache

from paddock.paths import below, within

NAME = "paddock-"
_SECONDS = 2.0


def parent() -> str | None:
    """The cgroup2 directory of this process, if we may make others in it that can be killed as a whole; else None."""
    mounted = _mounted()
    if mounted is None:
        return None
    root, top = mounted
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            own = next((line[3:].rstrip("\n") for line in file if line.startswith("0::")), None)
    except OSError:
        return None
    if own is None or not within(own, root) or ".." in own.split("/"):
        return None
    path = os.path.normpath(os.path.join(top, below(own, root)))
    return path if _works(path) else None


def remove(path: str) -> None:
    """End everything in one of our cgroups and remove it; one that is gone is fine."""
    if not os.path.basename(path).startswith(NAME):
        raise ValueError("not a cgroup of ours")
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            with suppress(FileNotFoundError):
                _kill(path)
                for directory, _, _ in os.walk(path, topdown=False):
                    _kill_headless(directory)
                    os.rmdir(directory)
            return
        except OSError:  # busy: what was killed has not gone yet
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def _kill(path: str) -> None:
    with open(os.path.join(path, "cgroup.kill"), "w", encoding="ascii") as file:
        file.write("1")


def _kill_headless(path: str) -> None:
    """What the kernel's own way passes over: a process whose first thread has ended while others run on."""
    opened = {}
    for pid in _pids(path):
        with suppress(ProcessLookupError):
            opened[pid] = os.pidfd_open(pid)
    still = _pids(path) if opened else set()
    for pid, fd in opened.items():
        with suppress(ProcessLookupError):
            if pid in still:  # so it is the one that was opened
                signal.pidfd_send_signal(fd, signal.SIGKILL)
        os.close(fd)


def _pids(path: str) -> set[int]:
    with open(os.path.join(path, "cgroup.procs"), encoding="ascii") as file:
        return {int(line) for line in file}


@cache
def _mounted() -> tuple[str, str] | None:
    """Which part of the hierarchy is mounted, and where."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                before, _, after = line.partition(" - ")
                if after.startswith("cgroup2 "):
                    root, top = before.split(" ")[3:5]
                    return root, top.replace("\\040", " ")
    except OSError:
        pass
    return None


@cache
def _works(path: str) -> bool:
    """Whether it can be done, by doing it."""
    trial = os.path.join(path, f"{NAME}trial-{os.getpid()}-{os.urandom(3).hex()}")
    try:
        os.mkdir(trial)
    except OSError:
        return False
    try:
        return os.access(os.path.join(trial, "cgroup.kill"), os.W_OK) and os.access(
            os.path.join(path, "cgroup.procs"), os.W_OK
        )
    finally:
        os.rmdir(trial)
