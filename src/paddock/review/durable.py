"""Seeing that what was written is on the disk: file by file, or a whole file system at once where there are many."""

import ctypes
import os
from functools import cache

MOST_ONE_BY_ONE = 64
"""Files. Waiting for each of more takes longer than waiting for everything that others have written too."""


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def one_by_one(files: int) -> bool:
    """Whether each of so many files is to be waited for by itself."""
    return files <= MOST_ONE_BY_ONE


def sync_all(directory: int) -> None:
    """Wait for all that was written to the file system of a directory, which is open for reading."""
    if _libc().syncfs(directory) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def sync_directory(path: str | os.PathLike[str], *, all: bool = False) -> None:
    """Wait for the names in a directory; with `all`, for everything on its file system."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        (sync_all if all else os.fsync)(fd)
    finally:
        os.close(fd)
