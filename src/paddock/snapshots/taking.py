"""Taking a snapshot: what is new is read and kept, and a list says what was there."""

import time
from collections.abc import Collection
from contextlib import suppress

from paddock.dirs.protocol import Dir, Reader
from paddock.errors import SandboxError
from paddock.snapshots.base import Base
from paddock.snapshots.blobs import Blobs
from paddock.snapshots.bounds import Bounds, Retention, Work
from paddock.snapshots.store import Store, new_id, usual_work
from paddock.snapshots.surveying import Survey
from paddock.types.snapshots import Snapshot


def take(
    dir: Dir,
    store: Store,
    sandbox: str,
    name: str | None = None,
    *,
    base: Base | None = None,
    left_out: Collection[str] = (),
    read_all: bool = False,
    bounds: Bounds | None = None,
    work: Work | None = None,
) -> Snapshot:
    """Keep what is in `dir`: files, directories and links, with their permission bits. Pipes, sockets and devices are not.

    A file is read if it may have changed since the sandbox's last snapshot, and with `read_all` in any case. Commands may go
    on meanwhile: each file is as it was at one moment, and not all at the same. One that is never still for long enough
    is a ConflictError, more than `bounds` a TooLargeError, a name that is taken an ExistsError. After an error there is no
    snapshot. A failure of the directory itself is an OSError about a path of the sandbox.
    """
    work, bounds, retention = usual_work(work), bounds or Bounds.usual(), Retention.usual()
    store.check_name(sandbox, name)
    store.recover()
    with store.writing(work):
        known = {} if read_all else store.known(sandbox)
        keeper = _Keeper(store.blobs, work)
        found = Survey(dir, known, bounds, work, left_out, keeper, base).run()
        snapshot = Snapshot(
            id=new_id(),
            sandbox=sandbox,
            created=time.time(),
            name=name,
            files=sum(1 for entry in found.entries.values() if entry.kind == "file"),
            entries=len(found.entries),
            size=found.size,
            base=None if base is None else base.path,
            parent=_last(store, sandbox),
            read=found.read,
            written=keeper.written,
        )
        store.add(snapshot, found.entries.values(), found.stamps, work)
    with suppress(OSError, SandboxError):  # it is there, and the next one tries again
        store.expire(retention)
    return snapshot


class _Keeper:
    """Keeps what is read, and counts what is new."""

    def __init__(self, blobs: Blobs, work: Work) -> None:
        self._blobs, self._work = blobs, work
        self.written = 0

    def __call__(self, reader: Reader) -> tuple[str, int]:
        digest, size, new = self._blobs.take_in(reader, self._work)
        self.written += size if new else 0
        return digest, size


def _last(store: Store, sandbox: str) -> str | None:
    before = store.snapshots(sandbox)
    return before[-1].id if before else None
