"""The files of a sandbox: the calls on one or a few of them, synchronous, over the mounts and their directories.

Paths are absolute and normalised. A call first asks for exactly that path, with no links; only if there are some does it
resolve them in the sandbox's own tree and ask again, so that every rule has looked at the place that is used in the end.
"""

import builtins
import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple, TypeVar

from paddock import paths
from paddock.dirs.protocol import Dir, Node, Reader, Stage, Write, about
from paddock.errors import (
    ConfigError,
    NotDirectoryError,
    NotFileError,
    NotFoundError,
    OutsideError,
    PermissionDeniedError,
    SandboxError,
    TooLargeError,
    visible,
)
from paddock.sandbox.budget import MAX_READ, Budget
from paddock.sandbox.failures import typed
from paddock.sandbox.links import canonical
from paddock.sandbox.mounts import MountTable, Place
from paddock.types import FileInfo

T = TypeVar("T")

_RACES = 16  # how often a link may be swapped under one call before it gives up


class Files:
    """File calls over one table of mounts. Safe to use from several threads."""

    def __init__(self, table: MountTable) -> None:
        self.table = table

    def open(self, path: str, offset: int = 0) -> Reader:
        """A regular file for reading."""
        try:
            return self._open(self.table.locate(path), offset)
        except OSError as error:
            if not _is_link(error):
                raise typed(error, path) from None
        return self._through_links(path, lambda place: self._open(place, offset), False, True)

    def stat(self, path: str) -> FileInfo:
        """What is at `path`, through links."""
        if self.table.virtual(path) is not None:
            return info(_virtual(paths.name(path)), path)
        return info(self.at(path, _stat_target), path)

    def exists(self, path: str) -> bool:
        """Whether something reachable is there."""
        try:
            self.stat(path)
        except (NotFoundError, NotDirectoryError, OutsideError):
            return False
        return True

    def list(self, path: str) -> builtins.list[str]:
        """The names in a directory, sorted."""
        return sorted(node.name for node in self.entries(path, stats=False))

    def scan(self, path: str) -> builtins.list[FileInfo]:
        """The entries of a directory, sorted by name; links are shown as links."""
        nodes = sorted(self.entries(path, stats=True), key=lambda node: node.name)
        return [info(node, paths.join(path, node.name)) for node in nodes]

    def entries(self, path: str, *, stats: bool) -> builtins.list[Node]:
        """The entries of a directory, in no order, with the mounts that lie in it."""
        virtual = self.table.virtual(path)
        if virtual is not None:
            return [_virtual(name) for name in virtual]
        found = self.at(path, lambda place: place.dir.list(place.relative, stats=stats))
        mounted = self.table.mounted_in(path)
        if not mounted:
            return found
        return [node for node in found if node.name not in mounted] + [_virtual(name) for name in mounted]

    def write(self, path: str, data: bytes, mode: int | None = None) -> int:
        """Put a whole file at `path`, parents made; its size."""
        if mode is not None:
            check_mode(mode)
        try:
            return self._put(self.table.locate(path, write=True), data, mode)
        except OSError as error:
            if not _is_link(error):
                raise typed(error, path) from None
        return self._through_links(path, lambda place: self._put(place, data, mode), True, True)

    def write_files(self, files: Mapping[str, bytes], budget: Budget) -> None:
        """Put all of these files in their places, or none."""
        follow = False
        for _ in range(_RACES):
            try:
                return self._write_all(self._batches(files, follow=follow), budget)
            except OSError as error:
                if not _is_link(error):
                    raise
            follow = True
        raise typed(OSError(errno.ELOOP, ""), next(iter(files)))

    def mkdir(self, path: str) -> None:
        """Make a directory and its parents; one that exists already is fine."""

        def make(place: Place) -> None:
            try:
                make_directories(place.dir, place.relative)
            except NotADirectoryError:
                place.dir.stat(place.relative)  # raises when it is one of the parents that is not a directory
                raise OSError(errno.EEXIST, "") from None

        if self.table.virtual(path) is None:
            self.at(path, make, write=True)

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link (not its target), or with `recursive` a directory with all that is in it."""

        def remove(place: Place) -> None:
            refuse_root(self.table, place)
            if not recursive and place.dir.stat(place.relative).kind == "directory":
                if place.dir.list(place.relative, stats=False):
                    raise OSError(errno.ENOTEMPTY, "")
                raise NotFileError(
                    f"'{visible(path)}' is a directory.", path=path, hint="Pass recursive=True to delete it."
                )
            place.dir.remove(place.relative, tree=recursive)

        self.at(path, remove, write=True, last=False)

    def rename(self, path: str, to: str, *, overwrite: bool) -> bool:
        """Move an entry within one mount; False when it has to be copied to another."""
        source, node = self.settle(path, write=True)
        refuse_root(self.table, source)

        def move(target: Place) -> bool:
            refuse_root(self.table, target)
            if source.dir is not target.dir:
                return False
            if node.kind == "directory" and source.path != target.path and paths.within(target.path, source.path):
                raise ConfigError(
                    f"'{visible(path)}' cannot be moved into itself.", path=to, hint="Choose a place outside it."
                )
            if node.kind == "file":
                self.table.check_content(source, node.size)
                self.table.check_content(target, node.size)
            make_directories(target.dir, paths.split(target.relative)[0])
            try:
                target.dir.rename(source.relative, target.relative, replace=overwrite)
            except OSError as error:
                if error.errno != errno.EXDEV:  # something of the host's is mounted in between
                    raise
                return False
            return True

        return self.at(to, move, write=True, last=False)

    def link(self, path: str, text: str, *, overwrite: bool) -> None:
        """Put a symbolic link there."""

        def make(place: Place) -> None:
            refuse_root(self.table, place)
            make_directories(place.dir, paths.split(place.relative)[0])
            if overwrite:
                with suppress(FileNotFoundError):
                    place.dir.remove(place.relative)
            place.dir.link(place.relative, text)

        self.at(path, make, write=True, last=False)

    def is_directory(self, path: str) -> bool:
        """Whether a directory is there, through links."""
        return self.exists(path) and self.stat(path).is_dir

    def target(self, path: str, *, write: bool = False) -> Place:
        """The place that `path` means with all its links resolved, whether something is there or not."""
        self.table.locate(path, write=write)
        return self.table.locate(self._canonical(path, last=True), write=write)

    def directory(self, path: str) -> Place:
        """Where the directory that `path` means really is; anything else there is an error."""
        return self.at(path, _directory)

    def settle(self, path: str, *, write: bool = False) -> tuple[Place, Node]:
        """The place that `path` means with the links on the way resolved, and what is there (perhaps a link)."""
        return self.at(path, lambda place: (place, place.dir.stat(place.relative)), write=write, last=False)

    def at(self, path: str, action: Callable[[Place], T], *, write: bool = False, last: bool = True) -> T:
        """Do something at the place `path` means: as it stands, or where its links lead (`last`: the last name too)."""
        try:
            return action(self.table.locate(path, write=write))
        except OSError as error:
            if not _is_link(error):
                raise typed(error, path) from None
        return self._through_links(path, action, write, last)

    def _through_links(self, path: str, action: Callable[[Place], T], write: bool, last: bool) -> T:
        error = OSError(errno.ELOOP, "")
        for _ in range(_RACES):
            try:
                return action(self.table.locate(self._canonical(path, last=last), write=write))
            except OSError as caught:
                error = caught
                if not _is_link(caught):
                    break
        raise typed(error, path) from None

    def _canonical(self, path: str, *, last: bool) -> str:
        error = OSError(errno.ELOOP, "")
        for _ in range(_RACES):
            try:
                return canonical(self.table, path, last=last)
            except OutsideError:
                raise OutsideError(
                    f"'{visible(path)}' leads outside of what this sandbox reaches.",
                    path=path,
                    hint=f"Reachable: {self.table.roots()}.",
                ) from None
            except OSError as caught:
                error = caught
                if not _is_link(caught):
                    break
        raise typed(error, path) from None

    def _open(self, place: Place, offset: int) -> Reader:
        if place.mount.suffixes is None and place.mount.max_file_bytes is None:
            return place.dir.open(place.relative, offset)
        self.table.check_content(place)
        reader = place.dir.open(place.relative, offset)
        try:
            self.table.check_content(place, reader.size)
        except SandboxError:
            reader.__exit__(None, None, None)
            raise
        return reader

    def _put(self, place: Place, data: bytes, mode: int | None) -> int:
        if place.mount.suffixes is not None or place.mount.max_file_bytes is not None:
            self.table.check_content(place, len(data))
        try:
            return place.dir.write(place.relative, data, mode)
        except FileNotFoundError:
            make_directories(place.dir, paths.split(place.relative)[0])
            return place.dir.write(place.relative, data, mode)

    def _batches(self, files: Mapping[str, bytes], *, follow: bool) -> "dict[Dir, _Batch]":
        """The files by the directory that holds them, each allowed."""
        batches: dict[Dir, _Batch] = {}
        seen: set[str] = set()
        for path, data in files.items():
            place = self.table.locate(self._canonical(path, last=True) if follow else path, write=True)
            if place.mount.suffixes is not None or place.mount.max_file_bytes is not None:
                self.table.check_content(place, len(data))
            if follow and place.path in seen:
                raise ConfigError(f"'{visible(path)}' is named twice, through a link.", path=path, hint="Name it once.")
            seen.add(place.path)
            batch = batches.get(place.dir)
            if batch is None:
                batch = batches[place.dir] = _Batch(place.mount.target, [])
            batch.writes.append(Write(place.relative, data))
        return batches

    def _write_all(self, batches: "dict[Dir, _Batch]", budget: Budget) -> None:
        made: list[tuple[Dir, str]] = []
        stages: list[tuple[_Batch, Stage]] = []
        try:
            for directory, batch in batches.items():
                with batch.errors():
                    _make_parents(directory, batch.writes, made)
                    stages.append((batch, directory.stage(_counted(batch.writes, budget))))
            _commit(stages)
        except BaseException:
            for _, stage in stages:
                stage.finish()
            unmake(made)
            raise
        for _, stage in stages:
            stage.finish()


class _Batch(NamedTuple):
    """The files of a set that one mount holds."""

    target: str
    writes: list[Write]

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Errors of the block as typed ones, about the file they name; links pass, for the caller to resolve."""
        try:
            yield
        except OSError as error:
            if _is_link(error):
                raise
            raise typed(error, paths.join(self.target, error.filename or "")) from None


def info(node: Node, path: str) -> FileInfo:
    """A directory entry as users see it."""
    return FileInfo(paths.name(path) or "/", path, node.kind, node.size, node.mode, node.mtime, node.target)


def make_directories(directory: Dir, path: str, made: list[tuple[Dir, str]] | None = None, mode: int = 0o755) -> None:
    """Make `path` and what is missing above it, and add what was made to `made`, outermost first."""
    missing = []
    while path:
        try:
            kind = directory.stat(path).kind
        except FileNotFoundError:
            missing.append(path)
            path = paths.split(path)[0]
            continue
        if kind != "directory":
            raise OSError(errno.ELOOP if kind == "link" else errno.ENOTDIR, "")
        break
    for number, path in enumerate(reversed(missing), 1):
        with suppress(FileExistsError):  # somebody else made it just now
            directory.mkdir(path, mode if number == len(missing) else 0o755)
            if made is not None:
                made.append((directory, path))


def unmake(made: list[tuple[Dir, str]]) -> None:
    """Remove directories that were made for something that then failed, as far as they are empty."""
    for directory, path in reversed(made):
        with suppress(OSError):
            directory.remove(path)


def amount(reader: Reader, path: str, offset: int, limit: int | None) -> int:
    """How many bytes a read returns, if one call may return that many."""
    wanted = max(0, reader.size - offset) if limit is None else min(limit, max(0, reader.size - offset))
    if wanted > MAX_READ:
        raise TooLargeError(
            f"'{visible(path)}' has {reader.size} bytes.",
            path=path,
            hint=f"Read a range of at most {MAX_READ} bytes with offset= and limit=, or download() it.",
        )
    return wanted


def check_mode(mode: int) -> None:
    """Permission bits only: a file with a set-uid bit would act as its owner on the host."""
    if type(mode) is not int or not 0 <= mode <= 0o777:
        raise ConfigError(f"mode={mode!r} is not a set of permissions.", hint="Give 0 to 0o777, such as 0o755.")


def refuse_root(table: MountTable, place: Place) -> None:
    """Refuse to remove, replace or move a mount itself, or what a view begins with."""
    if not place.relative or table.is_scope(place.path):
        raise PermissionDeniedError(
            f"'{visible(place.path)}' is a mount and stays where it is.",
            path=place.path,
            hint="Work on what is in it.",
        )


def _counted(writes: list[Write], budget: Budget) -> Iterator[Write]:
    """The files one by one, as long as somebody still waits for them."""
    for number, write in enumerate(writes):
        if number % 64 == 0:
            budget.spend()
        yield write


def _make_parents(directory: Dir, writes: list[Write], made: list[tuple[Dir, str]]) -> None:
    """Make what is missing above the files, and add it to `made`, also when something fails half-way."""
    for parent, write in {paths.split(write.path)[0]: write for write in reversed(writes)}.items():
        try:
            make_directories(directory, parent, made)
        except OSError as error:
            raise about(error, write.path) from None


def _commit(stages: list[tuple[_Batch, Stage]]) -> None:
    done: list[Stage] = []
    try:
        for batch, stage in stages:
            with batch.errors():
                stage.commit()
            done.append(stage)
    except BaseException:
        for stage in reversed(done):
            stage.rollback()
        raise


def _is_link(error: OSError) -> bool:
    """Whether a directory met a link, which is for this layer to resolve."""
    return error.errno == errno.ELOOP and not isinstance(error, SandboxError)


def _stat_target(place: Place) -> Node:
    node = place.dir.stat(place.relative)
    if node.kind == "link":
        raise OSError(errno.ELOOP, "")
    return node


def _directory(place: Place) -> Place:
    if place.relative and _stat_target(place).kind != "directory":  # a mount is always one
        raise OSError(errno.ENOTDIR, "")
    return place


def _virtual(name: str) -> Node:
    return Node(name, "directory", 0, 0o755, 0.0)
