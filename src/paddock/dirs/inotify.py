"""Watches of this process's own inotify."""

import ctypes
import errno
import os
import select
import struct
from collections.abc import Iterator

from paddock.dirs.syscalls import open_beneath
from paddock.dirs.watching import MASK, Event, Watched
from paddock.paths import decode, encode

_HEADER = struct.Struct("iIII")
_LISTABLE = os.O_RDONLY | os.O_DIRECTORY


class InotifySource:
    """Watches of directories below the descriptor `root`, which stays the caller's."""

    def __init__(self, root: int) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._root = self._stop_read = self._stop_write = -1
        try:
            self._root = os.dup(root)
            self._stop_read, self._stop_write = os.pipe()
            self._fd = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
            if self._fd < 0:
                raise _last_error()
        except OSError:
            self.close()
            raise

    def add(self, directory: str) -> Watched:
        fd = open_beneath(self._root, encode(directory), _LISTABLE)
        try:
            # By the handle, not by a path that could lead elsewhere by now.
            watch = self._libc.inotify_add_watch(self._fd, f"/proc/self/fd/{fd}".encode(), MASK)
            if watch < 0:
                raise _last_error()
            with os.scandir(fd) as entries:
                found = [(decode(os.fsencode(e.name)), e.is_dir(follow_symlinks=False)) for e in entries]
            return Watched(watch, found)
        finally:
            os.close(fd)

    def drop(self, watch: int) -> None:
        self._libc.inotify_rm_watch(self._fd, watch)

    def events(self) -> list[Event] | None:
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.register(self._stop_read, select.POLLIN)
        if any(fd == self._stop_read for fd, _ in poll.poll()):
            return None
        return list(self._read())

    def stop(self) -> None:
        try:
            os.write(self._stop_write, b"x")
        except OSError as error:
            if error.errno != errno.EBADF:
                raise

    def close(self) -> None:
        for fd in (self._fd, self._root, self._stop_read, self._stop_write):
            if fd >= 0:
                os.close(fd)
        self._fd = self._root = self._stop_read = self._stop_write = -1

    def _read(self) -> Iterator[Event]:
        try:
            raw = os.read(self._fd, 1 << 16)
        except BlockingIOError:
            return
        position = 0
        while position < len(raw):
            watch, mask, _, length = _HEADER.unpack_from(raw, position)
            position += _HEADER.size
            yield Event(watch, mask, decode(raw[position : position + length].rstrip(b"\0")))
            position += length


def _last_error() -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code))
