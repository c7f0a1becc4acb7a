"""Going through a workspace that may be in use: what is in it, with the digest of every content."""

import errno
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from paddock.dirs.protocol import Dir, Node, Reader, about
from paddock.dirs.stamps import changed_at
from paddock.errors import ConflictError, TooLargeError
from paddock.snapshots.base import MISSING, Base, look
from paddock.snapshots.blobs import hashed
from paddock.snapshots.bounds import LONG, Bounds, Unbounded, Work, weight
from paddock.snapshots.entries import Entry, join, quoted, shown

_TRIES = 5
_SETTLED = 20_000_000
"""Nanoseconds: a clock that is this far behind has moved on by now, on every kernel."""
_SECOND = 1_000_000_000
_COARSE = 2 * _SECOND + _SETTLED
"""The same where a file system keeps whole seconds, or every other."""
_MOVED = (*MISSING, errno.EISDIR, errno.ENXIO)

Known = dict[int, tuple[str, int]]
"""Digest and size by stamp."""
Keep = Callable[[Reader], tuple[str, int]]
"""What is done with a content that is read: its digest and size."""


def is_settled(stamp: int, looked: int) -> bool:
    """Whether a change after the moment of the look would have given another stamp: the clock has moved on since."""
    changed = changed_at(stamp)
    return changed < looked - (_SETTLED if changed % _SECOND else _COARSE)


@dataclass(slots=True)
class Survey:
    """Entries and stamps as they are found. With `keep` they are read into somewhere; else only hashed."""

    dir: Dir
    known: Known
    bounds: Bounds
    work: Work = field(default_factory=Unbounded)
    left_out: Collection[str] = ()
    """Names in the workspace itself that are none of our business."""
    keep: Keep | None = None
    base: Base | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    stamps: dict[str, int] = field(default_factory=dict)
    """Only those that say something the next time."""
    read: int = 0
    size: int = 0
    _weight: int = 0
    _pending: list[tuple[str, int]] = field(default_factory=list)

    def run(self) -> "Survey":
        """All of it, or what differs from the base."""
        if self.base is None:
            self._everything()
        else:
            self._changed(self.base)
        return self

    def _everything(self) -> None:
        self._pending.append(("", 0))
        while self._pending:
            here, depth = self._pending.pop()
            if depth > self.bounds.depth:
                raise _deep(here)
            looked = time.time_ns()
            for node in self._listed(here):
                if here or node.name not in self.left_out:
                    self._note(join(here, node.name), node, looked, depth)

    def _changed(self, base: Base) -> None:
        for path in sorted({path for path, _ in base.changed()}):
            if path.partition("/")[0] not in self.left_out:
                self.work.spend(1)
                self._look_again(path, path.count("/"))

    def _listed(self, path: str) -> list[Node]:
        try:
            nodes = self.dir.list(path, stats=True)
        except OSError as error:
            if path and error.errno in MISSING:
                self.entries.pop(path, None)
                return []
            raise (_deep(path) if error.errno == errno.ENAMETOOLONG else about(error, shown(path))) from None
        self.work.spend(len(nodes))
        return nodes

    def _note(self, path: str, node: Node, looked: int, depth: int) -> None:
        if node.kind == "file":
            self._file(path, node, looked, depth)
        elif node.kind == "directory":
            self._add(Entry(path, "directory", node.mode & 0o777))
            self._pending.append((path, depth + 1))
        elif node.kind == "link":
            self._add(Entry(path, "link", target=node.target or ""))

    def _look_again(self, path: str, depth: int) -> None:
        looked = time.time_ns()
        node = look(self.dir, path)
        if node is not None:
            self._note(path, node, looked, depth)
        elif self.base is not None and look(self.base.lower, path) is not None:
            self._add(Entry(path, "deleted"))

    def _file(self, path: str, node: Node, looked: int, depth: int) -> None:
        found = self._by_stamp(node, looked)
        if found is not None:
            self._add_file(path, node, found, looked)
            return
        for _ in range(_TRIES):
            if self.size + node.size > self.bounds.size:
                raise _large(self.bounds)
            digest = self._content(path, node)
            if digest is not None:
                self.read += 1
                self._add_file(path, node, digest, looked)
                return
            self.work.spend()
            looked = time.time_ns()
            again = look(self.dir, path)
            if again is None or again.kind != "file":
                self._look_again(path, depth)
                return
            node = again
        raise ConflictError(
            f"{quoted(path)} changes all the time: it was not the same for the length of one look.",
            path=shown(path),
            hint="Wait for the command that writes it, or end it, and try again.",
        )

    def _by_stamp(self, node: Node, looked: int) -> str | None:
        if node.stamp is None or not is_settled(node.stamp, looked):
            return None
        digest, size = self.known.get(node.stamp, ("", -1))
        return digest if size == node.size else None

    def _content(self, path: str, node: Node) -> str | None:
        """The digest of a file, or None if it was not the same file before and after."""
        try:
            with self.dir.open(path) as reader:
                if reader.stamp != node.stamp or reader.size != node.size:
                    return None
                digest, size = self.keep(reader) if self.keep else hashed(reader, self.work)
            after = self.dir.stat(path)
        except OSError as error:
            if error.errno in _MOVED:
                return None
            raise about(error, shown(path)) from None
        return digest if size == node.size and after == node else None

    def _add_file(self, path: str, node: Node, digest: str, looked: int) -> None:
        self._add(Entry(path, "file", node.mode & 0o777, node.size, digest))
        if node.stamp is not None and is_settled(node.stamp, looked):
            self.stamps[path] = node.stamp

    def _add(self, entry: Entry) -> None:
        self.entries[entry.path] = entry
        self.size += entry.size
        self._weight += weight(entry.path) + len(entry.target) // LONG
        if self._weight > self.bounds.entries:
            raise TooLargeError(
                f"There are more than {self.bounds.entries:,} files and directories in the workspace.",
                hint="Remove some, or set PADDOCK_SNAPSHOT_ENTRIES.",
            )
        if self.size > self.bounds.size:
            raise _large(self.bounds)


def _large(bounds: Bounds) -> TooLargeError:
    return TooLargeError(
        f"The files in the workspace come to more than {bounds.size:,} bytes.",
        hint="Remove some, or set PADDOCK_SNAPSHOT_SIZE.",
    )


def _deep(path: str) -> TooLargeError:
    return TooLargeError(
        f"The directory {quoted(path)[:120]}… lies too deep for a snapshot.", path=shown(path), hint="Remove it."
    )
