"""`Git`: what users and the command line call."""

import builtins
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from paddock import consent as consents
from paddock.audit import EventBus
from paddock.config import setting
from paddock.consent import Consent
from paddock.errors import ConfigError, GitError, NotDirectoryError, NotFileError, NotFoundError, TooLargeError, visible
from paddock.finishing import in_thread
from paddock.git import names, pulled, pulling, pushing, restaging, staging
from paddock.git.comparing import Wanted, compared, wanted
from paddock.git.context import Files, GitContext
from paddock.git.hostfiles import HostFiles
from paddock.git.objects import MOST_FILE
from paddock.git.places import hashed
from paddock.git.pulled import Pulled
from paddock.git.stopping import Stop
from paddock.git.targets.opening import named, open_target
from paddock.git.targets.protocol import Target, Tip, blob_id
from paddock.git.workspace import Snapshot, Taken, sandbox_path, take
from paddock.types.consent import Approval
from paddock.types.git import (
    Branch,
    LocalChange,
    PullResult,
    PushResult,
    RepoStatus,
    StagedCommit,
    StagedFile,
)

T = TypeVar("T")
RepoName = str | os.PathLike[str]

_NO_SANDBOX = "by hand"


class Git:
    """Work that leaves a workspace as commits that somebody has seen, and comes into it from branches.

    A repository is `owner/name` on GitHub, an https or ssh URL, or a path of this host. Nothing in it is ever run: no hook,
    no filter, nothing that its configuration names; and no `.git` of a workspace is read.
    """

    def __init__(
        self,
        files: Files | None = None,
        consent: Consent | None = None,
        context: GitContext = GitContext(),  # noqa: B008 - frozen
    ) -> None:
        self._given = files
        self._consent = Consent(None, EventBus("git", None)) if consent is None else consent
        self._context = context
        by_hand = files.directory if isinstance(files, HostFiles) else _NO_SANDBOX
        self._workspace = context.workspace or context.sandbox or by_hand

    # In

    async def pull(self, repo: RepoName, paths: Iterable[str], branch: str = "main") -> PullResult:
        """Write files of a branch below /workspace, at the paths that they have in the repository.

        A path may be a directory; `.` is everything. Over a file that differs, both versions are merged, with conflict
        markers where they cannot be; `conflicts` names those files. What is not on the branch is in `missing`, and what is
        never written (links, submodules, names that git itself uses) in `skipped`; neither is an error. A branch that is
        not there is a `GitError`.
        """
        files, stop = self._files(), Stop()
        text = await self._reach("pull", repo)
        names.branch_name(branch)
        known = pulled.recall(self._workspace, text, branch)
        fetched = await self._on(stop, repo, lambda target: pulling.fetch(target, paths, branch, known))
        labels = ("workspace", f"{visible(branch)} of {visible(text)}")
        result = await pulling.put(files, fetched, labels)
        new = pulling.remembered(text, branch, fetched, result)
        await in_thread(pulled.remember, self._workspace, new)
        return result

    # Out

    async def stage(self, files: Iterable[str], repo: RepoName, message: str, branch: str = "main") -> StagedCommit:
        """Keep the content that files have now, as a commit that can be pushed later. Nothing outside changes.

        Paths are absolute below /workspace, or relative to it. A directory is all files in it, and the deletion of those
        that were pulled and are gone. A path at which nothing is, but which is on the branch, is a deletion. What is as it
        was pulled is left out, whatever became of it on the branch; what changed on both sides since is a `ConflictError`
        that names the files. Nothing to change is a `GitError`; a file that is too large is a `TooLargeError`; one that is
        nowhere is a `NotFoundError`.
        """
        text, stop = await self._reach("stage", repo), Stop()
        message, branch = names.message_text(message), names.branch_name(branch)
        taken = await take(self._files(), files)
        if not taken.named:
            raise GitError(
                "No file was named.", hint="Name files or directories; `.` is everything.", operation="stage"
            )
        asked = self._new(text, branch, message, taken.skipped)

        def work(target: Target) -> StagedCommit:
            target.check_writable(branch)
            tip = target.tip(branch)
            found = self._wanted(taken, target, tip, text, branch)
            return _kept(replace(asked, unchanged=found.left), target, tip, found.contents)

        return await self._on(stop, repo, work)

    async def restage(self, commit_id: str) -> StagedCommit:
        """The same change on top of what the branch is now: another staged commit, which takes the place of this one.

        Changes of others in the same file are kept, if they are elsewhere in it. Where both changed the same lines, it is a
        `ConflictError` that names the files, and nothing changes. If the branch has the change already it is a `GitError`.
        """
        old, stop = self._load(commit_id), Stop()

        def work(target: Target) -> StagedCommit:
            contents = staging.contents(old)
            tip = target.tip(old.branch)
            moved = restaging.moved_onto(old, contents, target.tree(tip.base))
            asked = replace(old, unchanged=(), merged=restaging.merged(old, moved))
            new = _kept(asked, target, tip, moved)
            staging.remove(old.id)
            return new

        return await self._on(stop, old.repo, work)

    async def push(self, commit_id: str, *, approval: Approval | str | None = None) -> PushResult:
        """Put a staged commit on its branch, if somebody agrees: exactly the bytes that were staged.

        A branch that moved since is a `ConflictError`, and `restage` is the way on. Nobody's consent is a
        `NotAuthorizedError`. If the branch has the commit already, as after a crash, that is a success. Afterwards it is not
        staged any more.
        """
        commit, stop = self._load(commit_id), Stop()
        contents = await stop.in_thread(lambda: staging.contents(commit))
        result = None
        if consents.initiator() != "model":  # which is refused without asking anybody
            result = await self._on(stop, commit.repo, lambda target: pushing.found(target, commit, contents))
        if result is None:
            await self._consent.ask("push", commit.subject, commit.digest, commit.summary, approval)
            result = await self._on(stop, commit.repo, lambda target: pushing.push(target, commit, contents))
        await in_thread(pulled.remember_push, commit, result, contents)
        staging.remove(commit.id)
        return result

    async def discard(self, commit_id: str) -> None:
        """Forget a staged commit; an unknown one is a `GitError`."""
        staging.remove(self._load(commit_id).id)

    # Looking

    async def staged(self) -> builtins.list[StagedCommit]:
        """The commits that wait, the oldest first, without diffs."""
        return await in_thread(staging.all_of, self._context.sandbox)

    async def show(self, commit_id: str) -> StagedCommit:
        """One of them, with its diffs; an unknown one is a `GitError`."""
        return self._load(commit_id)

    async def diff(
        self,
        commit_id: str | None = None,
        *,
        files: Iterable[str] | None = None,
        repo: RepoName | None = None,
        branch: str = "main",
    ) -> tuple[StagedFile, ...]:
        """What a staged commit changes; or, with `files` and `repo`, what staging them would change. That may be nothing.

        What changed both here and on the branch since it was pulled is a `ConflictError`, as it is when staging.
        """
        if commit_id is not None:
            return self._load(commit_id).files
        if files is None or repo is None:
            raise ConfigError("diff takes a staged commit, or files and a repository.", hint="Give one of both.")
        text, stop = await self._reach("diff", repo), Stop()
        names.branch_name(branch)
        taken = await take(self._files(), files)

        def work(target: Target) -> tuple[StagedFile, ...]:
            tip = target.tip(branch)
            return tuple(compared(self._wanted(taken, target, tip, text, branch).contents, target.tree(tip.base))[0])

        return await self._on(stop, repo, work)

    async def branches(self, repo: RepoName) -> builtins.list[Branch]:
        """The branches of a repository, sorted by name."""
        await self._reach("branches", repo)
        return await self._on(Stop(), repo, lambda target: target.branches())

    async def status(self, repo: RepoName | None = None, branch: str | None = None) -> builtins.list[RepoStatus]:
        """How the workspace stands to the branches that files were pulled from; with `repo`, to that one's."""
        known = pulled.everything(self._workspace)
        if repo is not None:
            text = await self._reach("status", repo)
            known = [one for one in known if one.repo == text and branch in (None, one.branch)]
            known = known or [Pulled(text, names.branch_name(branch or "main"), "")]
        return [await self._status(one) for one in known]

    async def _status(self, known: Pulled) -> RepoStatus:
        tip = await self._on(Stop(), known.repo, lambda target: target.tip(known.branch))
        changes = [await self._changed(path, file.blob) for path, file in sorted(known.files.items())]
        waiting = [
            commit.id for commit in await self.staged() if (commit.repo, commit.branch) == (known.repo, known.branch)
        ]
        found = tuple(change for change in changes if change is not None)
        return RepoStatus(known.repo, known.branch, tip.head, known.commit or None, found, tuple(waiting))

    async def _changed(self, path: str, blob: str) -> LocalChange | None:
        place = sandbox_path(path)
        try:
            data = await self._files().read_bytes(place, limit=MOST_FILE + 1)
        except (NotFoundError, NotFileError, NotDirectoryError):
            return LocalChange(path, "delete")
        except TooLargeError:
            return LocalChange(path, "update")
        return None if blob_id(data) == blob else LocalChange(path, "update")

    # How

    def _files(self) -> Files:
        if self._given is None:
            raise ConfigError("This gate has no workspace.", hint="Use the one of a sandbox, or give it files.")
        return self._given

    def _load(self, commit_id: str) -> StagedCommit:
        return staging.load(commit_id, self._context.sandbox)

    async def _reach(self, operation: str, repo: RepoName) -> str:
        """The repository as it is written. One that a model names has to be on the list, or somebody is asked."""
        text = names.text_of(named(repo, self._context))
        if consents.initiator() == "model" and text not in map(self._text, self._context.repos):
            await self._consent.ask("git", text, hashed(f"{operation}\0{text}"), f"git {operation} {visible(text)}")
        return text

    def _text(self, repo: str) -> str:
        return names.text_of(named(repo, self._context))

    async def _on(self, stop: Stop, repo: RepoName, work: Callable[[Target], T]) -> T:
        """Something done with a repository, in a thread."""
        what = named(repo, self._context)
        return await stop.in_thread(lambda: work(open_target(what, self._context, stop)))

    def _wanted(self, taken: Taken, target: Target, tip: Tip, repo: str, branch: str) -> Wanted:
        return wanted(taken, target.tree(tip.base), pulled.recall(self._workspace, repo, branch))

    def _new(self, repo: str, branch: str, message: str, skipped: Iterable[str]) -> StagedCommit:
        """What is asked for, with nothing in it yet."""
        name = self._identity("git_name", self._context.name)
        email = self._identity("git_email", self._context.email)
        sandbox, nothing = self._context.sandbox, ()
        return StagedCommit(
            "",
            repo,
            branch,
            message,
            nothing,
            0.0,
            name=name,
            email=email,
            sandbox=sandbox,
            skipped=tuple(skipped),
            workspace=self._workspace,
        )

    def _identity(self, name: str, given: str | None) -> str:
        return names.identity(str(setting(name).value) if given is None else given, name.removeprefix("git_"))


def _kept(asked: StagedCommit, target: Target, tip: Tip, contents: Mapping[str, Snapshot | None]) -> StagedCommit:
    """A new staged commit with these contents on top of a branch, on disk."""
    files, unchanged = compared(contents, target.tree(tip.base))
    if not files:
        raise GitError(
            f"Nothing to stage: everything is as on the branch '{visible(asked.branch)}', or as it was pulled from there.",
            hint="Change something first. A staged commit that came to this can be discarded.",
            operation="stage",
        )
    commit = replace(
        asked,
        id=staging.new_id(),
        files=tuple(files),
        created_at=float(int(time.time())),
        base=tip.base,
        new_branch=tip.head is None,
        unchanged=tuple(sorted({*asked.unchanged, *unchanged})),
    )
    commit = replace(commit, digest=staging.digest(commit))
    snapshots = ((file.sha256, contents[file.path]) for file in files)
    staging.keep(commit, {name: snapshot.data for name, snapshot in snapshots if name and snapshot})
    return commit
