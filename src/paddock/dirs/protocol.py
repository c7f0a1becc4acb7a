"""What the file layer asks of a directory tree.

Every path is relative to the directory's root, already normalised, and '' is the root itself. **No call follows a
symbolic link, in any position**: one in the way is `OSError(ELOOP)`, and the file layer resolves it in the sandbox's own
tree before it asks again. So a path means one place, and policy that looked at the path has looked at that place.

Calls are synchronous and safe to make from several threads. They raise `OSError` with an errno, nothing else.
"""

import builtins
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, NamedTuple, Protocol, Self, runtime_checkable

from paddock.types.files import Kind


class Node(NamedTuple):
    """One directory entry, itself and not what it links to."""

    name: str
    kind: Kind
    size: int
    mode: int
    mtime: float
    target: str | None = None
    stamp: int | None = None
    """Of a file: another number whenever its content may be another, whoever sets its times. None is not known."""


class Write(NamedTuple):
    """One file of a staged set: its whole content, and its mode (None keeps the old one's, or is 0644)."""

    path: str
    data: bytes
    mode: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One raw change below a watched directory. `vanished` and `appeared` may be the two halves of a rename."""

    kind: Literal["appeared", "modified", "vanished", "overflow"]
    path: str


class Reader(Protocol):
    """A regular file, open: the same file however the tree changes, and no longer than it was at the start."""

    size: int
    mode: int

    @property
    def stamp(self) -> int | None:
        """As in `Node`, of the very file that is open."""

    def read(self, size: int) -> bytes:
        """The next `size` bytes; fewer only at the end."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Stage(Protocol):
    """A set of files written beside their places and not yet in them. Its errors name the file's path in `filename`."""

    def commit(self) -> None:
        """Put every file in its place. If one cannot be, those before it are taken back and the error is raised."""

    def rollback(self) -> None:
        """Take back what `commit` did: every file is as it was before."""

    def finish(self) -> None:
        """Forget what was replaced, or what was never committed. The last call on a stage, always made."""


def about(error: BaseException, path: str) -> BaseException:
    """The same error, naming the file of a set that it is about."""
    return OSError(error.errno, error.strerror, path) if isinstance(error, OSError) else error


class Dir(Protocol):
    """A directory tree by its root. `remote` says that a call may wait for somebody else, so never on an event loop."""

    remote: bool

    def stat(self, path: str) -> Node:
        """The entry at `path`."""

    def list(self, path: str, *, stats: bool) -> builtins.list[Node]:
        """The entries of a directory, unsorted. Without `stats` only name and kind are meaningful."""

    def open(self, path: str, offset: int = 0) -> Reader:
        """A regular file for reading from `offset` on. Anything else is EISDIR (a directory) or ENXIO."""

    def write(self, path: str, data: bytes | Iterable[bytes], mode: int | None, *, replace: bool = True) -> int:
        """Put a whole new file at `path` atomically; returns its size.

        The old file's mode is kept unless one is given. A hard link is replaced, never written through. Without
        `replace` anything there is EEXIST.
        """

    def stage(self, files: Iterable[Write]) -> Stage:
        """Write many files beside their places; if one cannot be written, none is left."""

    def mkdir(self, path: str, mode: int = 0o755) -> None:
        """Make one directory."""

    def remove(self, path: str, *, tree: bool = False) -> None:
        """Remove a file, a link or an empty directory; with `tree`, all that is in it too, however deep, of any mode."""

    def rename(self, path: str, to: str, *, replace: bool) -> None:
        """Move an entry within this tree; without `replace`, something at `to` is EEXIST."""

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link at `path` that holds `target`."""

    def watch(self, path: str, notify: Callable[[builtins.list[Change]], None]) -> Callable[[], None]:
        """Call `notify` from some thread with what changes below `path`, until the returned function is called.

        The first call is made before this returns, and names everything that is there.
        """

    def close(self) -> None:
        """Let go of the tree; its files stay."""


@runtime_checkable
class Chmod(Protocol):
    """What a `Dir` may be besides: the mode of a directory can be changed where it is. Over the wire it cannot."""

    def chmod(self, path: str, mode: int) -> None:
        """Give a directory these permission bits. Files get theirs when they are written, never through a hard link."""
