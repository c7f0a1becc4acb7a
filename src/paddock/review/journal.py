"""The journal of an apply: before it is committed nothing was done to the host, and afterwards everything will be."""

import errno
import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from paddock import state
from paddock.config import setting
from paddock.dirs.remove import remove_tree
from paddock.errors import NotFoundError, SandboxError, UnavailableError, visible
from paddock.review.carry import Left, carry_out
from paddock.review.durable import sync_directory
from paddock.review.host import Host
from paddock.review.plan import Plan, Root

_PLAN = "plan.json"
_LOCK = ".lock"
_UNFINISHED = ".new"
_OVER = ".old"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Recovered:
    """An apply that was cut off by a crash, and what became of it."""

    id: str
    finished: bool
    """Whether all of it is on the host now; otherwise nothing of it is."""
    left: tuple[Left, ...] = ()
    """What could not be finished: the host's file was changed after the crash. It is as it was found."""


class Journal:
    """One apply, while it is carried out. Its lock says that somebody is at it."""

    def __init__(self) -> None:
        directory = state.private(state.state_directory() / "applying")
        self._lock: int | None = None
        while self._lock is None:  # one who recovers may have removed it between its making and its locking
            self.id = secrets.token_hex(6)
            self._place = directory / self.id
            _lock_of(self._place).touch(mode=0o600, exist_ok=False)
            self._lock = _held(_lock_of(self._place), fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._is_committed = False
        self._beside = _beside(self._place)
        self._beside.mkdir(mode=0o700)

    @property
    def staging(self) -> Path:
        """Where contents are put before it is committed."""
        return self._beside

    @property
    def contents(self) -> Path:
        """Where they are afterwards."""
        return self._place

    def commit(self, plan: Plan) -> None:
        """From now on all of it will be done, whatever happens to us."""
        fd = os.open(self._beside / _PLAN, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="ascii") as file:
            json.dump(plan.to_dict(), file)
            file.flush()
            os.fsync(fd)
        sync_directory(self._beside, all=not plan.is_small)
        os.rename(self._beside, self._place)
        self._is_committed = True
        sync_directory(self._place.parent)

    def done(self) -> None:
        """All steps were taken."""
        self._is_committed = False

    def close(self) -> None:
        """Forget it if it is done or was never committed. Otherwise it is for `recover`."""
        if not self._is_committed:
            _forget(self._place)
        if self._lock is not None:
            _let_go(_lock_of(self._place), self._lock)
            self._lock = None


@contextmanager
def begun() -> Iterator[Journal]:
    """A journal for a block. It is gone afterwards, unless it was committed and is not done."""
    try:
        journal = Journal()
    except OSError as error:
        raise UnavailableError(
            f"A journal cannot be made: {error.strerror}.",
            hint="Free some space, or set PADDOCK_STATE to an absolute path elsewhere.",
        ) from error
    try:
        yield journal
    finally:
        journal.close()


@contextmanager
def opened(roots: Sequence[Root]) -> Iterator[list[Host]]:
    """The host directories, each of which has to be where it was, with no link on the way."""
    with ExitStack() as stack:
        hosts = []
        for root in roots:
            try:
                hosts.append(stack.enter_context(Host.at(root.lower)))
            except OSError as error:
                cls = NotFoundError if error.errno == errno.ENOENT else SandboxError
                raise cls(
                    f"The host directory of {root.target}, '{visible(root.lower)}', cannot be opened: {error.strerror}.",
                    path=root.lower,
                    hint="It has to be where it was when the sandbox began.",
                ) from error
        yield hosts


def recover() -> tuple[Recovered, ...]:
    """Finish or undo what crashes cut off. An apply that somebody is at is left to them. Nothing is made for it."""
    found = []
    for lock in sorted((Path(setting("state").value) / "applying").glob(f"*{_LOCK}")):
        fd = _held(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if fd is not None:
            try:
                found += _recovered(lock.with_suffix(""))
            finally:
                _let_go(lock, fd)
    return tuple(found)


def _recovered(place: Path) -> list[Recovered]:
    plan = _read(place / _PLAN)
    if plan is None:
        undone = _beside(place).exists()
        _forget(place)
        return [Recovered(place.name, finished=False)] if undone else []
    try:
        with opened(plan.roots) as hosts:
            left = carry_out(plan, place, hosts)
    except SandboxError as error:  # the directory may come back: it stays for the next time
        return [Recovered(place.name, finished=False, left=tuple(Left(r.target, error.message) for r in plan.roots))]
    _forget(place)
    return [Recovered(place.name, finished=True, left=left)]


def _read(path: Path) -> Plan | None:
    try:
        data = json.loads(path.read_bytes())
        return Plan.from_dict(data) if data["version"] == _VERSION else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _forget(place: Path) -> None:
    """Remove all of it. Half of a journal must not look like one, so it gets another name first."""
    over = place.with_name(place.name + _OVER)
    with suppress(FileNotFoundError):
        os.rename(place, over)
    for path in (over, _beside(place)):
        if path.exists():
            parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                remove_tree(parent, os.fsencode(path.name))
            finally:
                os.close(parent)


def _beside(place: Path) -> Path:
    return place.with_name(place.name + _UNFINISHED)


def _lock_of(place: Path) -> Path:
    return place.with_name(place.name + _LOCK)


def _held(path: Path, how: int) -> int | None:
    """The lock at a path, taken; None if somebody else has it, or it is gone."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    with suppress(BlockingIOError, FileNotFoundError):
        fcntl.flock(fd, how)
        if os.stat(path).st_ino == os.fstat(fd).st_ino:
            return fd
    os.close(fd)
    return None


def _let_go(lock: Path, fd: int) -> None:
    """The lock goes with its journal; one that has to wait for the next time keeps it."""
    if not lock.with_suffix("").exists():
        lock.unlink(missing_ok=True)
    os.close(fd)
