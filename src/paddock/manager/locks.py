"""Locks on files that end with the process that took them, and that a forked child does not keep."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from paddock.errors import ConflictError, UnavailableError

_TRIES = 100
_PAUSE = 0.005


class FileLock:
    """A lock that is held, until `release` or the end of the process."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        _held.add(self)

    def release(self) -> None:
        """Let go. Again is fine."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def write(self, text: str) -> None:
        """Say something to those who find it held."""
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, text.encode(), 0)


_held: WeakSet[FileLock] = WeakSet()


def _forget_all() -> None:
    for lock in list(_held):
        lock.release()  # which lets go only here: the lock is the parent's as long as that has it open


os.register_at_fork(after_in_child=_forget_all)


def take(path: Path, *, shared: bool = False) -> FileLock | None:
    """The lock at `path`, or None if somebody has it."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            if _is_there(path, fd):
                return FileLock(fd)
            os.close(fd)  # it was moved away, with all that is beside it
        except BlockingIOError:
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise


async def take_patiently(path: Path, *, tries: int = _TRIES) -> FileLock | None:
    """The lock at `path`, for nobody else. Who only asks holds it for a moment, and is waited for."""
    import asyncio

    for _ in range(tries):
        lock = take(path)
        if lock is not None:
            return lock
        await asyncio.sleep(_PAUSE)
    return None


def _is_there(path: Path, fd: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.stat(path), os.fstat(fd))
    return False


async def become_holder(directory: Path) -> FileLock:
    """Be the one manager of a directory; a second one is told who is."""
    path = directory / "lock"
    try:
        lock = await take_patiently(path)
    except OSError as error:
        raise UnavailableError(
            f"The manager's directory cannot be locked: {error.strerror}.", hint="Choose another with state=."
        ) from error
    if lock is None:
        raise ConflictError(
            f"Another manager has this state directory: process {_written(path) or 'unknown'}.",
            hint="End that one, ask it, or give this one a directory of its own with state=.",
        )
    lock.write(f"{os.getpid()}\n")
    return lock


def holder(directory: Path) -> int | None:
    """The process whose manager has this directory, if there is one."""
    path = directory / "lock"
    if not path.exists():
        return None
    lock = take(path, shared=True)
    if lock is None:
        return _written(path) or 0
    lock.release()
    return None


def _written(path: Path) -> int:
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return 0
