"""Sandboxes under review: a snapshot holds what differs from a host directory, and that directory says the rest."""

import errno
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from paddock.dirs.protocol import Dir, Node, about
from paddock.snapshots.blobs import hashed
from paddock.snapshots.bounds import Work
from paddock.snapshots.entries import Entry, join, shown
from paddock.types.files import Kind

MISSING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""What there is to say about a path when nothing is there, or something else in the way."""

Delta = Iterable[tuple[str, Kind | None]]
"""The relative paths that differ from the host directory, each with what is there now, None for nothing.

A directory that is new or gone is named, and everything in a new one; what was in one that is gone goes without saying. Where
a directory was removed and made again, what was in the old one and is not in the new one is named as gone.
"""


@dataclass(frozen=True, slots=True)
class Base:
    """The host directory under a sandbox, and how to find what differs from it without going through it."""

    path: str
    lower: Dir
    """The host directory, to read from. Nothing is ever written there."""
    changed: Callable[[], Delta]


def look(directory: Dir, path: str) -> Node | None:
    """What is there, or None."""
    try:
        return directory.stat(path)
    except OSError as error:
        if error.errno in MISSING:
            return None
        raise about(error, shown(path)) from None


def below(directory: Dir, path: str, work: Work) -> Iterator[tuple[str, Node]]:
    """Everything below a directory, outermost first. What vanishes meanwhile is left out."""
    pending = [path]
    while pending:
        here = pending.pop()
        try:
            nodes = directory.list(here, stats=True)
        except OSError as error:
            if error.errno in MISSING:
                continue
            raise about(error, shown(here)) from None
        work.spend(len(nodes))
        for node in nodes:
            child = join(here, node.name)
            yield child, node
            if node.kind == "directory":
                pending.append(child)


class Effective:
    """What a snapshot of a sandbox under review means: its own entries, and elsewhere the host directory's."""

    def __init__(self, entries: dict[str, Entry], lower: Dir, work: Work) -> None:
        self._entries = entries
        self._lower = lower
        self._work = work
        self.from_lower: set[str] = set()
        """The paths of those whose content is to be read from the host directory."""

    def at(self, path: str) -> Entry | None:
        """What the snapshot has at a path; None is nothing."""
        entry = self._entries.get(path)
        if entry is not None:
            return None if entry.kind == "deleted" else entry
        return None if self._is_cut_off(path) else self._of_lower(path)

    def within(self, path: str) -> list[str]:
        """The paths of the host directory below one that it has as a directory."""
        node = look(self._lower, path)
        if node is None or node.kind != "directory":
            return []
        return [child for child, _ in below(self._lower, path, self._work)]

    def _is_cut_off(self, path: str) -> bool:
        """Whether the host directory says nothing here, since something else is in the way."""
        while path:
            path = path.rpartition("/")[0]
            above = self._entries.get(path)
            if above is not None:
                return above.kind != "directory"
        return False

    def _of_lower(self, path: str) -> Entry | None:
        node = look(self._lower, path)
        if node is None or node.kind == "other":
            return None
        if node.kind == "link":
            return Entry(path, "link", target=node.target or "")
        if node.kind == "directory":
            return Entry(path, "directory", node.mode)
        try:
            with self._lower.open(path) as reader:
                digest, size = hashed(reader, self._work)
        except OSError as error:
            raise about(error, shown(path)) from None
        self.from_lower.add(path)
        return Entry(path, "file", node.mode, size, digest)
