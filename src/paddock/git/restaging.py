"""The same change on another head."""

from collections.abc import Mapping
from hashlib import sha256

from paddock.errors import ConflictError, SandboxError, visible
from paddock.git.merging import merge
from paddock.git.targets.protocol import DIRECTORY, Entry, Tree, blob_id
from paddock.git.workspace import Snapshot
from paddock.types.git import StagedCommit, StagedFile


def moved_onto(commit: StagedCommit, contents: Mapping[str, bytes], tree: Tree) -> dict[str, Snapshot | None]:
    """What each path is to have on top of a tree. Where both sides changed the same lines it is a `ConflictError`."""
    found: dict[str, Snapshot | None] = {}
    overlaps = []
    for file in commit.files:
        try:
            found[file.path] = _on_top(file, contents.get(file.path), tree.entry(file.path), tree)
        except _OverlapError:
            overlaps.append(file.path)
    if overlaps:
        raise ConflictError(
            f"The branch has other changes in the same places of: {', '.join(map(visible, overlaps))}.",
            hint="Pull these files, solve the conflicts in the workspace, and stage again.",
            path=overlaps[0],
        )
    return found


def merged(commit: StagedCommit, moved: Mapping[str, Snapshot | None]) -> tuple[str, ...]:
    """Which files have something in them now that they did not have when they were staged."""
    new = {path: (sha256(one.data).hexdigest(), one.executable) for path, one in moved.items() if one is not None}
    changed = {
        file.path for file in commit.files if file.path in new and new[file.path] != (file.sha256, file.executable)
    }
    return tuple(sorted({*commit.merged, *changed}))


class _OverlapError(Exception):
    pass


def _on_top(file: StagedFile, data: bytes | None, now: Entry | None, tree: Tree) -> Snapshot | None:
    new = None if data is None else Snapshot(data, file.executable)
    if _is_as_before(file, now) or _is_done(new, now):
        return new
    if new is None or now is None or not now.is_file:
        raise _OverlapError
    try:
        base = None if file.old_blob is None else tree.read(file.old_blob)
        merged = merge(base, new.data, tree.read(now.blob), ("", ""))
    except SandboxError:
        raise _OverlapError from None
    if merged is None or merged.conflicts:
        raise _OverlapError
    executable = now.executable if file.executable == file.old_executable else file.executable
    return Snapshot(merged.data, executable)


def _is_as_before(file: StagedFile, now: Entry | None) -> bool:
    if now is None or file.old_blob is None:
        return (now is None) == (file.old_blob is None)
    return now.mode != DIRECTORY and (now.blob, now.executable) == (file.old_blob, file.old_executable)


def _is_done(new: Snapshot | None, now: Entry | None) -> bool:
    """Whether the branch has this already."""
    if new is None or now is None:
        return new is None and now is None
    return now.is_file and now.blob == blob_id(new.data) and now.executable == new.executable
