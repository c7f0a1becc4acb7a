"""Watching a whole tree with watches of single directories, wherever those are kept; bounded."""

import errno
import os
import threading
from collections.abc import Callable
from typing import NamedTuple, Protocol

from paddock.dirs.protocol import Change

MAX_DIRECTORIES = 8192

MODIFY, ATTRIB, CLOSE_WRITE = 0x2, 0x4, 0x8
MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x40, 0x80, 0x100, 0x200
OVERFLOW, IGNORED, IS_DIRECTORY = 0x4000, 0x8000, 0x40000000
SELF = 0x400 | 0x800  # deleted, moved
MASK = MODIFY | ATTRIB | CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE | SELF | 0x01000000  # IN_ONLYDIR


class Event(NamedTuple):
    """What inotify says: the watch that saw it, a mask, and a name in the watched directory."""

    watch: int
    mask: int
    name: str


class Watched(NamedTuple):
    """A directory that is watched from now on: the number of its watch, and each entry with whether it is a directory."""

    watch: int
    entries: list[tuple[str, bool]]


class Source(Protocol):
    """Where watches of single directories are kept. All but `stop` is called from one thread at a time."""

    def add(self, directory: str) -> Watched:
        """Watch one directory, and then look at what is in it."""

    def drop(self, watch: int) -> None:
        """Watch one directory no more."""

    def events(self) -> list[Event] | None:
        """Wait for what happened; None when stopped. An `OSError` says that there will be nothing more."""

    def stop(self) -> None:
        """Make `events` return, now or when it is called next. From any thread, also after `close`."""

    def close(self) -> None:
        """Give everything back."""


def watch_tree(source: Source, path: str, notify: Callable[[list[Change]], None]) -> Callable[[], None]:
    """Watch `path` and all below it. Watches are in place when this returns; the source is closed at the end."""
    tree = _Tree(source, path)
    try:
        notify(tree.add(path))
    except BaseException:
        source.close()
        raise
    thread = threading.Thread(target=tree.run, args=(notify,), name="paddock-watch", daemon=True)
    thread.start()

    def stop() -> None:
        source.stop()
        if thread is not threading.current_thread():
            thread.join()

    return stop


class _Tree:
    def __init__(self, source: Source, top: str) -> None:
        self._source = source
        self._top = top
        self._paths: dict[int, str] = {}

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

    def run(self, notify: Callable[[list[Change]], None]) -> None:
        """Report until stopped."""
        try:
            while (events := self._source.events()) is not None:
                changes = [change for event in events for change in self._changes(*event)]
                if changes:
                    notify(changes)
        except OSError:
            notify([Change("vanished", self._top)])
        finally:
            self._source.close()

    def _add_one(self, directory: str) -> list[tuple[str, bool]]:
        if len(self._paths) >= MAX_DIRECTORIES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        try:
            watch, entries = self._source.add(directory)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise OSError(errno.EFBIG, "too many directories to watch") from None
            raise
        self._paths[watch] = directory
        return entries

    def _changes(self, watch: int, mask: int, name: str) -> list[Change]:
        if mask & OVERFLOW:
            return [Change("overflow", self._top)]
        if mask & IGNORED:
            self._paths.pop(watch, None)
            return []
        directory = self._paths.get(watch)
        if mask & SELF and directory == self._top:
            return [Change("vanished", self._top)]
        if directory is None or not name:
            return []
        path = f"{directory}/{name}" if directory else name
        if mask & (DELETE | MOVED_FROM):
            if mask & MOVED_FROM and mask & IS_DIRECTORY:
                self._forget(path)
            return [Change("vanished", path)]
        if mask & (CREATE | MOVED_TO):
            return [Change("appeared", path), *(self._follow(path) if mask & IS_DIRECTORY else ())]
        return [Change("modified", path)] if not mask & IS_DIRECTORY else []

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
                self._source.drop(watch)
