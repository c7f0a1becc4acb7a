"""What is told of snapshots: cheap copies of a workspace."""

from dataclasses import dataclass

from paddock.types.record import Record


@dataclass(frozen=True, slots=True)
class Snapshot(Record):
    """A workspace as it was at one moment."""

    id: str
    sandbox: str
    """The id of the sandbox that it was taken of."""
    created: float
    """When, in seconds since 1970."""
    name: str | None = None
    files: int = 0
    entries: int = 0
    """Files, directories and links."""
    size: int = 0
    """What the files come to, in bytes."""
    base: str | None = None
    """The host directory that it is different from, of which it holds only the difference; None for a whole one."""
    parent: str | None = None
    """The one that was taken before it, of the same sandbox."""
    read: int = 0
    """How many files were read for it: what had not changed was not."""
    written: int = 0
    """Bytes that were in no snapshot before."""


@dataclass(frozen=True, slots=True)
class SnapshotShare(Record):
    """What one snapshot takes up."""

    id: str
    own: int
    """Bytes that nobody else uses: so much is free when it is removed."""
    shared: int
    """Bytes that other snapshots use as well."""


@dataclass(frozen=True, slots=True)
class SnapshotSpace(Record):
    """What all snapshots take up, in bytes."""

    total: int
    """On disk: contents, lists of entries, and what is left over."""
    unused: int
    """Contents that no snapshot uses any more; they are collected."""
    snapshots: tuple[SnapshotShare, ...] = ()
    damaged: tuple[str, ...] = ()
    """The ids of those whose list of entries cannot be read. While there are any, nothing is collected."""
