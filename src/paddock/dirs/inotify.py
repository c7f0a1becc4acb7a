"""Watching a tree with inotify: one thread, one watch a directory, bounded."""

import ctypes
import errno
import os
import select
import struct
import threading
from collections.abc import Callable, Iterator

from paddock.dirs.protocol import Change
from paddock.dirs.syscalls import open_beneath
from paddock.paths import decode, encode

MAX_DIRECTORIES = 8192

_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_OVERFLOW, _IGNORED, _IS_DIRECTORY = 0x4000, 0x8000, 0x40000000
_SELF = 0x400 | 0x800  # deleted, moved
_MASK = (
    _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _SELF | 0x01000000
)  # IN_ONLYDIR
_HEADER = struct.Struct("iIII")
_LISTABLE = os.O_RDONLY | os.O_DIRECTORY


def watch_tree(root: int, path: str, notify: Callable[[list[Change]], None]) -> Callable[[], None]:
    """Watch `path` below the directory `root`. Watches are in place when this returns."""
    watcher = _Watcher(root, path, notify)
    try:
        notify(watcher.add(path))
    except BaseException:
        watcher.close()
        raise
    thread = threading.Thread(target=watcher.run, name="paddock-watch", daemon=True)
    thread.start()

    def stop() -> None:
        watcher.stop()
        if thread is not threading.current_thread():
            thread.join()

    return stop


class _Watcher:
    def __init__(self, root: int, path: str, notify: Callable[[list[Change]], None]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._root = self._stop_read = self._stop_write = -1
        self._top = path
        self._notify = notify
        self._paths: dict[int, str] = {}
        self._watches: dict[str, int] = {}
        try:
            self._root = os.dup(root)
            self._stop_read, self._stop_write = os.pipe()
            self._fd = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
            if self._fd < 0:
                raise _last_error()
        except OSError:
            self.close()
            raise

    def add(self, path: str) -> list[Change]:
        """Watch a directory and all below it; what is already in it, as changes."""
        found: list[Change] = []
        pending = [path]
        while pending:
            directory = pending.pop()
            for name, is_directory in self._add_one(directory):
                child = f"{directory}/{name}" if directory else name
                found.append(Change("appeared", child))
                if is_directory:
                    pending.append(child)
        return found

    def run(self) -> None:
        """Read and report until stopped."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.register(self._stop_read, select.POLLIN)
        try:
            while not any(fd == self._stop_read for fd, _ in poll.poll()):
                changes = [change for event in self._events() for change in self._changes(*event)]
                if changes:
                    self._notify(changes)
        finally:
            self.close()

    def stop(self) -> None:
        """Make `run` return."""
        try:
            os.write(self._stop_write, b"x")
        except OSError as error:
            if error.errno != errno.EBADF:
                raise

    def close(self) -> None:
        """Give every descriptor back."""
        for fd in (self._fd, self._root, self._stop_read, self._stop_write):
            if fd >= 0:
                os.close(fd)
        self._fd = self._root = self._stop_read = self._stop_write = -1

    def _add_one(self, directory: str) -> list[tuple[str, bool]]:
        fd = open_beneath(self._root, encode(directory), _LISTABLE)
        try:
            if len(self._paths) >= MAX_DIRECTORIES:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
            # By the handle, not by a path that could lead elsewhere by now.
            watch = self._libc.inotify_add_watch(self._fd, f"/proc/self/fd/{fd}".encode(), _MASK)
            if watch < 0:
                error = _last_error()
                raise OSError(errno.EFBIG, "too many directories to watch") if error.errno == errno.ENOSPC else error
            self._paths[watch] = directory
            self._watches[directory] = watch
            with os.scandir(fd) as entries:
                return [(decode(os.fsencode(e.name)), e.is_dir(follow_symlinks=False)) for e in entries]
        finally:
            os.close(fd)

    def _events(self) -> Iterator[tuple[int, int, str]]:
        try:
            raw = os.read(self._fd, 1 << 16)
        except BlockingIOError:
            return
        position = 0
        while position < len(raw):
            watch, mask, _, length = _HEADER.unpack_from(raw, position)
            position += _HEADER.size
            yield watch, mask, decode(raw[position : position + length].rstrip(b"\0"))
            position += length

    def _changes(self, watch: int, mask: int, name: str) -> list[Change]:
        if mask & _OVERFLOW:
            return [Change("overflow", self._top)]
        if mask & _IGNORED:
            self._watches.pop(self._paths.pop(watch, ""), None)
            return []
        directory = self._paths.get(watch)
        if mask & _SELF and directory == self._top:
            return [Change("vanished", self._top)]
        if directory is None or not name:
            return []
        path = f"{directory}/{name}" if directory else name
        if mask & (_DELETE | _MOVED_FROM):
            if mask & _MOVED_FROM and mask & _IS_DIRECTORY:
                self._forget(path)
            return [Change("vanished", path)]
        if mask & (_CREATE | _MOVED_TO):
            return [Change("appeared", path), *(self._follow(path) if mask & _IS_DIRECTORY else ())]
        return [Change("modified", path)] if not mask & _IS_DIRECTORY else []

    def _follow(self, path: str) -> list[Change]:
        try:
            return self.add(path)
        except OSError as error:
            # Gone or replaced again: the next event says so. Too many to watch: the user must look for themselves.
            gone = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES)
            return [] if error.errno in gone else [Change("overflow", path)]

    def _forget(self, path: str) -> None:
        """A directory that was moved away is still watched by the kernel: stop that, its paths are no longer true."""
        prefix = path + "/"
        for watch, known in list(self._paths.items()):
            if known == path or known.startswith(prefix):
                del self._paths[watch]
                self._watches.pop(known, None)
                self._libc.inotify_rm_watch(self._fd, watch)


def _last_error() -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code))
