"""Locks on files. They end with the process that took them, however that ends."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from paddock.snapshots.blobs import on_host
from paddock.snapshots.bounds import Work

_PAUSE = 0.005


@contextmanager
def held(path: Path, work: Work, *, shared: bool) -> Iterator[None]:
    """The lock for the length of a block. Whoever waits for it can be stopped."""
    fd = _opened(path)
    try:
        while not _is_taken(fd, shared=shared):
            work.spend()
            time.sleep(_PAUSE)
        yield
    finally:
        os.close(fd)


@contextmanager
def held_soon(path: Path, seconds: float) -> Iterator[bool]:
    """The lock for nobody else, if it is free within that time; whether it was."""
    fd, deadline = _opened(path), time.monotonic() + seconds
    try:
        taken = _is_taken(fd, shared=False)
        while not taken and time.monotonic() < deadline:
            time.sleep(_PAUSE)
            taken = _is_taken(fd, shared=False)
        yield taken
    finally:
        os.close(fd)


def _opened(path: Path) -> int:
    with on_host():
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _is_taken(fd: int, *, shared: bool) -> bool:
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
