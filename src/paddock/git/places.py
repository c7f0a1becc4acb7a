"""Where the gate keeps things on this host, and locks for what several processes use."""

import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from paddock import state
from paddock.config import setting
from paddock.errors import GitError, UnavailableError

_LOCK = ".lock"
_WAIT = 0.02
_UNUSED = 30 * 86400


def directory(*names: str) -> Path:
    """A directory of the gate's own in the state directory."""
    path = state.private(state.state_directory() / "git")
    for name in names:
        path = state.private(path / name)
    return path


def hashed(text: str) -> str:
    """A name for a file about something whose own name may be anything."""
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def without_places(text: str) -> str:
    """What a library or a program said, without where the gate keeps things."""
    return text.replace(str(setting("state").value), "…")


def sweep_repos() -> None:
    """Remove what was kept of repositories that nobody used for long; it can be had again."""
    with suppress(OSError):
        for own in directory("repos").iterdir():
            if (own / "config").stat().st_mtime < time.time() - _UNUSED:
                with suppress(GitError), alone(own.name, 0):
                    shutil.rmtree(own, ignore_errors=True)


@contextmanager
def alone(name: str, seconds: float, stopped: Callable[[], bool] = lambda: False) -> Iterator[int]:
    """Nobody else on this host works on what has this name, while the block runs, or somebody has the lock's descriptor."""
    fd = os.open(directory("locks") / f"{name}{_LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _take(fd, time.monotonic() + seconds, stopped)
        yield fd
    finally:
        os.close(fd)


def _take(fd: int, deadline: float, stopped: Callable[[], bool]) -> None:
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline or stopped():
                raise GitError(
                    "Another process works on that repository.", hint="Wait for it and try again.", operation="lock"
                ) from None
            time.sleep(_WAIT)
        else:
            return


def write_private(path: Path, data: bytes) -> None:
    """A whole file at once or not at all, for nobody else's eyes."""
    beside = path.with_name(f"{path.name}{state.UNFINISHED}.{os.getpid()}.{time.monotonic_ns()}")
    try:
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        os.rename(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise no_room(error) from error


def no_room(error: OSError) -> UnavailableError:
    """What to say when the state directory does not take something."""
    return UnavailableError(
        f"The git gate cannot write to its directory: {error.strerror}.",
        hint="Free some space, or set PADDOCK_STATE to an absolute path elsewhere.",
    )


def read_private(path: Path) -> bytes | None:
    """A file of the gate's own; None if it is not there."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        raise
    with os.fdopen(fd, "rb") as file:
        return file.read()


def as_json(data: Any) -> bytes:
    """The one form in which the same data is always written."""
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode("ascii")
