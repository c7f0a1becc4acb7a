"""The directories and small files that the kernel shows cgroups as."""

import os

_PIECE = 16 << 10


def make(path: str) -> None:
    """Make a cgroup."""
    os.mkdir(path)


def remove(path: str) -> None:
    """Remove a cgroup with nothing in it."""
    os.rmdir(path)


def read(path: str) -> str:
    """What the kernel says there."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(fd, _PIECE):
            parts.append(part)
    finally:
        os.close(fd)
    return os.fsdecode(b"".join(parts))


def write(path: str, text: str) -> None:
    """Tell the kernel, which takes all of it or raises; no file is ever made."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, os.fsencode(text))
    finally:
        os.close(fd)
