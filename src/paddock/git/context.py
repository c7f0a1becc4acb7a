"""What the gate is given: files to read and write, and what belongs to one sandbox or one person."""

import builtins
from dataclasses import dataclass
from typing import Protocol

from paddock.types.files import FileInfo

WORKSPACE = "/workspace"
SECONDS = 120.0


class Files(Protocol):
    """The files of a sandbox; `Sandbox` is one."""

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """A file, or a range of it."""

    async def write(self, path: str, content: str | bytes, *, mode: int | None = None) -> None:
        """Put a whole file there; parents are made."""

    async def exists(self, path: str) -> bool:
        """Whether something is there."""

    async def stat(self, path: str) -> FileInfo:
        """What is there, through links; nothing is a `NotFoundError`."""

    async def scan(self, path: str = ".") -> builtins.list[FileInfo]:
        """What is in a directory, links as links."""


@dataclass(frozen=True, slots=True)
class GitContext:
    """Whose gate it is and what it may reach. Only the host program makes one."""

    sandbox: str | None = None
    """With it, only what this sandbox staged is seen; without, everything."""
    workspace: str | None = None
    """What remembers the last pull: by default the sandbox, or the directory. Two on one directory give the same."""
    name: str | None = None
    """Of author and committer; by default the setting `git_name`."""
    email: str | None = None
    repos: tuple[str, ...] = ()
    """Repositories that a model may name. Any other that a model names is asked about."""
    allow_file: bool = False
    """Whether `file://` URLs are allowed."""
    allow_checked_out: bool = False
    """Whether a branch that is checked out in a local repository may be moved."""
    token_hosts: tuple[str, ...] = ()
    """Hosts that get the GitHub token besides github.com."""
    ssh_key: str | None = None
    ssh_known_hosts: str | None = None
    timeout: float = SECONDS
    """For one exchange with a repository elsewhere."""
