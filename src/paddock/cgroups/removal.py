"""Removing a cgroup of ours with everything that is left in it, of either version."""

import os
import signal
import time
from contextlib import suppress

from paddock.cgroups import files

NAME = "paddock-"
_SECONDS = 2.0


def remove(path: str) -> None:
    """End everything in one of our cgroups and remove it; one that is gone is fine."""
    if not os.path.basename(path).startswith(NAME):
        raise ValueError("not a cgroup of ours")
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            files.remove(path)
            return
        except FileNotFoundError:
            return
        except OSError:  # something is in it
            if time.monotonic() > deadline:
                raise
        try:
            _empty(path)
        except OSError:  # what was killed has not gone yet
            time.sleep(0.005)


def _empty(path: str) -> None:
    """End what is in it, and remove the cgroups below."""
    with suppress(FileNotFoundError):  # version 1 has no such file
        files.write(os.path.join(path, "cgroup.kill"), "1")
    for directory, _, _ in os.walk(path, topdown=False):
        with suppress(FileNotFoundError):
            _kill_each(directory)
            files.remove(directory)


def _kill_each(path: str) -> None:
    """All of version 1; of version 2 a process whose first thread has ended, which the kernel's own way passes over."""
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
    return {int(pid) for pid in files.read(os.path.join(path, "cgroup.procs")).split()} - {0}
