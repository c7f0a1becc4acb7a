"""The files of a workspace as the gate sees them: paths below it, contents at one moment, bounds on both."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from paddock import paths
from paddock.errors import GitError, NotFileError, NotFoundError, OutsideError, TooLargeError, visible
from paddock.git.context import WORKSPACE, Files
from paddock.git.names import is_dot_git, unsafe_path
from paddock.git.objects import MOST_FILE

MOST_FILES = 10_000
MOST_TOTAL = 256 << 20
_MOST_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a file held when it was looked at."""

    data: bytes
    executable: bool


@dataclass(slots=True)
class Taken:
    """What was named, as it was."""

    files: dict[str, Snapshot] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    """Paths at which nothing is: a file or directory that was deleted, or a mistake."""
    directories: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    size: int = 0

    @property
    def named(self) -> bool:
        """Whether anything was."""
        return bool(self.files or self.absent or self.directories)


def repo_path(path: str) -> str:
    """The path in a repository for one in a sandbox; '' is all of the workspace."""
    full = paths.normalise(path, WORKSPACE)
    if not paths.within(full, WORKSPACE):
        raise OutsideError(
            f"'{visible(full)}' is not in the workspace.", path=full, hint=f"Name files below {WORKSPACE}."
        )
    below = paths.below(full, WORKSPACE)
    if below and (why := unsafe_path(below)):
        raise GitError(f"'{visible(full)}' cannot be in a commit: {why}.", path=full, operation="names")
    return below


def sandbox_path(path: str) -> str:
    """The inverse of `repo_path`."""
    return paths.join(WORKSPACE, path)


async def take(files: Files, named: Iterable[str]) -> Taken:
    """The contents of files, and of all files in directories, read once."""
    taken = Taken()
    if isinstance(named, str):
        named = [named]
    for path in dict.fromkeys(repo_path(one) for one in named):
        try:
            info = await files.stat(sandbox_path(path))
        except NotFoundError:
            taken.absent.append(path)
            continue
        if info.kind == "directory":
            taken.directories.append(path)
            await _take_directory(files, path, taken, _MOST_DEPTH)
        elif info.kind == "file":
            await _take_file(files, path, info.size, bool(info.mode & 0o100), taken)
        else:
            raise NotFileError(f"'{visible(sandbox_path(path))}' is not a file.", path=sandbox_path(path))
    return taken


async def _take_directory(files: Files, path: str, taken: Taken, depth: int) -> None:
    if depth == 0:
        raise TooLargeError("The directories lie too deep.", hint="Name files one by one.", path=sandbox_path(path))
    for info in await files.scan(sandbox_path(path)):
        inner = f"{path}/{info.name}" if path else info.name
        if is_dot_git(info.name):
            continue
        if unsafe_path(inner) or info.kind in ("link", "other"):
            taken.skipped.append(inner)
        elif info.kind == "directory":
            await _take_directory(files, inner, taken, depth - 1)
        else:
            await _take_file(files, inner, info.size, bool(info.mode & 0o100), taken)


async def _take_file(files: Files, path: str, size: int, executable: bool, taken: Taken) -> None:
    if path in taken.files:
        return
    data = b"" if size > MOST_FILE else await files.read_bytes(sandbox_path(path), limit=MOST_FILE + 1)
    if max(size, len(data)) > MOST_FILE:
        raise TooLargeError(
            f"'{visible(sandbox_path(path))}' has more than {MOST_FILE} bytes.",
            path=sandbox_path(path),
            hint="Keep large files out of git; leave it out.",
        )
    taken.size += len(data)
    taken.files[path] = Snapshot(data, executable)
    if len(taken.files) > MOST_FILES or taken.size > MOST_TOTAL:
        raise TooLargeError(
            f"A commit holds at most {MOST_FILES} files and {MOST_TOTAL} bytes.", hint="Stage it in several parts."
        )
