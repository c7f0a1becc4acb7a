"""What file calls give back. Every path is the sandbox's own."""

from dataclasses import dataclass
from typing import Literal

from paddock.types.record import Record

Kind = Literal["file", "directory", "link", "other"]


@dataclass(frozen=True, slots=True)
class FileInfo(Record):
    """One file, directory, link, or thing of another kind (pipe, socket, device)."""

    name: str
    path: str
    kind: Kind
    size: int
    mode: int
    """The permission bits, such as 0o644."""
    mod_time: float
    """Last change of the content, in seconds since 1970."""
    target: str | None = None
    """Where a link points, as it is written."""

    @property
    def is_dir(self) -> bool:
        """Whether this is a directory (a link to one is not)."""
        return self.kind == "directory"


@dataclass(frozen=True, slots=True)
class Match(Record):
    """A line that `grep` found."""

    path: str
    line: int
    """Counted from 1."""
    text: str
    """The line without its end, cut after 1,000 characters."""


@dataclass(frozen=True, slots=True)
class FileEvent(Record):
    """A change that `watch` saw. `overflow` means that some were missed: look again at everything below the path."""

    kind: Literal["created", "modified", "deleted", "overflow"]
    path: str
