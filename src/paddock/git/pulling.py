"""Files out of a repository into a workspace, over what is there already without losing it."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from paddock.errors import (
    GitError,
    NotDirectoryError,
    NotFileError,
    NotFoundError,
    SandboxError,
    TooLargeError,
    visible,
)
from paddock.git.context import Files
from paddock.git.merging import merge
from paddock.git.names import unsafe_path
from paddock.git.objects import MOST_FILE
from paddock.git.pulled import Pulled, PulledFile
from paddock.git.targets.protocol import DIRECTORY, LINK, SUBMODULE, Entry, Target, Tree, blob_id
from paddock.git.workspace import MOST_FILES, MOST_TOTAL, repo_path, sandbox_path
from paddock.types.git import PullResult, SkippedPath

_REASONS = {LINK: "it is a symbolic link", SUBMODULE: "it is a submodule"}


@dataclass(frozen=True, slots=True)
class Incoming:
    """One file of the branch, and what was pulled last time if that is known."""

    path: str
    entry: Entry
    data: bytes
    base: bytes | None
    last: PulledFile | None = None

    def executable(self, there: bool) -> bool:
        """Whether it is to be executable, when it is or is not in the workspace: that side wins which changed it."""
        return self.entry.executable if self.last is None or self.last.executable == there else there


@dataclass(frozen=True, slots=True)
class There:
    """What the workspace has."""

    data: bytes
    executable: bool


@dataclass(slots=True)
class Fetched:
    """What a repository gave."""

    commit: str
    files: list[Incoming] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    skipped: list[SkippedPath] = field(default_factory=list)
    gone: dict[str, PulledFile] = field(default_factory=dict)
    """What was pulled last time, and is no file on the branch any more, with what is there instead."""


def fetch(target: Target, named: Iterable[str], branch: str, known: Pulled | None) -> Fetched:
    """The files below these paths as they are on a branch. It is the branch that is read, never somebody's work tree."""
    commit = target.tip(branch).head
    if commit is None:
        raise GitError(
            f"There is no branch '{visible(branch)}'.", hint="branches() lists those that there are.", operation="pull"
        )
    tree, fetched, total = target.tree(commit), Fetched(commit), 0
    paths = dict.fromkeys(map(repo_path, [named] if isinstance(named, str) else named))
    fetched.gone = _gone(tree, paths, known)
    for path, entry in _chosen(tree, paths, fetched):
        data = tree.read(entry.blob)
        last = known.files.get(path) if known else None
        base = _base(tree, entry, data, last)
        fetched.files.append(Incoming(path, entry, data, base, last))
        total += len(data)
        if total > MOST_TOTAL or len(fetched.files) > MOST_FILES:
            raise TooLargeError(
                f"That is more than {MOST_FILES} files or {MOST_TOTAL} bytes.", hint="Pull less at once."
            )
    return fetched


def _gone(tree: Tree, paths: Iterable[str], known: Pulled | None) -> dict[str, PulledFile]:
    found = {}
    for path, last in known.files.items() if known else ():
        if any(not above or path == above or path.startswith(f"{above}/") for above in paths):
            entry = tree.entry(path)
            if entry is None or not entry.is_file:
                found[path] = replace(last, told=entry.blob if entry and entry.mode != DIRECTORY else "")
    return found


def _chosen(tree: Tree, paths: Iterable[str], fetched: Fetched) -> Iterable[tuple[str, Entry]]:
    """Those that may be written; the others are told."""
    found: dict[str, Entry] = {}
    for path in paths:
        entry = tree.entry(path) if path else None
        inner = tree.below(path) if entry is None or entry.mode == DIRECTORY else [(path, entry)]
        if not inner:
            fetched.missing.append(path or ".")
        found.update(inner)
    for path, entry in sorted(found.items()):
        why = unsafe_path(path) or _REASONS.get(entry.mode)
        if why:
            fetched.skipped.append(SkippedPath(visible(path), why))
        else:
            yield path, entry


def _base(tree: Tree, entry: Entry, data: bytes, last: PulledFile | None) -> bytes | None:
    if last is None:
        return None
    try:
        return data if last.blob == entry.blob else tree.read(last.blob)
    except SandboxError:  # it may be gone from the repository since: then both versions are compared without it
        return None


@dataclass(slots=True)
class _Outcome:
    pulled: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)
    untouched: list[str] = field(default_factory=list)
    skipped: list[SkippedPath] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)


async def put(files: Files, fetched: Fetched, labels: tuple[str, str]) -> PullResult:
    """Write what was fetched below the workspace."""
    outcome = _Outcome()
    for incoming in fetched.files:
        await _put_one(files, incoming, labels, outcome)
    for path, last in sorted(fetched.gone.items()):
        if await _is_changed(files, path, last):
            outcome.conflicts.append(path)
            outcome.untouched.append(path)
    return PullResult(
        tuple(outcome.pulled),
        tuple(outcome.conflicts),
        tuple(fetched.missing),
        tuple(outcome.merged),
        tuple(outcome.untouched),
        tuple(fetched.skipped + outcome.skipped),
        fetched.commit,
        tuple(outcome.kept),
    )


async def _is_changed(files: Files, path: str, last: PulledFile) -> bool:
    """Whether the workspace has something of its own where the branch has no file any more."""
    try:
        there = await _there(files, path)
    except (NotFileError, NotDirectoryError):
        return False
    return there is not None and (blob_id(there.data), there.executable) != (last.blob, last.executable)


async def _put_one(files: Files, incoming: Incoming, labels: tuple[str, str], outcome: _Outcome) -> None:
    try:
        there = await _there(files, incoming.path)
    except (NotFileError, NotDirectoryError):
        outcome.skipped.append(SkippedPath(incoming.path, "something else is there in the workspace"))
        return
    if there is None:
        mode = 0o755 if incoming.entry.executable else 0o644
        await files.write(sandbox_path(incoming.path), incoming.data, mode=mode)
        outcome.pulled.append(incoming.path)
    elif there.data in (incoming.data, incoming.base):
        await _write(files, incoming, there, incoming.data)
        outcome.pulled.append(incoming.path)
    elif incoming.base == incoming.data:
        outcome.pulled.append(incoming.path)
        outcome.merged.append(incoming.path)
        if not await _write(files, incoming, there, there.data):
            outcome.kept.append(incoming.path)
    else:
        await _merged(files, incoming, there, labels, outcome)


async def _merged(files: Files, incoming: Incoming, there: There, labels: tuple[str, str], outcome: _Outcome) -> None:
    merged = merge(incoming.base, there.data, incoming.data, labels)
    if merged is None:
        outcome.conflicts.append(incoming.path)
        outcome.untouched.append(incoming.path)
        return
    await _write(files, incoming, there, merged.data)
    if merged.conflicts:
        outcome.conflicts.append(incoming.path)
    else:
        outcome.pulled.append(incoming.path)
        outcome.merged.append(incoming.path)


async def _write(files: Files, incoming: Incoming, there: There, data: bytes) -> bool:
    """What is different, and nothing else: a file that is as it should be is not written. Whether it was."""
    executable = incoming.executable(there.executable)
    mode = None if executable == there.executable else (0o755 if executable else 0o644)
    if mode is None and data == there.data:
        return False
    await files.write(sandbox_path(incoming.path), data, mode=mode)
    return True


async def _there(files: Files, path: str) -> There | None:
    """What the workspace has; None for nothing. Something that is too large to look at is in the way."""
    place = sandbox_path(path)
    try:
        info = await files.stat(place)
    except NotFoundError:
        return None
    if info.kind == "file" and info.size > MOST_FILE:
        raise TooLargeError(f"'{visible(place)}' has {info.size} bytes.", path=place, hint="Move it out of the way.")
    return There(await files.read_bytes(place, limit=MOST_FILE + 1), bool(info.mode & 0o100))


def remembered(repo: str, branch: str, fetched: Fetched, result: PullResult) -> Pulled:
    """What to know for next time. What was left alone still has its old base; that it was told is known too."""
    left = {*result.untouched, *(skipped.path for skipped in result.skipped)}
    files = {path: last for path, last in fetched.gone.items() if path in left}
    for incoming in fetched.files:
        if incoming.path not in left:
            files[incoming.path] = PulledFile(incoming.entry.blob, incoming.entry.executable)
        elif incoming.last is not None:
            files[incoming.path] = replace(incoming.last, told=incoming.entry.blob)
    return Pulled(repo, branch, fetched.commit, files)
