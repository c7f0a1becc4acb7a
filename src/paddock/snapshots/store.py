"""Where snapshots are: contents, lists of entries, and a small record for each, whose appearing makes it one.

| below `snapshots` | what |
| --- | --- |
| `index/ID.json` | the record of a snapshot, with the digest of its list |
| `entries/ID.json` | what is in it |
| `blobs/ab/cdef…` | contents, by their SHA-256 |
| `stamps/SANDBOX.json` | how files looked when their sandbox's last snapshot was taken |
| `new` | what is being written, and a mark for everybody who writes |
| `lock` | held shared by all who use contents, and alone by those who take unused ones away |
| `gate` | held by those for as long as they wait, so that nobody else begins |
| `names` | held for the moment in which a name is given |
"""

import json
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from secrets import token_hex

from paddock.errors import ConfigError, ExistsError, NotFoundError, SandboxError, visible
from paddock.snapshots.blobs import Blobs, on_host
from paddock.snapshots.bounds import Retention, Unbounded, Work
from paddock.snapshots.entries import Entry, decoded, digests, encoded
from paddock.snapshots.locks import held, held_soon
from paddock.snapshots.surveying import Known
from paddock.state import private, state_directory
from paddock.types.record import Record
from paddock.types.snapshots import Snapshot, SnapshotShare, SnapshotSpace

VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ID = re.compile(r"sn-[0-9a-f]{12}")
_COLLECT_EVERY = 3600
"""Seconds between two collections that nobody asked for: each looks at every list there is."""
_PATIENCE = 1.0


@dataclass(frozen=True, slots=True)
class _Kept(Record):
    """A snapshot's record on disk."""

    snapshot: Snapshot
    digest: str
    """Of its list of entries."""
    version: int = VERSION


class Store:
    """The snapshots of one state directory, those of all sandboxes. Several processes may use it at the same time."""

    def __init__(self, path: Path | None = None) -> None:
        self._root = private(state_directory() / "snapshots" if path is None else path)
        for name in ("index", "entries", "blobs", "stamps", "new"):
            private(self._root / name)
        self.blobs = Blobs(self._root / "blobs", self._root / "new")

    def snapshots(self, sandbox: str | None = None) -> list[Snapshot]:
        """All of them, or those of one sandbox; the oldest first."""
        found = [kept.snapshot for kept in self._all() if sandbox in (None, kept.snapshot.sandbox)]
        return sorted(found, key=lambda snapshot: (snapshot.created, snapshot.id))

    def find(self, id_or_name: str, sandbox: str | None = None) -> Snapshot:
        """The one with this id, or the one that the sandbox gave this name."""
        if _ID.fullmatch(id_or_name):
            kept = self._kept(id_or_name)
            if kept is not None:
                return kept.snapshot
        named = [one for one in self.snapshots(sandbox) if one.name == id_or_name] if sandbox is not None else []
        if not named:
            raise NotFoundError(
                f"There is no snapshot '{visible(id_or_name)}'.", hint="snapshots() lists those that there are."
            )
        return named[0]

    def remove(self, id: str, *, collect: bool = True) -> None:
        """Remove a snapshot, one that is damaged too, and unless somebody works here the contents that only it had."""
        path = self._root / "index" / f"{id}.json"
        if not _ID.fullmatch(id) or not path.exists():
            raise NotFoundError(
                f"There is no snapshot '{visible(id)}'.", hint="snapshots() lists those that there are."
            )
        self._forget(id)
        if collect:
            self.collect(_PATIENCE)

    def expire(self, retention: Retention | None = None, *, now: float | None = None) -> list[Snapshot]:
        """Remove what is not to be kept any longer, by the settings if nothing is given. What was removed."""
        keep = Retention.usual() if retention is None else retention
        now = time.time() if now is None else now
        removed, count = [], dict[str, int]()
        for snapshot in reversed(self.snapshots()):
            if snapshot.name is not None:
                continue
            count[snapshot.sandbox] = count.get(snapshot.sandbox, 0) + 1
            old = keep.seconds is not None and snapshot.created < now - keep.seconds
            if old or (keep.count is not None and count[snapshot.sandbox] > keep.count):
                self._forget(snapshot.id)
                removed.append(snapshot)
        if removed and self._collected_at() < now - _COLLECT_EVERY:
            self.collect()
        return removed

    def collect(self, seconds: float = 0.0) -> int:
        """Remove contents that nobody uses, and what killed processes left: how many bytes.

        Nothing is removed while somebody takes or restores a snapshot, nor while a list of entries cannot be read. For so
        many seconds nobody else begins, so that those who are at it come to their end.
        """
        with held_soon(self._root / "gate", seconds), held_soon(self._root / "lock", seconds) as alone:
            if not alone:
                with suppress(OSError):
                    (self._root / "new" / "mark-collect").touch(0o600)
                return 0
            _empty(self._root / "new")
            used = self._used()
            if any(digests is None for digests in used.values()):
                return 0
            return self._collect(set[str]().union(*(digests or () for digests in used.values())))

    def recover(self) -> None:
        """Collect if somebody was killed here."""
        if os.listdir(self._root / "new"):
            self.collect()

    def space(self) -> SnapshotSpace:
        """What they take up, together and each."""
        sizes = dict(self.blobs.all())
        used = {id: found for id, found in self._used().items() if found is not None}
        users: dict[str, int] = {}
        for found in used.values():
            for digest in found:
                users[digest] = users.get(digest, 0) + 1
        shares = []
        for snapshot in self.snapshots():
            mine = [(users[digest], sizes.get(digest, 0)) for digest in used.get(snapshot.id, ())]
            own = sum(size for count, size in mine if count == 1)
            shares.append(SnapshotShare(snapshot.id, own, sum(size for count, size in mine if count > 1)))
        lists = sum(
            path.stat().st_size for name in ("index", "entries", "stamps") for path in _files(self._root / name)
        )
        return SnapshotSpace(
            total=sum(sizes.values()) + lists,
            unused=sum(size for digest, size in sizes.items() if digest not in users),
            snapshots=tuple(shares),
            damaged=tuple(sorted(set(self._ids()) - set(used))),
        )

    def entries(self, snapshot: Snapshot) -> dict[str, Entry]:
        """What is in a snapshot, by path. One whose list was changed on the disk is an error."""
        kept = self._kept(snapshot.id)
        if kept is None:
            raise NotFoundError(
                f"The snapshot {snapshot.id} was removed.", hint="snapshots() lists those that there are."
            )
        data = self._list(kept)
        if data is None:
            raise damaged(snapshot)
        return {entry.path: entry for entry in decoded(data)}

    @contextmanager
    def reading(self, work: Work) -> Iterator[None]:
        """A block in which no content is taken away."""
        with ExitStack() as stack:
            with held(self._root / "gate", work, shared=True):
                stack.enter_context(held(self._root / "lock", work, shared=True))
            yield

    @contextmanager
    def writing(self, work: Work) -> Iterator[None]:
        """The same for who adds contents. A mark tells later that it did not come to its end, if it does not."""
        with self.reading(work):
            mark = self._root / "new" / f"mark-{token_hex(8)}"
            with on_host():
                mark.touch(0o600)
            try:
                yield
            finally:
                mark.unlink(missing_ok=True)

    def check_name(self, sandbox: str, name: str | None) -> None:
        """Refuse a name that cannot be one, or that the sandbox has given already."""
        if name is None:
            return
        if not isinstance(name, str) or not _NAME.fullmatch(name) or _ID.fullmatch(name):
            raise ConfigError(
                f"{visible(repr(name)[:80])} cannot be the name of a snapshot.",
                hint="Use up to 64 letters, digits, '-' and '_', and not the form of an id.",
            )
        for snapshot in self.snapshots(sandbox):
            if snapshot.name == name:
                raise ExistsError(
                    f"There is a snapshot named '{name}' already: {snapshot.id}.",
                    hint="Choose another name, or remove that one.",
                )

    def add(self, snapshot: Snapshot, entries: Iterable[Entry], stamps: dict[str, int], work: Work) -> None:
        """Keep a snapshot whose contents are there. It is there when this returns, and not before."""
        ordered = sorted(entries)
        data = encoded(ordered)
        record = _Kept(snapshot, sha256(data).hexdigest())
        self._write("entries", snapshot.id, data)
        try:
            with held(self._root / "names", work, shared=False):
                self.check_name(snapshot.sandbox, snapshot.name)
                self._write("index", snapshot.id, json.dumps(record.to_dict()).encode())
        except BaseException:
            self._path("entries", snapshot.id).unlink(missing_ok=True)
            raise
        kept = {"snapshot": snapshot.id, "stamps": [stamps.get(entry.path, 0) for entry in ordered]}
        with suppress(SandboxError):  # then the next one reads more
            self._write("stamps", _file_name(snapshot.sandbox), json.dumps(kept, separators=(",", ":")).encode())

    def known(self, sandbox: str) -> Known:
        """Contents by stamp, from the last snapshot of a sandbox. Only inside `reading` or `writing`: they are kept there."""
        try:
            found = json.loads(self._path("stamps", _file_name(sandbox)).read_bytes())
            kept = self._kept(found["snapshot"])
            data = None if kept is None else self._list(kept)
            if data is None:
                return {}
            pairs = zip(found["stamps"], decoded(data), strict=True)
            return {stamp: (entry.digest, entry.size) for stamp, entry in pairs if stamp}
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def spoilt(self, digest: str, snapshot: Snapshot) -> SandboxError:
        """The error for a content that is not what it should be. It is taken away, so that a new one can take its place."""
        with suppress(OSError):
            for path in _files(self._root / "stamps"):
                path.unlink(missing_ok=True)  # whoever trusts them would not read the file again
            self.blobs.remove(digest)
        return damaged(snapshot)

    def _collect(self, used: set[str]) -> int:
        freed, ids = 0, set(self._ids())
        for digest, size in list(self.blobs.all()):
            if digest not in used:
                self.blobs.remove(digest)
                freed += size
        for path in _files(self._root / "entries"):
            if path.stem not in ids:
                path.unlink(missing_ok=True)
        for path in _files(self._root / "stamps"):
            with suppress(OSError, ValueError, KeyError, TypeError):
                if json.loads(path.read_bytes())["snapshot"] not in ids:
                    path.unlink(missing_ok=True)
        with suppress(OSError):
            (self._root / "collected").touch(0o600)
        return freed

    def _collected_at(self) -> float:
        try:
            return (self._root / "collected").stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def _used(self) -> dict[str, set[str] | None]:
        """The contents of each snapshot by its id; None where that cannot be told."""
        used: dict[str, set[str] | None] = {}
        for id in self._ids():
            kept = self._kept(id)
            data = None if kept is None else self._list(kept)
            used[id] = None if data is None else digests(data)
        return used

    def _ids(self) -> list[str]:
        return [path.stem for path in _files(self._root / "index")]

    def _all(self) -> Iterator[_Kept]:
        for id in self._ids():
            kept = self._kept(id)
            if kept is not None:
                yield kept

    def _kept(self, id: str) -> _Kept | None:
        try:
            data = json.loads(self._path("index", id).read_bytes())
            return _Kept.from_dict(data) if data["version"] == VERSION else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _list(self, kept: _Kept) -> bytes | None:
        """The list of a snapshot, if it is what it was."""
        try:
            data = self._path("entries", kept.snapshot.id).read_bytes()
        except OSError:
            return None
        return data if sha256(data).hexdigest() == kept.digest else None

    def _forget(self, id: str) -> None:
        with on_host():
            self._path("index", id).unlink(missing_ok=True)
            self._path("entries", id).unlink(missing_ok=True)

    def _path(self, kind: str, name: str) -> Path:
        return self._root / kind / f"{name}.json"

    def _write(self, kind: str, name: str, data: bytes) -> None:
        beside = self._root / "new" / token_hex(8)
        try:
            with on_host():
                fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                with os.fdopen(fd, "wb") as file:
                    file.write(data)
                os.rename(beside, self._path(kind, name))
        except BaseException:
            beside.unlink(missing_ok=True)
            raise


def new_id() -> str:
    """An id that no snapshot has."""
    return f"sn-{token_hex(6)}"


def usual_work(work: Work | None) -> Work:
    """What was given, or nobody."""
    return Unbounded() if work is None else work


def damaged(snapshot: Snapshot) -> SandboxError:
    """The error for a snapshot that the disk, or somebody, has changed."""
    name = f" '{snapshot.name}'" if snapshot.name else ""
    return SandboxError(
        f"The snapshot {snapshot.id}{name} is damaged: a content of it is not what it was. Nothing was changed.",
        hint="Use another snapshot, or remove it and take a new one.",
    )


def _file_name(sandbox: str) -> str:
    """For whatever a sandbox is called."""
    return sandbox if _NAME.fullmatch(sandbox) else sha256(sandbox.encode("utf-8", "surrogatepass")).hexdigest()


def _files(directory: Path) -> list[Path]:
    return [path for path in directory.iterdir() if path.suffix == ".json"]


def _empty(directory: Path) -> None:
    for path in directory.iterdir():
        path.unlink(missing_ok=True)
