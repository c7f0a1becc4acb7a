"""The baselines: what a careful program would write with `os` alone, and nothing besides."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_TEMPORARY = ".temporary"
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@contextmanager
def directory(path: Path | str) -> Iterator[int]:
    """A directory's descriptor for the length of a block."""
    fd = os.open(path, _DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def write(at: int, path: str, temporary: str, data: bytes) -> None:
    """Put a whole file at `path`, atomically."""
    create(at, temporary, data)
    os.rename(temporary, path, src_dir_fd=at, dst_dir_fd=at)


def create(at: int, path: str, data: bytes) -> None:
    """Make a new file at `path`, directly."""
    fd = os.open(path, _CREATE, 0o644, dir_fd=at)
    os.write(fd, data)
    os.close(fd)


def read(at: int, path: str) -> bytes:
    """A whole file."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=at)
    data = os.read(fd, os.fstat(fd).st_size)
    os.close(fd)
    return data


def write_tree(root: Path, tree: Mapping[str, Iterable[str]], data: bytes, *, atomic: bool = True) -> None:
    """Make new directories with files in them: each file under a temporary name first, or directly."""
    for name, files in tree.items():
        path = root / name
        os.makedirs(path)
        with directory(path) as at:
            for file in files:
                if atomic:
                    write(at, file, _TEMPORARY, data)
                else:
                    create(at, file, data)
