"""The contents that a restore needs: from the store, or from the host directory under a sandbox."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from paddock.dirs.protocol import Dir, Reader
from paddock.snapshots.blobs import PIECE, on_host, pieces
from paddock.snapshots.bounds import Work
from paddock.snapshots.entries import Entry
from paddock.snapshots.store import Store
from paddock.types.snapshots import Snapshot

SMALL = PIECE
_REMEMBERED = 64 << 20
"""Bytes of small contents that are not read twice, once to check them and once to use them."""


class Contents:
    """Where the content of each entry comes from."""

    def __init__(
        self, store: Store, snapshot: Snapshot, work: Work, lower: Dir | None = None, from_lower: Collection[str] = ()
    ) -> None:
        self._store, self._snapshot, self._work = store, snapshot, work
        self._lower, self._from_lower = lower, from_lower
        self._remembered: dict[str, bytes] = {}
        self._room = _REMEMBERED

    def verify(self, entries: Iterable[Entry]) -> None:
        """Read all that the store has of them; one that is not what it was is an error that names the snapshot."""
        seen: set[str] = set()
        for entry in entries:
            if entry.path in self._from_lower or entry.digest in seen:
                continue
            seen.add(entry.digest)
            if not self._is_whole(entry):
                raise self._store.spoilt(entry.digest, self._snapshot)

    def small(self, entry: Entry) -> bytes:
        """The whole content."""
        if entry.path in self._from_lower:
            return b"".join(self._read_lower(entry.path))
        found = self._remembered.get(entry.digest)
        if found is None:
            with on_host("read"):
                found = self._store.blobs.read(entry.digest)
        return found

    @contextmanager
    def large(self, entry: Entry) -> Iterator[Iterator[bytes]]:
        """The content in parts. What they come from is open before the first: others may ask for them as somebody else."""
        if self._lower is not None and entry.path in self._from_lower:
            with self._lower.open(entry.path) as reader:
                yield self._counted(_parts(reader))
        else:
            with self._store.blobs.opened(entry.digest) as fd:
                yield self._counted(pieces(fd))

    def _is_whole(self, entry: Entry) -> bool:
        with on_host("read"):
            if entry.size > min(SMALL, self._room):
                return self._store.blobs.is_whole(entry.digest, self._work)
            data = self._store.blobs.checked(entry.digest)
        if data is not None:
            self._work.spend(size=len(data))
            self._room -= len(data)
            self._remembered[entry.digest] = data
        return data is not None

    def _read_lower(self, path: str) -> Iterator[bytes]:
        if self._lower is not None:
            with self._lower.open(path) as reader:
                yield from self._counted(_parts(reader))

    def _counted(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        for part in parts:
            self._work.spend(size=len(part))
            yield part


def _parts(reader: Reader) -> Iterator[bytes]:
    while part := reader.read(PIECE):
        yield part
