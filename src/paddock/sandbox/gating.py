"""The git gate of a sandbox: what goes through it are events of the sandbox."""

import os
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import TypeVar

from paddock import paths
from paddock.errors import GitError, visible
from paddock.git import Files, Git, GitContext
from paddock.git.gate import RepoName
from paddock.git.names import LocalRepo, shown
from paddock.git.stopping import Stop
from paddock.git.targets.opening import named
from paddock.git.targets.protocol import Target
from paddock.sandbox.core import Core
from paddock.sandbox.layout import WORKSPACE
from paddock.sandbox.operation import Gate, Operation
from paddock.types.consent import Approval
from paddock.types.git import PullResult, PushResult, StagedCommit

T = TypeVar("T")


def git_of(core: Core, files: Files, gate: Gate) -> Git:
    """The gate of a sandbox."""
    owner = _owner(core)
    return SandboxGit(files, core, gate, GitContext(sandbox=owner, workspace=owner))


def _owner(core: Core) -> str:
    """Whose staged commits it sees: those for its host directory, whichever sandbox made them, or else its own."""
    source = next(mount.source for mount in core.launched.plan.mounts if mount.target == WORKSPACE)
    return core.launched.id if source is None else owner_of(os.fspath(source))


def owner_of(directory: str) -> str:
    """What a host directory is called where nobody should read its path."""
    return f"ws-{sha256(os.fsencode(os.path.realpath(directory))).hexdigest()[:16]}"


def _is_writable(core: Core, repo: str) -> bool:
    """Whether commands can change what is at a path of the host. A git directory that was there at the start they cannot."""
    plan = core.launched.plan
    for mount in () if plan.review else plan.mounts:
        source = None if mount.source is None else os.path.realpath(mount.source)
        if source is not None and not mount.read_only and paths.within(repo, source):
            place = paths.join(mount.target, paths.below(repo, source))
            held = core.launched.layout.protected
            return not any(paths.within(paths.join(place, name), one) for one in held for name in ("", ".git"))
    return False


class SandboxGit(Git):
    """The gate as one sandbox has it."""

    def __init__(self, files: Files, core: Core, gate: Gate, context: GitContext) -> None:
        super().__init__(files, core.consent, context)
        self._gate = gate
        self._core = core

    async def pull(self, repo: RepoName, paths: Iterable[str], branch: str = "main") -> PullResult:
        with self._telling("pull", repo) as operation:
            result = await super().pull(repo, paths, branch)
            operation.count = len(result.pulled)
            return result

    async def stage(self, files: Iterable[str], repo: RepoName, message: str, branch: str = "main") -> StagedCommit:
        with self._telling("stage", repo) as operation:
            commit = await super().stage(files, repo, message, branch)
            operation.count, operation.target = len(commit.files), commit.id
            return commit

    async def restage(self, commit_id: str) -> StagedCommit:
        with self._telling("restage", commit_id) as operation:
            commit = await super().restage(commit_id)
            operation.count, operation.target = len(commit.files), commit.id
            return commit

    async def push(self, commit_id: str, *, approval: Approval | str | None = None) -> PushResult:
        with self._telling("push", commit_id) as operation:
            result = await super().push(commit_id, approval=approval)
            operation.target = result.commit_sha
            return result

    async def discard(self, commit_id: str) -> None:
        with self._telling("discard", commit_id):
            await super().discard(commit_id)

    async def _on(self, stop: Stop, repo: RepoName, work: Callable[[Target], T]) -> T:
        """A repository that commands of the sandbox can change is theirs, and never read on the host."""
        found = named(repo, self._context)
        if isinstance(found, LocalRepo) and _is_writable(self._core, found.path):
            raise GitError(
                f"The sandbox can write to the repository at {visible(found.path)}.",
                hint="Use one outside of its mounts, or one that was at the top of a mount when the sandbox began.",
                operation="open",
            )
        return await super()._on(stop, repo, work)

    def _telling(self, operation: str, subject: RepoName) -> Operation:
        """What is told is without passwords, which a URL may have until it is refused for them."""
        return Operation(self._gate, "git", operation, shown(subject))
