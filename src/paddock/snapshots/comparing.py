"""What is different between two snapshots, or between one and what is there now."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from paddock.diffs import MOST_BYTES, Diff, unified
from paddock.dirs.protocol import Dir
from paddock.errors import ConfigError, ConflictError, visible
from paddock.snapshots.base import Base, Effective
from paddock.snapshots.bounds import Bounds, Work
from paddock.snapshots.entries import Entry, shown
from paddock.snapshots.restoring import check_base
from paddock.snapshots.store import Store, usual_work
from paddock.snapshots.surveying import Survey
from paddock.types.review import Change, ChangeOperation
from paddock.types.snapshots import Snapshot

_MOST_TEXT = 32 << 20
"""Characters of diffs in one answer; what is beyond has digests and no lines."""

_CANDIDATES = 100
"""Of the same content, looked through for one of the same name."""

Read = Callable[[Entry], bytes | None]


def diff(
    store: Store,
    a: Snapshot,
    b: Snapshot | None = None,
    *,
    dir: Dir | None = None,
    sandbox: str | None = None,
    base: Base | None = None,
    left_out: Collection[str] = (),
    bounds: Bounds | None = None,
    work: Work | None = None,
) -> list[Change]:
    """How `b` comes from `a`, by path; without `b`, how what is in `dir` now does. The same is an empty list.

    `sandbox` is whose directory it is, as for `restore`. Snapshots of a sandbox under review can be compared with those
    over the same host directory, given as `base`; what they do not hold is taken from there as it is now.
    """
    work = usual_work(work)
    for snapshot in (a, b):
        if snapshot is not None:
            check_base(snapshot, base)
    with store.reading(work):
        one = _Side(store.entries(a), _stored(store, a), a.base is not None)
        if b is not None:
            other = _Side(store.entries(b), _stored(store, b), b.base is not None)
        elif dir is not None:
            known = {} if sandbox is None else store.known(sandbox)
            over = base if one.partial else None
            found = Survey(dir, known, bounds or Bounds.usual(), work, left_out, base=over).run()
            other = _Side(found.entries, _current(dir), over is not None)
        else:
            raise ConfigError("There is nothing to compare it with.", hint="Give a second snapshot, or a directory.")
        if one.partial != other.partial:
            raise ConflictError(
                "One snapshot is whole, and the other holds only what differs from a host directory.",
                hint="Compare two of the same kind.",
            )
        if base is not None and one.partial:
            one, other = _completed(one, other, base, work)
        return _Comparison(one, other, left_out, work).changes()


@dataclass(frozen=True, slots=True)
class _Side:
    entries: dict[str, Entry]
    read: Read
    partial: bool
    """Whether it is only what differs from a host directory."""


def _stored(store: Store, snapshot: Snapshot) -> Read:
    def read(entry: Entry) -> bytes:
        data = store.blobs.checked(entry.digest)
        if data is None:
            raise store.spoilt(entry.digest, snapshot)
        return data

    return read


def _current(dir: Dir) -> Read:
    def read(entry: Entry) -> bytes | None:
        try:
            with dir.open(entry.path) as reader:
                return reader.read(MOST_BYTES) if reader.size == entry.size else None
        except OSError:
            return None  # it has changed since, and is shown without lines

    return read


def _completed(one: _Side, other: _Side, base: Base, work: Work) -> tuple[_Side, _Side]:
    """Both sides with what the host directory has, wherever one of them says something."""
    effective = [Effective(side.entries, base.lower, work) for side in (one, other)]
    paths = set(one.entries) | set(other.entries)
    for path in sorted(paths):
        if any((entry := side.entries.get(path)) and entry.kind != "directory" for side in (one, other)):
            paths.update(effective[0].within(path))
    lower = _current(base.lower)
    sides = []
    for side, whole in zip((one, other), effective, strict=True):
        entries = {path: entry for path in sorted(paths) if (entry := whole.at(path)) is not None}
        sides.append(_Side(entries, _either(side.read, lower, whole.from_lower), partial=False))
    return sides[0], sides[1]


def _either(stored: Read, lower: Read, from_lower: Collection[str]) -> Read:
    return lambda entry: lower(entry) if entry.path in from_lower else stored(entry)


class _Comparison:
    """Two sides, entry by entry."""

    def __init__(self, old: _Side, new: _Side, left_out: Collection[str], work: Work) -> None:
        self._old, self._new, self._left_out, self._work = old, new, left_out, work
        self._room = _MOST_TEXT

    def changes(self) -> list[Change]:
        """All of them, by path; where something took the place of another kind, its end comes first."""
        gone, made = self._only(self._old, self._new), self._only(self._new, self._old)
        renamed = _renamed(gone, made)
        found = [self._change("rename", old, new) for old, new in renamed]
        apart = {entry.path for pair in renamed for entry in pair}
        found += [self._change("delete", entry, None) for entry in gone if entry.path not in apart]
        found += [self._change("create", None, entry) for entry in made if entry.path not in apart]
        found += [self._changed(self._old.entries[entry.path], entry) for entry in self._different()]
        return sorted(found, key=lambda change: (change.path, change.operation != "delete"))

    def _only(self, here: _Side, there: _Side) -> list[Entry]:
        """What one side has and the other has not, or has as something else."""
        return [
            entry
            for path, entry in sorted(here.entries.items())
            if path not in there.entries or there.entries[path].kind != entry.kind
            if path.partition("/")[0] not in self._left_out
        ]

    def _different(self) -> list[Entry]:
        """What both sides have, and not as the same."""
        return [
            entry
            for path, entry in self._new.entries.items()
            if (old := self._old.entries.get(path)) is not None and old.kind == entry.kind and old != entry
            if path.partition("/")[0] not in self._left_out
        ]

    def _changed(self, old: Entry, new: Entry) -> Change:
        if new.kind == "link" or old.digest != new.digest:
            return self._change("update", old, new)
        return self._change("mode", old, new)

    def _change(self, operation: ChangeOperation, old: Entry | None, new: Entry | None) -> Change:
        self._work.spend(1)
        there = new or old
        if there is None or there.kind == "deleted":
            raise AssertionError("a change of nothing")
        is_link = there.kind == "link"
        lines = self._lines(old, new) if operation in ("create", "update", "delete") else None
        return Change(
            path=shown(there.path),
            operation="link" if is_link and new is not None else operation,
            kind=there.kind,
            size=there.size,
            sha256=there.digest or None,
            mode=None if new is None or is_link else new.mode,
            old_mode=None if old is None or is_link else old.mode,
            old_path=shown(old.path) if old is not None and operation == "rename" else None,
            target=there.target if is_link else None,
            diff=None if lines is None else lines.text,
            added=0 if lines is None else lines.added,
            removed=0 if lines is None else lines.removed,
        )

    def _lines(self, old: Entry | None, new: Entry | None) -> Diff | None:
        sides = [(self._old, old, "a"), (self._new, new, "b")]
        files = [entry for entry in (old, new) if entry is not None]
        if any(entry.kind != "file" or entry.size > MOST_BYTES for entry in files) or self._room <= 0:
            return None
        texts = [b"" if entry is None else side.read(entry) for side, entry, _ in sides]
        names = [None if entry is None else f"{letter}/{visible(entry.path)}" for _, entry, letter in sides]
        if texts[0] is None or texts[1] is None:
            return None
        lines = unified(texts[0], texts[1], *names)
        self._room -= 0 if lines is None else len(lines.text)
        return lines


def _renamed(gone: list[Entry], made: list[Entry]) -> list[tuple[Entry, Entry]]:
    """Files that are the same somewhere else: each with one, of the same name if there is one. Empty ones prove nothing."""
    by_digest: dict[str, list[Entry]] = {}
    for entry in gone:
        if entry.kind == "file" and entry.size:
            by_digest.setdefault(entry.digest, []).append(entry)
    pairs = []
    for entry in made:
        candidates = by_digest.get(entry.digest, []) if entry.kind == "file" else []
        if candidates:
            best = next((one for one in candidates[:_CANDIDATES] if _name(one) == _name(entry)), candidates[0])
            candidates.remove(best)
            pairs.append((best, entry))
    return pairs


def _name(entry: Entry) -> str:
    return entry.path.rpartition("/")[2]
