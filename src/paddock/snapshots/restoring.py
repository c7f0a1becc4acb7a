"""Making a workspace what a snapshot says.

What only adds is done first, and undone if it fails: new directories and files, and new contents beside the old ones. Then
old contents give way, and what the snapshot does not have is removed. A failure there leaves something between the old and
the new, says so, and doing it again ends it.
"""

import errno
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from paddock.dirs.names import temporary_name
from paddock.dirs.protocol import Chmod, Dir, Node, Write, about
from paddock.errors import ConflictError, SandboxError
from paddock.snapshots.base import MISSING, Base, Effective, look
from paddock.snapshots.blobs import hashed
from paddock.snapshots.bounds import Work, weight
from paddock.snapshots.contents import SMALL, Contents
from paddock.snapshots.entries import Entry, join, quoted, shown
from paddock.snapshots.planning import Plan, planned
from paddock.snapshots.store import Store, usual_work
from paddock.snapshots.surveying import Known, is_settled
from paddock.types.record import Record
from paddock.types.snapshots import Snapshot

_OWNER = 0o700
_TOGETHER = 256
_BYTES_TOGETHER = 4 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT)
_CLOSED = (errno.EACCES, errno.EPERM)


@dataclass(frozen=True, slots=True)
class Restored(Record):
    """What a restore did; all that was as in the snapshot is in neither number."""

    written: int
    """Files, directories and links that were made or replaced."""
    removed: int
    """Things that were not in the snapshot, each with all that was in it."""


def restore(
    dir: Dir,
    store: Store,
    snapshot: Snapshot,
    *,
    sandbox: str | None = None,
    base: Base | None = None,
    left_out: Collection[str] = (),
    work: Work | None = None,
) -> Restored:
    """Make what is in `dir` exactly what is in the snapshot. In an empty directory that is a fork.

    `sandbox` is whose directory it is: files that have not changed since its last snapshot are then not read. A snapshot of
    a sandbox under review needs one over the same host directory, given as `base`; another is a ConflictError. A
    snapshot that is damaged is an error before anything is changed. What was in the directory is not kept: take a
    snapshot before, if it is wanted.
    """
    work = usual_work(work)
    check_base(snapshot, base)
    with store.reading(work):
        entries = _without(store.entries(snapshot), left_out)
        known = {} if sandbox is None else store.known(sandbox)
        look_at = _Look(dir, known, work, left_out)
        if snapshot.base is None or base is None:
            wanted, current, contents = entries, look_at.everything(), Contents(store, snapshot, work)
        else:
            wanted, current, from_lower = look_at.changed(entries, base)
            contents = Contents(store, snapshot, work, base.lower, from_lower)
        if not isinstance(dir, Chmod):
            wanted = {path: _open(entry) for path, entry in wanted.items()}
        plan = planned(wanted, current, look_at.is_same)
        contents.verify(plan.files())
        return _Restore(dir, snapshot, contents, plan, current, work).run()


def check_base(snapshot: Snapshot, base: Base | None) -> None:
    """Refuse a snapshot that holds only the difference to another host directory."""
    if snapshot.base is None or (base is not None and base.path == snapshot.base):
        return
    raise ConflictError(
        f"The snapshot {snapshot.id} holds only what differs from the host directory it was taken over, "
        "and this sandbox does not lie over that one.",
        hint="Use it in a sandbox with review=True over the same directory.",
    )


def _without(entries: dict[str, Entry], left_out: Collection[str]) -> dict[str, Entry]:
    if not left_out:
        return entries
    return {path: entry for path, entry in entries.items() if path.partition("/")[0] not in left_out}


def _open(entry: Entry) -> Entry:
    """A directory whose owner may use it: where modes cannot be changed afterwards, nothing else can be filled."""
    return entry._replace(mode=entry.mode | _OWNER) if entry.kind == "directory" else entry


class _Look:
    """What is in the directory now, as far as it matters."""

    def __init__(self, dir: Dir, known: Known, work: Work, left_out: Collection[str]) -> None:
        self._dir, self._known, self._work, self._left_out = dir, known, work, left_out
        self._looked = time.time_ns()

    def everything(self) -> dict[str, Node]:
        """All of it, by path."""
        found: dict[str, Node] = {}
        pending = [""]
        while pending:
            here = pending.pop()
            nodes = self._listed(here)
            if nodes is None:
                found[here] = found[here]._replace(kind="other")  # nobody can look into it: it is replaced as a whole
                continue
            self._work.spend(len(nodes) * weight(here))
            for node in nodes:
                path = join(here, node.name)
                if path in self._left_out:
                    continue
                found[path] = node
                if node.kind == "directory":
                    pending.append(path)
        return found

    def changed(
        self, entries: dict[str, Entry], base: Base
    ) -> tuple[dict[str, Entry], dict[str, Node], Collection[str]]:
        """Of a sandbox under review: what is wanted and what is there, where either differs from the host directory."""
        effective = Effective(entries, base.lower, self._work)
        paths = {path for path, _ in base.changed() if path.partition("/")[0] not in self._left_out} | set(entries)
        current = {path: node for path in paths if (node := look(self._dir, path)) is not None}
        for path in sorted(paths):
            node, entry = current.get(path), entries.get(path)
            if (node is None or node.kind != "directory") and (entry is None or entry.kind == "directory"):
                paths.update(effective.within(path))  # it comes back with what the host has in it
        wanted = {path: entry for path in sorted(paths) if (entry := effective.at(path)) is not None}
        return wanted, current, effective.from_lower

    def is_same(self, entry: Entry, node: Node) -> bool:
        """Whether nothing has to be done about a file or link."""
        if entry.kind == "link":
            return entry.target == node.target
        if entry.size != node.size or entry.mode != node.mode:
            return False
        if node.stamp is not None and is_settled(node.stamp, self._looked) and node.stamp in self._known:
            return self._known[node.stamp] == (entry.digest, entry.size)
        return self._digest(entry.path) == entry.digest

    def _digest(self, path: str) -> str | None:
        try:
            with self._dir.open(path) as reader:
                return hashed(reader, self._work)[0]
        except OSError:
            return None  # whatever it is: it will be replaced

    def _listed(self, path: str) -> list[Node] | None:
        try:
            nodes = self._dir.list(path, stats=True)
        except OSError as error:
            if path and error.errno in MISSING:
                return []
            if path and error.errno in _CLOSED:
                return None
            raise about(error, shown(path)) from None
        if isinstance(self._dir, Chmod):
            return nodes
        return [_as_closed(node) for node in nodes]


def _as_closed(node: Node) -> Node:
    """Where modes cannot be changed, a directory that its owner cannot use is replaced as a whole."""
    closed = node.kind == "directory" and node.mode & _OWNER != _OWNER
    return node._replace(kind="other") if closed else node


class _Restore:
    """The work itself."""

    def __init__(
        self, dir: Dir, snapshot: Snapshot, contents: Contents, plan: Plan, current: dict[str, Node], work: Work
    ) -> None:
        self._dir, self._snapshot, self._contents = dir, snapshot, contents
        self._plan, self._current, self._work = plan, current, work
        self._modes = dict(plan.modes)
        self._unlocked: dict[str, int] = {}
        self._added: list[str] = []
        self._beside: list[tuple[str, str]] = []

    def run(self) -> Restored:
        plan = self._plan
        done = Restored(
            len(plan.make) + len(plan.new) + len(plan.replace) + len(plan.later) + len(plan.modes), len(plan.remove)
        )
        try:
            self._add()
        except OSError as error:
            if error.errno not in _FULL or not plan.remove:
                raise
            with self._half_done():  # it may fit when what is not wanted is gone
                self._unlock()
                self._remove()
                self._add()
        with self._half_done():
            self._replace()
            self._remove()
            self._set_modes(self._modes)
        return done

    def _unlock(self) -> None:
        """Let directories be changed that their owner closed; they get their modes in the end."""
        if isinstance(self._dir, Chmod):
            for path in sorted(self._plan.touched() - {entry.path for entry in self._plan.make}):
                node = self._current.get(path) or look(
                    self._dir, path
                )  # under review, what is as on the host is not listed
                if path and node is not None and node.kind == "directory" and node.mode & _OWNER != _OWNER:
                    with _about(path):
                        self._dir.chmod(path, node.mode | _OWNER)
                    self._unlocked[path] = node.mode
                    self._modes.setdefault(path, node.mode)

    def _add(self) -> None:
        try:
            self._unlock()
            self._make(self._plan.make)
            self._put(self._plan.new)
            for entry in self._plan.replace:
                self._put_beside(entry)
        except BaseException:
            self._undo()
            raise

    def _undo(self) -> None:
        for path in (*(beside for beside, _ in self._beside), *reversed(self._added)):
            with suppress(OSError):
                self._dir.remove(path)
        self._added, self._beside = [], []
        with suppress(OSError):
            self._set_modes(self._unlocked)

    def _replace(self) -> None:
        while self._beside:
            beside, path = self._beside[-1]
            with _about(path):
                self._dir.rename(beside, path, replace=True)
            self._beside.pop()
        for path in self._plan.clear:
            self._take_away(path)
        self._make([entry for entry in self._plan.later if entry.kind == "directory"])
        self._put([entry for entry in self._plan.later if entry.kind != "directory"])

    def _remove(self) -> None:
        for path in self._plan.remove:
            self._take_away(path)
        self._plan.remove = []

    def _take_away(self, path: str) -> None:
        self._work.spend(1)
        with suppress(FileNotFoundError), _about(path):
            self._dir.remove(path, tree=True)

    def _make(self, entries: list[Entry]) -> None:
        for entry in entries:
            self._work.spend(1)
            with _about(entry.path):
                self._dir.mkdir(entry.path, entry.mode | _OWNER)
            self._added.append(entry.path)
            if entry.mode & _OWNER != _OWNER:
                self._modes[entry.path] = entry.mode

    def _put(self, entries: list[Entry]) -> None:
        """Files and links where nothing is."""
        for entry in entries:
            if entry.kind == "link":
                self._link(entry.path, entry)
            elif entry.size > SMALL:
                self._write_large(entry.path, entry)
        for batch in _batches([entry for entry in entries if entry.kind == "file" and entry.size <= SMALL]):
            self._work.spend(len(batch))
            self._put_together(batch)

    def _put_together(self, batch: list[Entry]) -> None:
        writes = [Write(entry.path, self._contents.small(entry), entry.mode) for entry in batch]
        try:
            stage = self._dir.stage(writes)
            try:
                stage.commit()
            finally:
                stage.finish()
        except OSError as error:
            raise about(error, shown(error.filename or batch[0].path)) from None
        self._added.extend(entry.path for entry in batch)

    def _put_beside(self, entry: Entry) -> None:
        beside = join(entry.path.rpartition("/")[0], temporary_name().decode())
        self._work.spend(1)
        self._beside.append((beside, entry.path))
        if entry.kind == "link":
            self._link(beside, entry)
        elif entry.size > SMALL:
            self._write_large(beside, entry)
        else:
            with _about(entry.path):
                self._dir.write(beside, self._contents.small(entry), entry.mode)

    def _write_large(self, path: str, entry: Entry) -> None:
        with _about(entry.path), self._contents.large(entry) as parts:
            self._dir.write(path, parts, entry.mode)
        self._added.append(path)

    def _link(self, path: str, entry: Entry) -> None:
        with _about(entry.path):
            self._dir.link(path, entry.target)
        self._added.append(path)

    def _set_modes(self, modes: dict[str, int]) -> None:
        for path, mode in sorted(modes.items(), reverse=True):
            with _about(path):
                if isinstance(self._dir, Chmod):
                    self._dir.chmod(path, mode)
                else:
                    _exchange_directory(self._dir, path, mode)

    @contextmanager
    def _half_done(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            for beside, _ in self._beside:
                with suppress(OSError):
                    self._dir.remove(beside)
            if not isinstance(error, OSError) or isinstance(error, SandboxError):
                raise
            path = str(error.filename or "")
            raise ConflictError(
                f"The workspace is only partly as in the snapshot {self._snapshot.id}: "
                f"{quoted_path(path)} could not be put back ({error.strerror}).",
                path=path,
                hint="The snapshot is whole: see to the reason, and restore it again.",
            ) from error


def quoted_path(path: str) -> str:
    """A path of the sandbox as people read it."""
    return quoted(path.removeprefix(shown("")).lstrip("/"))


def _exchange_directory(dir: Dir, path: str, mode: int) -> None:
    """A new directory of that mode takes the place, and all that is in it, of an old one."""
    beside = join(path.rpartition("/")[0], temporary_name().decode())
    dir.mkdir(beside, mode)
    for node in dir.list(path, stats=False):
        dir.rename(join(path, node.name), join(beside, node.name), replace=False)
    dir.remove(path)
    dir.rename(beside, path, replace=False)


def _batches(entries: list[Entry]) -> Iterator[list[Entry]]:
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        if batch and (len(batch) >= _TOGETHER or size + entry.size > _BYTES_TOGETHER):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += entry.size
    if batch:
        yield batch


@contextmanager
def _about(path: str) -> Iterator[None]:
    try:
        yield
    except SandboxError:
        raise
    except OSError as error:
        raise about(error, shown(path)) from None
