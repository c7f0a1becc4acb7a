"""`Dir` in memory: the same answers as a real file system, without one."""

import builtins
import errno
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import Self

from paddock.dirs.protocol import Change, Node, Write, about
from paddock.paths import encode, split

DIRECTORY_SIZE = 4096
Notify = Callable[[list[Change]], None]
_versions = count(time.time_ns())
"""A file is replaced and never changed, so each has a number of its own; no other process has the same."""


@dataclass(slots=True)
class _File:
    data: bytes
    mode: int
    mtime: float
    stamp: int = field(default_factory=_versions.__next__)


@dataclass(slots=True)
class _Link:
    target: str
    mtime: float


@dataclass(slots=True)
class _Directory:
    mode: int
    mtime: float
    entries: "dict[str, _File | _Link | _Directory]" = field(default_factory=dict)


_Entry = _File | _Link | _Directory


class Quota:
    """Bytes that several directories share; None is no limit."""

    def __init__(self, disk: int | None = None, file_size: int | None = None) -> None:
        self._disk = disk
        self._file_size = file_size
        self._used = 0
        self._lock = threading.Lock()

    def take(self, size: int, freed: int = 0) -> None:
        """Use `size` bytes and give `freed` back, or ENOSPC (EFBIG for one file too large) and nothing is changed."""
        if self._file_size is not None and size > self._file_size:
            raise _error(errno.EFBIG)
        with self._lock:
            if self._disk is not None and size > freed and self._used + size - freed > self._disk:
                raise _error(errno.ENOSPC)
            self._used += size - freed


class MemoryDir:
    """A tree of Python objects behind one lock."""

    remote = False

    def __init__(self, quota: Quota | None = None) -> None:
        self._quota = quota or Quota()
        self._lock = threading.RLock()
        self._root = _Directory(0o755, time.time())
        self._watchers: builtins.list[tuple[str, Notify]] = []

    def stat(self, path: str) -> Node:
        with self._lock:
            return _node(split(path)[1], self._find(path))

    def list(self, path: str, *, stats: bool) -> builtins.list[Node]:
        with self._lock:
            return [_node(name, entry) for name, entry in self._directory(path).entries.items()]

    def open(self, path: str, offset: int = 0) -> "MemoryReader":
        with self._lock:
            return MemoryReader(self._file(path), offset)

    def write(self, path: str, data: bytes | Iterable[bytes], mode: int | None, *, replace: bool = True) -> int:
        content = data if isinstance(data, bytes) else b"".join(data)
        with self._lock:
            if not replace and self._replaceable(*self._parent(path)) is not None:
                raise _error(errno.EEXIST)
            self.place(Write(path, content, mode))
        return len(content)

    def stage(self, files: Iterable[Write]) -> "MemoryStage":
        staged = list(files)
        with self._lock:
            for file in staged:
                try:
                    self._replaceable(*self._parent(file.path))
                except OSError as error:
                    raise about(error, file.path) from None
        return MemoryStage(self, staged)

    def mkdir(self, path: str, mode: int = 0o755) -> None:
        with self._lock:
            directory, name = self._free(path)
            directory.entries[name] = _Directory(mode & 0o777, time.time())
            self._touch(directory, Change("appeared", path))

    def remove(self, path: str, *, tree: bool = False) -> None:
        with self._lock:
            directory, name = self._parent(path)
            entry = directory.entries.get(name)
            if entry is None:
                raise _error(errno.ENOENT)
            if isinstance(entry, _Directory) and entry.entries and not tree:
                raise _error(errno.ENOTEMPTY)
            del directory.entries[name]
            self._quota.take(0, sum(len(e.data) for _, e in _walk(name, entry) if isinstance(e, _File)))
            self._touch(directory, *_reversed_changes(path, entry))

    def rename(self, path: str, to: str, *, replace: bool) -> None:
        with self._lock:
            source, old = self._parent(path)
            target, new = self._parent(to)
            entry = source.entries.get(old)
            if entry is None:
                raise _error(errno.ENOENT)
            if to == path and replace:
                return
            if isinstance(entry, _Directory) and (to + "/").startswith(path + "/"):
                raise _error(errno.EEXIST if to == path else errno.EINVAL)
            self._give_way(target.entries.get(new), entry, replace)
            del source.entries[old]
            target.entries[new] = entry
            appeared = [Change("appeared", p) for p, _ in _walk(to, entry)]
            self._touch(source, *_reversed_changes(path, entry))
            self._touch(target, *appeared)

    def link(self, path: str, target: str) -> None:
        with self._lock:
            directory, name = self._free(path)
            directory.entries[name] = _Link(target, time.time())
            self._touch(directory, Change("appeared", path))

    def chmod(self, path: str, mode: int) -> None:
        with self._lock:
            self._directory(path).mode = mode & 0o777

    def watch(self, path: str, notify: Notify) -> Callable[[], None]:
        watcher = (path, notify)
        with self._lock:
            below = [
                (f"{path}/{name}" if path else name, entry) for name, entry in self._directory(path).entries.items()
            ]
            self._watchers.append(watcher)
            notify([Change("appeared", p) for top in below for p, _ in _walk(*top)])

        def stop() -> None:
            with self._lock:
                if watcher in self._watchers:
                    self._watchers.remove(watcher)

        return stop

    def close(self) -> None:
        with self._lock:
            self._root.entries.clear()
            self._watchers.clear()

    def place(self, file: Write) -> _File | None:
        """Put a file in its place and return the one that was there."""
        with self._lock:
            directory, name = self._parent(file.path)
            old = self._replaceable(directory, name)
            self._quota.take(len(file.data), len(old.data) if old else 0)
            kept = 0o644 if old is None else old.mode
            mode = kept if file.mode is None else file.mode & 0o777
            directory.entries[name] = _File(file.data, mode, time.time())
            self._touch(directory, Change("appeared", file.path))
            return old

    def restore(self, path: str, old: _File | None) -> None:
        """Take back what `place` did."""
        with self._lock:
            directory, name = self._parent(path)
            new = directory.entries.pop(name, None)
            if old is not None:
                directory.entries[name] = old
            freed = len(new.data) if isinstance(new, _File) else 0
            self._quota.take(0, freed - (len(old.data) if old else 0))
            self._touch(directory, Change("appeared" if old else "vanished", path))

    def _find(self, path: str) -> _Entry:
        here: _Entry = self._root
        for name in path.split("/") if path else ():
            if isinstance(here, _Link):
                raise _error(errno.ELOOP)
            if not isinstance(here, _Directory):
                raise _error(errno.ENOTDIR)
            found = here.entries.get(name)
            if found is None:
                raise _error(errno.ENOENT)
            here = found
        return here

    def _directory(self, path: str) -> _Directory:
        found = self._find(path)
        if isinstance(found, _Directory):
            return found
        raise _error(errno.ELOOP if isinstance(found, _Link) else errno.ENOTDIR)

    def _file(self, path: str) -> _File:
        found = self._find(path)
        if isinstance(found, _File):
            return found
        raise _error(errno.ELOOP if isinstance(found, _Link) else errno.EISDIR)

    def _parent(self, path: str) -> tuple[_Directory, str]:
        parent, name = split(path)
        if len(encode(name)) > 255:
            raise _error(errno.ENAMETOOLONG)
        return self._directory(parent), name

    def _free(self, path: str) -> tuple[_Directory, str]:
        directory, name = self._parent(path)
        if name in directory.entries or not name:
            raise _error(errno.EEXIST)
        return directory, name

    def _replaceable(self, directory: _Directory, name: str) -> _File | None:
        found = directory.entries.get(name) if name else directory
        if found is None or isinstance(found, _File):
            return found
        raise _error(errno.ELOOP if isinstance(found, _Link) else errno.EISDIR)

    def _give_way(self, old: _Entry | None, new: _Entry, replace: bool) -> None:
        if old is None:
            return
        if not replace:
            raise _error(errno.EEXIST)
        if isinstance(old, _Directory) != isinstance(new, _Directory):
            raise _error(errno.EISDIR if isinstance(old, _Directory) else errno.ENOTDIR)
        if isinstance(old, _Directory) and old.entries:
            raise _error(errno.ENOTEMPTY)
        if isinstance(old, _File):
            self._quota.take(0, len(old.data))

    def _touch(self, directory: _Directory, *changes: Change) -> None:
        directory.mtime = time.time()
        for top, notify in list(self._watchers):
            seen = [c for c in changes if not top or c.path == top or c.path.startswith(top + "/")]
            if seen:
                notify(seen)


class MemoryReader:
    """A file's content as it was when it was opened."""

    def __init__(self, file: _File, offset: int) -> None:
        self._data = file.data
        self._position = offset
        self.size = len(file.data)
        self.mode = file.mode
        self.stamp = file.stamp

    def read(self, size: int) -> bytes:
        part = self._data[self._position : self._position + size]
        self._position += len(part)
        return part

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._data = b""


class MemoryStage:
    """Files to be put in place one after the other, each remembered so that it can be taken back."""

    def __init__(self, directory: MemoryDir, files: builtins.list[Write]) -> None:
        self._directory = directory
        self._files = files
        self._done: builtins.list[tuple[str, _File | None]] = []

    def commit(self) -> None:
        for file in self._files:
            try:
                self._done.append((file.path, self._directory.place(file)))
            except BaseException as error:  # noqa: BLE001 - raised again
                self.rollback()
                raise about(error, file.path) from None

    def rollback(self) -> None:
        while self._done:
            self._directory.restore(*self._done.pop())

    def finish(self) -> None:
        self._done = []


def _error(code: int) -> OSError:
    return OSError(code, os.strerror(code))


def _node(name: str, entry: _Entry) -> Node:
    if isinstance(entry, _File):
        return Node(name, "file", len(entry.data), entry.mode, entry.mtime, None, entry.stamp)
    if isinstance(entry, _Link):
        return Node(name, "link", len(encode(entry.target)), 0o777, entry.mtime, entry.target)
    return Node(name, "directory", DIRECTORY_SIZE, entry.mode, entry.mtime)


def _walk(path: str, entry: _Entry) -> Iterator[tuple[str, _Entry]]:
    pending: list[tuple[str, _Entry]] = [(path, entry)]
    while pending:
        path, entry = pending.pop()
        yield path, entry
        if isinstance(entry, _Directory):
            pending.extend((f"{path}/{name}", child) for name, child in entry.entries.items())


def _reversed_changes(path: str, entry: _Entry) -> "list[Change]":
    return [Change("vanished", p) for p, _ in reversed(list(_walk(path, entry)))]
