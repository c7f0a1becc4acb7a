"""Removing a tree that somebody hostile may have made: links, any depth, any mode."""

import errno
import os
from contextlib import suppress
from dataclasses import dataclass

from paddock.dirs.names import temporary_name
from paddock.dirs.syscalls import chmod_directory, open_beneath

_LISTABLE = os.O_RDONLY | os.O_DIRECTORY
_DEEPEST = 16  # descriptors held at once


@dataclass(slots=True)
class _Level:
    fd: int
    name: bytes
    directories: list[bytes]


def remove_tree(directory: int, name: bytes) -> None:
    """Remove the directory `name` of `directory` and all that is below it. Links are removed, never followed.

    What lies deeper than `_DEEPEST` is first moved up to just below `name`: no path and no stack can be too long.
    """
    levels: list[_Level] = []
    try:
        device = os.stat(directory).st_dev
        _enter(levels, directory, name, device)
        while levels:
            here = levels[-1]
            if not here.directories:
                levels.pop()
                os.close(here.fd)
                _rmdir(levels[-1].fd if levels else directory, here.name)
            elif len(levels) < _DEEPEST:
                _enter(levels, here.fd, here.directories.pop(), device)
            else:
                levels[0].directories.append(_lift(here.fd, here.directories.pop(), levels[0].fd))
    finally:
        for level in levels:
            os.close(level.fd)


def _enter(levels: list[_Level], parent: int, name: bytes, device: int) -> None:
    fd = _open_directory(parent, name)
    if fd is None:
        return
    try:
        info = os.fstat(fd)
        if info.st_dev != device:
            raise OSError(errno.EBUSY, "another file system is mounted there")
        if info.st_mode & 0o700 != 0o700:
            os.fchmod(fd, 0o700)
        levels.append(_Level(fd, name, _unlink_files(fd)))
    except BaseException:
        os.close(fd)
        raise


def _open_directory(parent: int, name: bytes) -> int | None:
    """The directory open, or None if there is none any more."""
    try:
        try:
            return open_beneath(parent, name, _LISTABLE)
        except PermissionError:
            if _removed(parent, name):  # somebody else's, of which we could not change the mode
                return None
            chmod_directory(parent, name, 0o700)
            return open_beneath(parent, name, _LISTABLE)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        with suppress(FileNotFoundError):  # swapped for a file or link since it was listed
            os.unlink(name, dir_fd=parent)
        return None


def _unlink_files(fd: int) -> list[bytes]:
    """Remove all entries that are not directories; the names of those that are."""
    directories = []
    with os.scandir(fd) as entries:
        for entry in entries:
            name = os.fsencode(entry.name)
            if entry.is_dir(follow_symlinks=False):
                directories.append(name)
                continue
            try:
                os.unlink(name, dir_fd=fd)
            except FileNotFoundError:
                pass
            except IsADirectoryError:
                directories.append(name)
    return directories


def _lift(parent: int, name: bytes, top: int) -> bytes:
    aside = temporary_name()
    with suppress(OSError):
        chmod_directory(parent, name, 0o700)  # moving a directory writes to it
    os.rename(name, aside, src_dir_fd=parent, dst_dir_fd=top)
    return aside


def _removed(parent: int, name: bytes) -> bool:
    try:
        os.rmdir(name, dir_fd=parent)
    except OSError:
        return False
    return True


def _rmdir(parent: int, name: bytes) -> None:
    with suppress(FileNotFoundError):
        os.rmdir(name, dir_fd=parent)
