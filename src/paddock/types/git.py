"""What goes into repositories and comes out of them. A path here is the repository's own, without a leading `/`."""

from dataclasses import dataclass
from typing import Literal

from paddock.errors import visible
from paddock.types.record import Record

FileOperation = Literal["create", "update", "delete"]

_LETTERS = {"create": "A", "update": "M", "delete": "D"}


@dataclass(frozen=True, slots=True)
class StagedFile(Record):
    """One file of a staged commit, compared with the branch that it is for."""

    path: str
    operation: FileOperation
    diff: str | None = None
    """Unified, for text; None for what is binary or large, and where only the mode changed."""
    added: int = 0
    """Lines."""
    removed: int = 0
    size: int = 0
    """Of the new content; 0 for a deletion."""
    sha256: str | None = None
    """Of the new content; None for a deletion."""
    executable: bool = False
    binary: bool = False
    """Whether there is no diff because one of both contents is binary or large."""
    old_blob: str | None = None
    """The id that git has for the content on the branch; None for a new file."""
    old_executable: bool = False

    @property
    def summary(self) -> str:
        """A line such as `M docs/a.md (+1 -2)`; nothing in it acts on a terminal."""
        if self.diff is not None:
            change = f"(+{self.added} -{self.removed})"
        else:
            change = f"(binary, {self.size} bytes)" if self.binary else ""
        mode = "" if self.operation == "delete" else _mode_change(self)
        return " ".join(part for part in (_LETTERS[self.operation], visible(self.path), change, mode) if part)


def _mode_change(file: StagedFile) -> str:
    if file.executable == file.old_executable:
        return ""
    return "executable" if file.executable else "no longer executable"


@dataclass(frozen=True, slots=True)
class StagedCommit(Record):
    """A commit that waits for somebody's word. What it holds is fixed: an id means the same bytes for ever."""

    id: str
    repo: str
    branch: str
    message: str
    files: tuple[StagedFile, ...]
    created_at: float
    """In seconds since 1970; it is also the time that the commit bears."""
    digest: str = ""
    """A hash over all that would be pushed, and where to: what an approval is bound to."""
    base: str | None = None
    """The commit that it was compared with, and goes on top of; None in a repository without commits."""
    new_branch: bool = False
    """Whether the branch does not exist yet. It will be made, from `base`."""
    name: str = ""
    """Whose commit it is."""
    email: str = ""
    sandbox: str | None = None
    unchanged: tuple[str, ...] = ()
    """What was named and is not part of it: it is the same on the branch, or as it was pulled from there."""
    skipped: tuple[str, ...] = ()
    """Links and special files in directories that were named: they are not part of it."""
    workspace: str = ""
    """What it was staged from, as `GitContext.workspace` names it."""
    merged: tuple[str, ...] = ()
    """Files that got changes of others by `restage`; the workspace does not have these."""

    @property
    def subject(self) -> str:
        """What an approval to push it names."""
        return f"{self.repo} {self.branch}"

    @property
    def summary(self) -> str:
        """What would be pushed: the message, whole, and a line for each file."""
        where = f"{visible(self.repo)} {visible(self.branch)}{' (new branch)' if self.new_branch else ''}"
        first, *more = map(visible, self.message.split("\n"))
        return "\n".join([f"{where}: {first}", *(f"  {line}" for line in more), *(file.summary for file in self.files)])


@dataclass(frozen=True, slots=True)
class PushResult(Record):
    """A staged commit is on its branch."""

    commit_sha: str
    url: str
    """Where it can be looked at; for a local repository its path."""
    repo: str = ""
    branch: str = ""
    created_branch: bool = False


@dataclass(frozen=True, slots=True)
class SkippedPath(Record):
    """Something in a repository that was not written, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class PullResult(Record):
    """What a pull came to. Every path that was asked for is in one of these."""

    pulled: tuple[str, ...]
    """Files that are in the workspace now, as they are on the branch or with the workspace's own changes merged in."""
    conflicts: tuple[str, ...] = ()
    """Files that differ in a way that somebody has to decide."""
    missing: tuple[str, ...] = ()
    """What was asked for and is not on the branch."""
    merged: tuple[str, ...] = ()
    """Of `pulled`: files with changes of their own, which they keep."""
    untouched: tuple[str, ...] = ()
    """Of `conflicts`: files that are as they were, since they are binary or very large, or changed here and deleted on the
    branch. The others have conflict markers."""
    skipped: tuple[SkippedPath, ...] = ()
    commit: str | None = None
    """The commit that they came from."""
    kept: tuple[str, ...] = ()
    """Of `merged`: files that changed only here, and are as they were."""


@dataclass(frozen=True, slots=True)
class Branch(Record):
    """A branch of a repository."""

    name: str
    commit: str
    default: bool = False


@dataclass(frozen=True, slots=True)
class LocalChange(Record):
    """A file that was pulled and is not as it was."""

    path: str
    operation: FileOperation


@dataclass(frozen=True, slots=True)
class RepoStatus(Record):
    """How a workspace and a branch stand to each other."""

    repo: str
    branch: str
    commit: str | None
    """What the branch is at; None if there is no such branch."""
    pulled: str | None = None
    """The commit that files were last pulled from, or the one that was pushed on top of it from here."""
    changes: tuple[LocalChange, ...] = ()
    """Of the files that were pulled from there."""
    staged: tuple[str, ...] = ()
    """Ids of staged commits for this branch."""

    @property
    def moved(self) -> bool:
        """Whether the branch has other commits than when files were last pulled."""
        return self.pulled is not None and self.pulled != self.commit
