"""What a commit would change on a branch."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from hashlib import sha256

from paddock import diffs
from paddock.errors import ConflictError, NotFoundError, TooLargeError, visible
from paddock.git.pulled import Pulled, PulledFile
from paddock.git.targets.protocol import DIRECTORY, Entry, Tree, blob_id
from paddock.git.workspace import Snapshot, Taken, sandbox_path
from paddock.types.git import FileOperation, StagedFile


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a workspace has to say about a branch."""

    contents: dict[str, Snapshot | None]
    """That each path is to have; None for those to be gone."""
    left: tuple[str, ...]
    """What was named and is as it was pulled: whatever the branch has there now, it is not this workspace's."""


def wanted(taken: Taken, tree: Tree, pulled: Pulled | None) -> Wanted:
    """The content that paths are to have. What changed both here and on the branch since a pull is a `ConflictError`.

    A path at which nothing is goes from the branch. In a directory that is there, only what was pulled and is missing now
    does: what never was in the workspace is nobody's to delete.
    """
    known = pulled.files if pulled else {}
    left = {path for path, here in taken.files.items() if path in known and _is_as_pulled(here, known[path])}
    found: dict[str, Snapshot | None] = {path: here for path, here in taken.files.items() if path not in left}
    mine = list(found)
    for path in taken.absent:
        for gone in _deleted(path, tree, known):
            found.setdefault(gone, None)
    for path in known:
        if path not in left and any(not above or path.startswith(f"{above}/") for above in taken.directories):
            entry = tree.entry(path)
            if entry is not None and entry.mode != DIRECTORY:
                found.setdefault(path, None)
    for path in mine:
        for gone in _in_the_way(path, tree):
            found.setdefault(gone, None)
    _refuse_conflicts(found, tree, known)
    return Wanted(found, tuple(sorted(left)))


def _is_as_pulled(here: Snapshot, last: PulledFile) -> bool:
    return (blob_id(here.data), here.executable) == (last.blob, last.executable)


def _refuse_conflicts(contents: Mapping[str, Snapshot | None], tree: Tree, known: Mapping[str, PulledFile]) -> None:
    both = [path for path in sorted(contents) if path in known and not known[path].is_at(tree.entry(path))]
    both = [path for path in both if not _is_on(tree.entry(path), contents[path])]
    if both:
        raise ConflictError(
            f"Changed here and on the branch since they were pulled: {', '.join(map(visible, both))}.",
            hint="Pull these files again, which merges both, and stage then; nothing was staged.",
            path=sandbox_path(both[0]),
        )


def _is_on(entry: Entry | None, new: Snapshot | None) -> bool:
    """Whether a branch has the same."""
    if entry is None or entry.mode == DIRECTORY:
        return new is None
    if new is None or not entry.is_file:
        return False
    return (entry.blob, entry.executable) == (blob_id(new.data), new.executable)


def _deleted(path: str, tree: Tree, known: Container[str]) -> list[str]:
    entry = tree.entry(path)
    if entry is None and path in known:
        return [path]
    if entry is None:
        raise NotFoundError(
            f"'{visible(sandbox_path(path))}' is neither in the workspace nor on the branch.", path=sandbox_path(path)
        )
    return [inner for inner, _ in tree.below(path)] if entry.mode == DIRECTORY else [path]


def _in_the_way(path: str, tree: Tree) -> list[str]:
    """What has to go for a file to be there: files where it needs directories, a directory where it is."""
    names = path.split("/")
    above = ["/".join(names[:count]) for count in range(1, len(names))]
    files = [place for place in above if (entry := tree.entry(place)) is not None and entry.mode != DIRECTORY]
    entry = tree.entry(path)
    return files + ([inner for inner, _ in tree.below(path)] if entry is not None and entry.mode == DIRECTORY else [])


def compared(contents: Mapping[str, Snapshot | None], tree: Tree) -> tuple[list[StagedFile], list[str]]:
    """What changes, and the paths at which nothing does."""
    changed, unchanged = [], []
    for path in sorted(contents):
        entry = tree.entry(path)
        if entry is not None and entry.mode == DIRECTORY:
            entry = None
        file = _change(path, contents[path], entry, tree)
        if file is None:
            unchanged.append(path)
        else:
            changed.append(file)
    return changed, unchanged


def _change(path: str, new: Snapshot | None, entry: Entry | None, tree: Tree) -> StagedFile | None:
    if _is_on(entry, new):
        return None
    operation: FileOperation = "delete" if new is None else "create" if entry is None else "update"
    return _described(path, operation, new, entry, tree)


def _described(
    path: str, operation: FileOperation, new: Snapshot | None, entry: Entry | None, tree: Tree
) -> StagedFile:
    old = old_content(entry, tree)
    data = b"" if new is None else new.data
    diff = None if old is None else diffs.unified(old, data, path if entry else None, path if new else None)
    return StagedFile(
        path,
        operation,
        diff.text if diff else None,
        diff.added if diff else 0,
        diff.removed if diff else 0,
        len(data),
        sha256(data).hexdigest() if new else None,
        new is not None and new.executable,
        diff is None,
        entry.blob if entry else None,
        entry is not None and entry.executable,
    )


def old_content(entry: Entry | None, tree: Tree) -> bytes | None:
    """What is on the branch; None where that cannot be shown: too large, or a link or a submodule."""
    if entry is None:
        return b""
    if not entry.is_file:
        return None
    try:
        return tree.read(entry.blob)
    except TooLargeError:
        return None
