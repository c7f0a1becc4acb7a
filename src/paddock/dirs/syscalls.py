"""The few system calls that Python's `os` does not have, by ctypes; with a portable answer where the kernel has none."""

import ctypes
import errno
import os
import stat
import struct
import sys
from functools import cache

RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2

_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_OPENAT2 = 437
_RENAMEAT2 = {"x86_64": 316, "aarch64": 276}.get(os.uname().machine)
_HOW_SIZE = 24

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@cache
def _how(flags: int) -> "ctypes.Array[ctypes.c_char]":
    resolve = _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS | _RESOLVE_NO_SYMLINKS
    return ctypes.create_string_buffer(struct.pack("QQQ", flags, 0, resolve), _HOW_SIZE)


@cache
def has_openat2() -> bool:
    """Whether this kernel (and any filter above it) lets us use `openat2`."""
    if sys.platform != "linux":
        return False
    here = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        os.close(_openat2(here, b".", os.O_PATH | os.O_CLOEXEC))
    except OSError:
        return False
    finally:
        os.close(here)
    return True


def open_beneath(root: int, path: bytes, flags: int) -> int:
    """Open what is at `path` below the directory `root`: no link anywhere on the way, no way out.

    Where there is no `openat2`, the path is walked name by name with `O_NOFOLLOW`, which comes to the same.
    """
    if not path:
        path = b"."
    if has_openat2():
        return _openat2(root, path, flags | os.O_CLOEXEC)
    return _walk(root, path, flags | os.O_CLOEXEC)


def chmod_directory(parent: int, name: bytes, mode: int) -> None:
    """Change the mode of a directory and of nothing else: by its own handle, since `chmod` would follow a link."""
    if sys.platform != "linux":
        os.chmod(name, mode, dir_fd=parent, follow_symlinks=False)
        return
    fd = open_beneath(parent, name, os.O_PATH | os.O_DIRECTORY)
    try:
        os.chmod(f"/proc/self/fd/{fd}", mode)
    finally:
        os.close(fd)


def rename(source: int, old: bytes, target: int, new: bytes, flags: int) -> None:
    """`renameat2`: `flags` says whether something at the target is an error, or swapped with the source."""
    if sys.platform != "linux" or _RENAMEAT2 is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    result = _libc().syscall(_RENAMEAT2, source, old, target, new, flags)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _openat2(root: int, path: bytes, flags: int) -> int:
    how, syscall = _how(flags), _libc().syscall
    while True:
        fd: int = syscall(_OPENAT2, root, path, how, _HOW_SIZE)
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code))


def _walk(root: int, path: bytes, flags: int) -> int:
    *directories, last = path.split(b"/")
    here = root
    try:
        for name in directories:
            step = _step(here, name, _DIRECTORY)
            if here != root:
                os.close(here)
            here = step
        return _step(here, last, flags | os.O_NOFOLLOW)
    finally:
        if here != root:
            os.close(here)


def _step(directory: int, name: bytes, flags: int) -> int:
    try:
        return os.open(name, flags, dir_fd=directory)
    except NotADirectoryError:
        # A link where a directory was wanted is ENOTDIR here and ELOOP to openat2.
        if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise
