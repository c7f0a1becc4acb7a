"""What the gate asks of a repository. Calls block; they are made in threads. They raise `SandboxError`s, nothing else."""

import hashlib
from dataclasses import dataclass
from typing import Protocol

from paddock.errors import GitError, visible
from paddock.types.git import Branch

FILE = 0o100644
PROGRAM = 0o100755
LINK = 0o120000
SUBMODULE = 0o160000
DIRECTORY = 0o040000


@dataclass(frozen=True, slots=True)
class Entry:
    """Something in a tree: its kind and permissions as git has them, and the id of its content."""

    mode: int
    blob: str

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file; git has known a few modes for these."""
        return self.mode & 0o170000 == 0o100000

    @property
    def executable(self) -> bool:
        """Whether it can be run."""
        return self.is_file and bool(self.mode & 0o100)


@dataclass(frozen=True, slots=True)
class Tip:
    """Where a branch is. One that does not exist yet begins at `base`, the head of the default branch."""

    head: str | None
    base: str | None


@dataclass(frozen=True, slots=True)
class Who:
    """Whose commit, and when, in whole seconds."""

    name: str
    email: str
    time: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that is there."""

    parents: tuple[str, ...]
    message: str
    author: Who
    committer: Who


@dataclass(frozen=True, slots=True)
class Put:
    """A file for a new commit; no content means that it is to be gone."""

    path: str
    data: bytes | None
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """A commit to be made and put on a branch. The same order makes the same commit, whenever it is carried out."""

    branch: str
    base: str | None
    new_branch: bool
    message: str
    who: Who
    files: tuple[Put, ...]


class Tree(Protocol):
    """The files of one commit."""

    def entry(self, path: str) -> Entry | None:
        """What is at a path, if there is something."""

    def below(self, path: str) -> list[tuple[str, Entry]]:
        """Everything below a directory but directories, with paths from the root; '' is the root."""

    def read(self, blob: str) -> bytes:
        """The content of a file. One that is too large is a `TooLargeError`."""


class Target(Protocol):
    """A repository."""

    def branches(self) -> list[Branch]:
        """All of them, sorted by name."""

    def tip(self, branch: str) -> Tip:
        """Where a branch is now. An answer that was not understood is never taken for "there is none"."""

    def tree(self, commit: str | None) -> Tree:
        """The files of a commit that `tip` gave; of None, no files."""

    def commit(self, sha: str) -> Commit:
        """A commit that `tip` gave."""

    def check_writable(self, branch: str) -> None:
        """Raise what a push to this branch would, as far as that can be known before."""

    def push(self, order: Order) -> str:
        """Make the commit and move the branch to it; its id. A branch that is not where it was is a `ConflictError`."""

    def url(self, sha: str) -> str:
        """Where a person can look at a commit."""


def no_beginning(branch: str) -> GitError:
    """For a new branch in a repository that has others, but not the one that its HEAD names."""
    return GitError(
        f"The branch '{visible(branch)}' is not there, and the default branch, from which it would be made, is not either.",
        hint="Name a branch that exists, or make this one first.",
        operation="read",
    )


def blob_id(data: bytes) -> str:
    """The id that git gives to a file's content."""
    return hashlib.sha1(b"blob %d\0%b" % (len(data), data), usedforsecurity=False).hexdigest()
