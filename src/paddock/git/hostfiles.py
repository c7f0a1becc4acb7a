"""A directory of this host as a workspace, for a person who pulls without a sandbox. No link in it is followed."""

import builtins
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Self, TypeVar

from paddock import paths
from paddock.dirs.descriptor import DescriptorDir
from paddock.dirs.protocol import Node
from paddock.errors import (
    NotDirectoryError,
    NotFileError,
    NotFoundError,
    OutsideError,
    PermissionDeniedError,
    SandboxError,
    visible,
)
from paddock.finishing import in_thread
from paddock.git.context import WORKSPACE
from paddock.types.files import FileInfo

T = TypeVar("T")

_ERRORS: dict[int | None, type[SandboxError]] = {
    errno.ENOENT: NotFoundError,
    errno.EISDIR: NotFileError,
    errno.ENXIO: NotFileError,
    errno.ENOTDIR: NotDirectoryError,
    errno.ELOOP: OutsideError,
    errno.EACCES: PermissionDeniedError,
    errno.EPERM: PermissionDeniedError,
}


class HostFiles:
    """What the gate needs of files, below one directory, which it calls /workspace."""

    def __init__(self, directory: "str | os.PathLike[str]") -> None:
        self.directory = os.path.realpath(directory)
        try:
            self._dir = DescriptorDir.at(os.fspath(directory))
        except OSError as error:
            raise _ERRORS.get(error.errno, SandboxError)(
                f"The directory '{visible(os.fspath(directory))}' cannot be used: {error.strerror}.",
                path=os.fspath(directory),
                hint="Make it first, or name another one.",
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the directory."""
        self._dir.close()

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """A file, or a range of it."""

        def read(below: str) -> bytes:
            with self._dir.open(below, offset) as reader:
                left = max(reader.size - offset, 0)
                return reader.read(left if limit is None else min(limit, left))

        return await self._call(path, read)

    async def write(self, path: str, content: str | bytes, *, mode: int | None = None) -> None:
        """Put a whole file there; parents are made."""
        data = content.encode() if isinstance(content, str) else content

        def write(below: str) -> None:
            for index, letter in enumerate(below):
                if letter == "/":
                    with suppress(FileExistsError):
                        self._dir.mkdir(below[:index])
            self._dir.write(below, data, mode)

        await self._call(path, write)

    async def exists(self, path: str) -> bool:
        """Whether something is there."""
        try:
            await self.stat(path)
        except (NotFoundError, NotDirectoryError, OutsideError):
            return False
        return True

    async def stat(self, path: str) -> FileInfo:
        """What is there. A link is out of reach."""

        def stat(below: str) -> Node:
            node = self._dir.stat(below)
            if node.kind == "link":
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            return node

        return _info(paths.normalise(path, WORKSPACE), await self._call(path, stat))

    async def scan(self, path: str = ".") -> builtins.list[FileInfo]:
        """What is in a directory, links as links."""
        full = paths.normalise(path, WORKSPACE)
        nodes = await self._call(path, lambda below: self._dir.list(below, stats=True))
        return [_info(paths.join(full, node.name), node) for node in sorted(nodes, key=lambda node: node.name)]

    async def _call(self, path: str, work: Callable[[str], T]) -> T:
        full = paths.normalise(path, WORKSPACE)
        if not paths.within(full, WORKSPACE):
            raise OutsideError(f"'{visible(full)}' is not in the workspace.", path=full)
        with _typed(full):
            return await in_thread(work, paths.below(full, WORKSPACE))


@contextmanager
def _typed(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        cls = _ERRORS.get(error.errno, SandboxError)
        words = "leads through a link" if error.errno == errno.ELOOP else f"cannot be used: {error.strerror}"
        raise cls(f"'{visible(path)}' {words}.", path=path) from error


def _info(path: str, node: Node) -> FileInfo:
    return FileInfo(paths.name(path), path, node.kind, node.size, node.mode, node.mtime, node.target)
