"""Runs a program as an ordinary user who can reach what root shows: `as_user.py UID PATH… -- PROGRAM …`, started by root.

A checkout or an interpreter below /root is closed to all others. So this goes into a mount namespace of its own, where the
closed directory above each path is covered with an open one that holds the path, and nothing else of what was there.
Nothing is copied, paths are what they were, and nobody outside sees any of it.
"""

import ctypes
import os
import sys
from pathlib import Path

CLONE_NEWNS, MS_BIND, MS_REC, MS_SLAVE = 0x20000, 0x1000, 0x4000, 0x80000


def main(uid: int, paths: list[str], program: list[str]) -> None:
    here = os.getcwd()
    _check(_libc().unshare(CLONE_NEWNS))
    _mount("none", "/", MS_REC | MS_SLAVE)
    handles = {path: os.open(path, os.O_PATH | os.O_DIRECTORY) for path in paths}
    for path, handle in handles.items():
        closed = _closed_above(Path(path), uid)
        if closed is not None:
            _mount("tmpfs", str(closed), 0, kind="tmpfs", options="mode=755")
        if closed is not None or not os.path.isdir(path):
            os.makedirs(path, exist_ok=True)
            _mount(f"/proc/self/fd/{handle}", path, MS_BIND | MS_REC)
    os.chdir(here)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    os.execv(program[0], program)


def _closed_above(path: Path, uid: int) -> Path | None:
    """The first directory on the way that this user may not pass."""
    for above in reversed(path.parents):
        info = above.stat()
        if not info.st_mode & (0o100 if info.st_uid == uid else 0o001):
            return above
    return None


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _mount(source: str, target: str, flags: int, *, kind: str = "none", options: str = "") -> None:
    _check(_libc().mount(source.encode(), target.encode(), kind.encode(), flags, options.encode()))


def _check(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    end = sys.argv.index("--")
    main(int(sys.argv[1]), sys.argv[2:end], sys.argv[end + 1 :])
