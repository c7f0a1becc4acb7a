"""The files of a workspace, as they are listed for people: whatever an agent has made there, within bounds."""

import os
from contextlib import suppress
from dataclasses import dataclass, field

_MOST_LOOKED_AT = 20_000
_DEEPEST = 64
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(slots=True)
class Listed:
    """What was found so far."""

    names: list[str] = field(default_factory=list)
    complete: bool = True
    looked_at: int = 0


def listed(path: str, most: int = 1000) -> Listed:
    """Files below a directory, in order. No link is followed, nor one that takes the place of a directory meanwhile."""
    found = Listed()
    with suppress(OSError):  # there is nothing yet
        _enter(found, path, None, "", 0)
    found.names.sort()
    found.complete = found.complete and len(found.names) <= most
    del found.names[most:]
    return found


def _enter(found: Listed, name: str, parent: int | None, prefix: str, depth: int) -> None:
    fd = os.open(name, _OPEN, dir_fd=parent)
    try:
        for inner in _look(found, fd, prefix):
            if depth == _DEEPEST:
                found.complete = False
                break
            with suppress(OSError):  # it is gone, or closed to us
                _enter(found, inner, fd, f"{prefix}{inner}/", depth + 1)
    finally:
        os.close(fd)


def _look(found: Listed, fd: int, prefix: str) -> list[str]:
    """Note the files of a directory; the directories in it."""
    directories: list[str] = []
    with os.scandir(fd) as entries:
        for entry in entries:
            if found.looked_at == _MOST_LOOKED_AT:
                found.complete = False
                break
            found.looked_at += 1
            if entry.is_dir(follow_symlinks=False):
                directories.append(entry.name)
            elif entry.is_file(follow_symlinks=False):
                found.names.append(f"{prefix}{entry.name}")
    return directories
