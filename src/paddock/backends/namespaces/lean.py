"""The mount namespace that root starts sandboxes from: this host's, without most of what is mounted in it.

To leave that behind takes a launcher up to half a millisecond, so the first that does it hands the namespace over to the
others. It holds until what is mounted on this host, in the places that are kept, is something else.
"""

import os
import select
import socket
import threading
from contextlib import suppress
from functools import cache

from paddock.paths import within

_MOUNTS = "/proc/self/mountinfo"


class _Lean:
    """One that was asked for, and what is kept in it as it was then."""

    def __init__(self, kept: tuple[str, ...]) -> None:
        self._kept = kept
        self._root = _root()
        self._watched = os.open(_MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
        self._changes = select.poll()
        self._changes.register(self._watched, select.POLLPRI)
        self._mounts = self._mounted()
        self._coming: socket.socket | None = None
        self._fd = -1

    def words(self, inherited: list[int]) -> list[str]:
        """What the launcher is told, with its descriptor: to use this one, or to hand it over. Or nothing: another does."""
        self._take()
        if self._fd >= 0:
            inherited.append(os.dup(self._fd))
            return ["--in", str(inherited[-1])]
        if self._coming is not None:
            return []
        self._coming, theirs = socket.socketpair()
        self._coming.setblocking(False)
        inherited.append(theirs.detach())
        return ["--give", str(inherited[-1])]

    def holds(self, kept: tuple[str, ...]) -> bool:
        """Whether it still is what it was made from."""
        if kept != self._kept or self._root != _root():
            return False
        return not self._changes.poll(0) or self._mounted() == self._mounts

    def close(self) -> None:
        """Forget it."""
        for fd in (self._watched, self._fd):
            if fd >= 0:
                os.close(fd)
        if self._coming is not None:
            self._coming.close()

    def _take(self) -> None:
        """If it has come; or will never come, since whoever was to hand it over has ended."""
        if self._coming is not None:
            with suppress(BlockingIOError):
                _, fds, _, _ = socket.recv_fds(self._coming, 1, 1)
                for self._fd in fds:
                    os.set_inheritable(self._fd, False)
                self._coming.close()
                self._coming = None

    def _mounted(self) -> list[bytes]:
        """The mounts of this host in the places that are kept."""
        os.lseek(self._watched, 0, os.SEEK_SET)
        with open(self._watched, "rb", closefd=False) as file:
            return [line for line in file if any(within(os.fsdecode(line.split()[4]), path) for path in self._kept)]


_known: _Lean | None = None


def words(kept: tuple[str, ...], inherited: list[int]) -> list[str]:
    """What the launcher is told about the namespace, in which these places are kept; nothing, if there are none."""
    global _known
    if not kept:
        return []
    with _lock(os.getpid()):
        if _known is not None and not _known.holds(kept):
            _known.close()
            _known = None
        if _known is None:
            _known = _Lean(kept)
        return _known.words(inherited)


@cache
def _lock(process: int) -> threading.Lock:
    """A forked child may have been forked while another thread of its parent's held that one's."""
    del process
    return threading.Lock()


def _root() -> tuple[int, int, int]:
    """Which namespace, and which root in it, this process has."""
    root = os.stat("/")
    return os.stat("/proc/self/ns/mnt").st_ino, root.st_dev, root.st_ino
