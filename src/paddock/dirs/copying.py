"""Copying a tree of the host by descriptors, and writing down what was copied: later that says what has changed.

Links are copied and never followed. What is neither a file, a directory nor a link is left out, and so is what cannot be
read. Nothing of a file goes along but its content, its permissions and the time of its last change.
"""

import errno
import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TextIO

from paddock.dirs.syscalls import open_beneath

VERSION = 1
DEEPEST = 2000
"""Directories in each other. No path and no stack is too long before that; what is deeper is an error, ELOOP."""
_LISTABLE = os.O_RDONLY | os.O_DIRECTORY
_FICLONE = 0x40049409
_SMALL = 64 << 10
_PIECE = 16 << 20
_LONGEST = 2048
_NOT_THIS_WAY = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF, errno.ETXTBSY)

Tell = Callable[[int, int], object]
"""Told of entries and bytes as they are copied. What it raises ends the copying."""


@dataclass(frozen=True, slots=True)
class Copy:
    """What is to be copied."""

    source: int
    """A directory that is open, if only as a path."""
    target: str
    """The directory to make."""
    base: str
    """The file to make, with what was copied."""
    owner: tuple[int, int] | None = None
    """Whose the copy is; None where that is us."""


def copy_tree(copy: Copy, tell: Tell = lambda entries, size: None) -> int:
    """Copy it. How many entries could not be read, and were left out."""
    os.mkdir(copy.target, 0o700)
    target = os.open(copy.target, _LISTABLE | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        with open(copy.base, "x", encoding="ascii", opener=_private) as base:
            base.write(json.dumps({"version": VERSION}) + "\n")
            return _Copying(copy, target, base, tell).run()
    finally:
        os.close(target)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


class _Copying:
    def __init__(self, copy: Copy, target: int, base: TextIO, tell: Tell) -> None:
        self._source, self._target, self._owner = copy.source, target, copy.owner
        self._base, self._tell = base, tell
        self._top = os.fstat(copy.source)
        self._clones = True
        self._left_out = 0

    def run(self) -> int:
        waiting, done = [(b"", self._top)], []
        while waiting:
            path, info = waiting.pop()
            done.append((path, info))
            with suppress(FileNotFoundError), _open(self._source, path) as source, _open(self._target, path) as target:
                for name, inner in self._entries(source, target, path):
                    waiting.append((_join(path, name), inner))
        for path, info in reversed(done):  # when nothing is put into it any more
            with _open(self._target, path) as target:
                self._finish(target, path, "directory", info, stat.S_IMODE(info.st_mode) & 0o1777)
        return self._left_out

    def _entries(self, source: int, target: int, path: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
        """Copy what is in a directory; those in it are made, and told."""
        with os.scandir(source) as entries:
            names = [os.fsencode(entry.name) for entry in entries]
        for name in names:
            self._tell(1, 0)
            try:
                info = os.stat(name, dir_fd=source, follow_symlinks=False)
                if stat.S_ISLNK(info.st_mode):
                    self._link(source, target, name, _join(path, name), info)
                elif stat.S_ISREG(info.st_mode):
                    self._file(source, target, name, _join(path, name))
                elif stat.S_ISDIR(info.st_mode):
                    yield name, self._directory(source, target, name, path)
            except PermissionError:
                self._left_out += 1
            except FileNotFoundError:  # gone since it was listed
                continue
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO) or _depth(path) >= DEEPEST:
                    raise  # those are something else by now

    def _directory(self, source: int, target: int, name: bytes, path: bytes) -> os.stat_result:
        if _depth(path) >= DEEPEST:
            raise OSError(errno.ELOOP, "directories are too deep in each other")
        fd = open_beneath(source, name, _LISTABLE)
        try:
            info = os.fstat(fd)
        finally:
            os.close(fd)
        self._check_readable(info)
        os.mkdir(name, 0o700, dir_fd=target)
        return info

    def _link(self, source: int, target: int, name: bytes, path: bytes, info: os.stat_result) -> None:
        text = os.readlink(name, dir_fd=source)
        os.symlink(text, name, dir_fd=target)
        if self._owner is not None:
            os.chown(name, *self._owner, dir_fd=target, follow_symlinks=False)
        os.utime(name, ns=(info.st_atime_ns, info.st_mtime_ns), dir_fd=target, follow_symlinks=False)
        made = os.stat(name, dir_fd=target, follow_symlinks=False)
        self._write_down(path, "link", info, made, os.fsdecode(text))

    def _file(self, source: int, target: int, name: bytes, path: bytes) -> None:
        reading = open_beneath(source, name, os.O_RDONLY | os.O_NONBLOCK)
        try:
            info = os.fstat(reading)
            if not stat.S_ISREG(info.st_mode):
                return
            self._check_readable(info)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            writing = os.open(name, flags, 0o600, dir_fd=target)
            try:
                self._content(reading, writing, info)
                self._finish(writing, path, "file", info, stat.S_IMODE(info.st_mode) & 0o777)
            finally:
                os.close(writing)
        finally:
            os.close(reading)

    def _check_readable(self, info: os.stat_result) -> None:
        """As root: no more than what the owner of the whole could read."""
        if self._owner is None or self._top.st_uid == info.st_uid:
            return
        needed = 0o040 if self._top.st_gid == info.st_gid else 0o004
        if not info.st_mode & needed:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def _finish(self, fd: int, path: bytes, kind: str, info: os.stat_result, mode: int) -> None:
        if self._owner is not None:
            os.fchown(fd, *self._owner)
        os.fchmod(fd, mode)
        os.utime(fd, ns=(info.st_atime_ns, info.st_mtime_ns))
        if path:
            self._write_down(path, kind, info, os.fstat(fd), None)

    def _write_down(
        self, path: bytes, kind: str, info: os.stat_result, made: os.stat_result, target: str | None
    ) -> None:
        mode, size = stat.S_IMODE(made.st_mode), made.st_size
        entry = [os.fsdecode(path), kind, mode, size, info.st_ctime_ns, made.st_ino, made.st_ctime_ns, target]
        self._base.write(json.dumps(entry) + "\n")

    def _content(self, reading: int, writing: int, info: os.stat_result) -> None:
        if info.st_size == 0 or (self._clones and self._cloned(reading, writing)):
            return
        if info.st_size <= _SMALL:
            self._by_hand(reading, writing, info.st_size)
            return
        for start, end in _data(reading, info):
            os.lseek(reading, start, os.SEEK_SET)
            os.lseek(writing, start, os.SEEK_SET)
            self._range(reading, writing, end - start)
        os.ftruncate(writing, max(os.fstat(writing).st_size, info.st_size))

    def _cloned(self, reading: int, writing: int) -> bool:
        try:
            fcntl.ioctl(writing, _FICLONE, reading)
        except OSError as error:
            self._clones = error.errno not in (errno.EOPNOTSUPP, errno.EXDEV, errno.ENOTTY, errno.EINVAL)
            return False
        return True

    def _range(self, reading: int, writing: int, size: int) -> None:
        ways: tuple[Callable[[int], int], ...] = (
            lambda count: os.copy_file_range(reading, writing, count),
            lambda count: os.sendfile(writing, reading, None, count),
        )
        for way in ways:
            try:
                while size > 0:
                    copied = way(min(size, _PIECE))
                    if copied == 0:
                        return  # it has become shorter
                    size -= copied
                    self._tell(0, copied)
            except OSError as error:
                if error.errno not in _NOT_THIS_WAY:
                    raise
        self._by_hand(reading, writing, size)

    def _by_hand(self, reading: int, writing: int, size: int) -> None:
        while size > 0 and (data := os.read(reading, min(size, _PIECE))):
            size -= len(data)
            self._tell(0, len(data))
            while data:
                data = data[os.write(writing, data) :]


def _data(fd: int, info: os.stat_result) -> Iterator[tuple[int, int]]:
    """Where there is something in a file, up to the size that it had; a hole stays one."""
    if info.st_blocks * 512 >= info.st_size:
        yield 0, info.st_size
        return
    end = 0
    while end < info.st_size:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
            end = min(os.lseek(fd, start, os.SEEK_HOLE), info.st_size)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole from here on
                return
            raise
        if start < end:
            yield start, end


def _join(path: bytes, name: bytes) -> bytes:
    return path + b"/" + name if path else name


def _depth(path: bytes) -> int:
    return path.count(b"/") + bool(path)


@contextmanager
def _open(root: int, path: bytes) -> Iterator[int]:
    """The directory at `path` below `root`, in steps that are no longer than the kernel takes."""
    fd = os.dup(root)
    try:
        while len(path) > _LONGEST:
            cut = path.rfind(b"/", 0, _LONGEST)
            step = open_beneath(fd, path[:cut], os.O_PATH | os.O_DIRECTORY)
            os.close(fd)
            fd, path = step, path[cut + 1 :]
        step = open_beneath(fd, path, _LISTABLE)
        os.close(fd)
        fd = step
        yield fd
    finally:
        os.close(fd)
