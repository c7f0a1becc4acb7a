"""What is different in a sandbox from where it began, one thing at a time."""

from dataclasses import dataclass
from typing import Literal

from paddock.types.files import Kind
from paddock.types.record import Record

ChangeOperation = Literal["create", "update", "delete", "rename", "mode", "link"]

EXECUTABLE = "executable configuration changed"
LEADS_OUT = "link leads out"
NOT_APPLICABLE = "cannot be applied"


@dataclass(frozen=True, slots=True)
class Change(Record):
    """One path that is not as it was. Two changes that look the same hold the same bytes: `sha256` says so."""

    path: str
    operation: ChangeOperation
    """`rename` only when the content proves it; `link` is a symbolic link that is new or leads elsewhere."""
    kind: Kind
    """Of what is there now; of a deletion, of what was there."""
    old_kind: Kind | None = None
    """Of what was there, where that was something."""
    size: int = 0
    sha256: str | None = None
    """Of the whole content of a file that is there now; of a deletion, of what was there."""
    mode: int | None = None
    old_mode: int | None = None
    old_path: str | None = None
    """Where a renamed file was."""
    target: str | None = None
    """Where a link points, as it is written."""
    diff: str | None = None
    """Unified, for text; None for what is binary or large, and where there is nothing to compare."""
    added: int = 0
    """Lines."""
    removed: int = 0
    flags: tuple[str, ...] = ()
    """What a person should look at twice."""
    conflict: str | None = None
    """Why the host's file is not the one that the sandbox began with, if it is not."""


@dataclass(frozen=True, slots=True)
class Layer(Record):
    """What lies between a sandbox and a host directory that it works on without writing to it."""

    target: str
    """Where it is mounted inside."""
    lower: str
    """The host directory: absolute, without links."""
    upper: str
    """A directory of Paddock's own: what is different (`overlay`), or everything (`copy`)."""
    kind: Literal["overlay", "copy"]
    since: int
    """When it began, in nanoseconds since 1970. What changed on the host after that is a conflict."""
    base: str | None = None
    """Of a `copy`: the file with what was copied, an entry a line."""


@dataclass(frozen=True, slots=True)
class Applied(Record):
    """What `apply` did to the host. Paths are the sandbox's, sorted."""

    paths: tuple[str, ...] = ()
    """Written, removed or changed there."""
    unchanged: tuple[str, ...] = ()
    """Chosen, and the host had it so already."""
    skipped: tuple[str, ...] = ()
    """Chosen, and nothing that can be applied: pipes, sockets, devices, what cannot be read."""
