"""How much a directory holds, without trusting what is in it: bounded in entries, depth and time, links never followed."""

import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from paddock.dirs.syscalls import chmod_directory

_MOST_ENTRIES = 200_000
_SECONDS = 5.0
_DEEPEST = 128
"""Directories that are open at once: so many levels that have more than one below them."""
_LEAST = 512  # an empty file takes something too
_ENTER = 0o500
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(slots=True)
class Measured:
    """What was found so far."""

    size: int = 0
    """Bytes on disk; a file with several names counts once."""
    complete: bool = True
    entries: int = 0
    _seen: set[tuple[int, int]] = field(default_factory=set)

    def add(self, info: os.stat_result) -> None:
        """Count one more."""
        self.entries += 1
        if info.st_nlink > 1 and not stat.S_ISDIR(info.st_mode):
            if (info.st_dev, info.st_ino) in self._seen:
                return
            self._seen.add((info.st_dev, info.st_ino))
        self.size += max(info.st_blocks * 512, _LEAST)


def measure(path: Path, *, entries: int = _MOST_ENTRIES, seconds: float = _SECONDS) -> Measured:
    """What is below `path`. If it is more than can be looked at, `complete` is False and the size is a lower bound.

    Others may work there meanwhile: what they remove before it is looked at counts as nothing.
    """
    found = Measured()
    deadline = time.monotonic() + seconds
    try:
        top = os.open(path, _OPEN)
    except OSError:
        return found
    levels: list[_Level] = []
    try:
        _look(levels, _Level(top), found, entries, deadline)
        while levels:
            if found.entries >= entries or time.monotonic() > deadline:
                found.complete = False
                break
            _go_down(levels, found, entries, deadline)
    finally:
        for level in levels:
            level.close()
    return found


@dataclass(slots=True)
class _Level:
    """A directory on the way down, and those in it that are still to be looked at."""

    fd: int
    closed: int | None = None
    """Its mode, if that kept us out and gets it back in the end."""
    names: list[str] = field(default_factory=list)

    def close(self) -> None:
        if self.closed is not None and stat.S_IMODE(os.fstat(self.fd).st_mode) == self.closed | _ENTER:
            with suppress(OSError):
                os.fchmod(self.fd, self.closed)
        os.close(self.fd)


def _go_down(levels: list[_Level], found: Measured, entries: int, deadline: float) -> None:
    """Look at one more directory of the deepest level, which is left with its last one: a long chain takes no room."""
    level = levels[-1]
    here: _Level | None = None
    try:
        with suppress(FileNotFoundError):  # it takes nothing any more
            here = _enter(level.fd, level.names.pop())
    except OSError:
        found.complete = False  # it is closed to us, or something else by now
    if not level.names:
        levels.pop().close()
    if here is not None:
        _look(levels, here, found, entries, deadline)


def _enter(parent: int, name: str) -> _Level:
    """Open a directory. One of ours that keeps us out lets us in until it is counted: else it would hide what it has."""
    info = os.stat(name, dir_fd=parent, follow_symlinks=False)
    closed = None
    if info.st_mode & _ENTER != _ENTER and info.st_uid == os.geteuid():
        closed = stat.S_IMODE(info.st_mode)
        chmod_directory(parent, os.fsencode(name), closed | _ENTER)
    return _Level(os.open(name, _OPEN, dir_fd=parent), closed)


def _look(levels: list[_Level], here: _Level, found: Measured, entries: int, deadline: float) -> None:
    """Count what is in a directory. If there are others in it, it is the next level."""
    try:
        with os.scandir(here.fd) as listed:
            for entry in listed:
                if found.entries >= entries or time.monotonic() > deadline:
                    found.complete = False
                    break
                with suppress(FileNotFoundError):
                    found.add(entry.stat(follow_symlinks=False))
                    if entry.is_dir(follow_symlinks=False):
                        here.names.append(entry.name)
    except OSError:
        found.complete = False
    if here.names and len(levels) < _DEEPEST:
        levels.append(here)
    else:
        found.complete = found.complete and not here.names
        here.close()
