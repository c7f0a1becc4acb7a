"""Where Paddock keeps things on this host, and what a crash, or a detached sandbox that ended, left there."""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from paddock import cgroups
from paddock.config import DEFAULT, once, setting, xdg_base
from paddock.dirs.remove import remove_tree
from paddock.errors import ConfigError, SandboxError, UnavailableError

_LOCK = ".lock"
_RECORD = ".json"
_SERVED = ".served"
UNFINISHED = ".new"
SOCKET = ".sock"
_SECONDS_TO_ASK = 0.2
_PROGRAMS = "programs"
_ELSEWHERE = "kept elsewhere"
"""A note: whether this one lives, a container engine knows."""
_MOST_NOTES = 1 << 16
_MAX_RUNTIME = 64  # a socket's path has 107 bytes, and its own name needs some of them


class OwnDirectory(NamedTuple):
    """A directory of Paddock's own, and the variable that moves it."""

    path: str
    name: str
    variable: str


@once
def state_directory() -> Path:
    """`$PADDOCK_STATE`, else `$XDG_STATE_HOME/paddock`, else `~/.local/state/paddock`; made if missing, 0700."""
    return private(Path(setting("state").value))


def own_name() -> str:
    """A name for the state directory that no other one has, on whatever machine: engines may serve several."""
    path = state_directory()
    info, machine = path.stat(), ""
    with suppress(OSError):
        machine = Path("/etc/machine-id").read_text(encoding="ascii").strip()
    known = (machine or os.uname().nodename, os.path.realpath(path), info.st_dev, info.st_ino)
    return sha256(repr(known).encode()).hexdigest()[:16]


@once
def cache_directory() -> Path:
    """What can be made again: `$XDG_CACHE_HOME/paddock`, else `~/.cache/paddock`; made if missing, 0700."""
    if xdg_base("XDG_CACHE_HOME", ".cache") is None:
        state_directory()
    return private(_cache_path(), "cache directory", "XDG_CACHE_HOME")


def programs_directory() -> Path:
    """Where programs of this host lie, each in a directory of its own that sandboxes may be shown."""
    return private(cache_directory() / _PROGRAMS, "cache directory", "XDG_CACHE_HOME")


@once
def _cache_path() -> Path:
    base = xdg_base("XDG_CACHE_HOME", ".cache")
    return Path(setting("state").value) / "cache" if base is None else Path(base) / "paddock"


@once
def own_directories() -> tuple[OwnDirectory, ...]:
    """What no sandbox may see of this host, whatever it is shown; nothing is made."""
    return (
        OwnDirectory(str(setting("state").value), "state", "PADDOCK_STATE"),
        OwnDirectory(str(runtime_path()), "runtime", "PADDOCK_RUNTIME"),
        OwnDirectory(str(_cache_path()), "cache", "XDG_CACHE_HOME"),
    )


def manager_directory() -> Path:
    """Where a manager keeps what it knows, and the workspaces of its users; nothing is made."""
    return Path(setting("state").value) / "manager"


def is_for_sandboxes(path: str) -> bool:
    """Whether a path without links is what they may see of these: a manager's workspace or its cache, or one program."""
    if os.path.dirname(path) == os.path.realpath(_cache_path() / _PROGRAMS):
        return True
    above = os.path.realpath(manager_directory() / "workspaces")
    return os.path.basename(path) in ("workspace", "cache") and os.path.dirname(os.path.dirname(path)) == above


def runtime_directory() -> Path:
    """Where sockets are: `$PADDOCK_RUNTIME`, else `$XDG_RUNTIME_DIR/paddock`, else in the state directory; 0700.

    A socket's path has little room, so a default that is too long becomes a private directory in /tmp.
    """
    path = runtime_path()
    if path.parent == _in_tmp():
        _own_in_tmp(path.parent)
    return private(path, "runtime directory", "PADDOCK_RUNTIME")


@once
def runtime_path() -> Path:
    """The path of `runtime_directory`; nothing is made."""
    chosen = setting("runtime")
    path = Path(chosen.value)
    short = len(os.fsencode(path)) <= _MAX_RUNTIME
    if chosen.source != DEFAULT:
        if not short:
            raise ConfigError(
                f"{chosen.source}: the runtime directory {chosen.value!r} is too long for the path of a socket.",
                hint=f"Choose one of at most {_MAX_RUNTIME} bytes.",
            )
        return path
    if short and _is_ours(path.parent):
        return path
    return _in_tmp() / f"{crc32(os.fsencode(path)):08x}"  # another one for every path that it stands for


def _is_ours(parent: Path) -> bool:
    """Whether the default can be used: `$XDG_RUNTIME_DIR` may be left over from another user, or from another boot."""
    if parent == Path(setting("state").value):
        return True
    try:
        info = parent.stat()
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid()


def _in_tmp() -> Path:
    return Path(f"/tmp/paddock-{os.geteuid()}")  # noqa: S108 - see below


def _own_in_tmp(path: Path) -> None:
    """Make it ours in a place where everybody may make things: what is there already may be somebody's link."""
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    info = path.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
        raise UnavailableError(
            f"{path} is not a directory of yours.", hint="Set PADDOCK_RUNTIME to a short absolute path of your own."
        )
    private(path, "runtime directory", "PADDOCK_RUNTIME")


def private(path: Path, what: str = "state directory", variable: str = "PADDOCK_STATE") -> Path:
    """The directory at `path`, made if missing, ours and closed to everybody else."""
    try:
        info = _made(path)
    except OSError as error:
        raise UnavailableError(
            f"Paddock's {what} cannot be made ({error.strerror}).",
            hint=f"Set {variable} to an absolute path of a directory that you can write.",
        ) from error
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
        raise UnavailableError(
            f"Paddock's {what} belongs to somebody else.",
            hint=f"Set {variable} to an absolute path of a directory of your own.",
        )
    if info.st_mode & 0o077:
        path.chmod(0o700)
    return path


def is_own() -> bool:
    """Whether the state directory is there and ours. What lies in somebody else's is not obeyed; nothing is made."""
    try:
        info = os.stat(setting("state").value)
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid() and not info.st_mode & 0o022


def _made(path: Path) -> os.stat_result:
    """What is there, made if nothing is. Every sandbox asks, so the usual case is one system call."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path.stat()


class PrivateDirectory:
    """The directory of one sandbox. A lock beside it is held while its owner lives: `sweep` knows what a crash left.

    The owner is this process, and with it everybody who inherits the lock's descriptor.
    """

    def __init__(self, sandbox: str, *, later: bool = False) -> None:
        """With `later` only the lock is there from the start, and the directory when something is made in it."""
        parent = private(state_directory() / "sandboxes")
        self._lock_path = parent / f"{sandbox}{_LOCK}"
        self._owner = os.getpid()
        self.path = parent / sandbox
        self._lock = -1
        self._notes: list[str] = []
        self._has_others = False
        self._there = False
        self._expected: list[str] = []
        self.held: list[int] = []
        """Descriptors of what was removed, for somebody to close who has the time."""
        try:
            self._lock = _hold(self._lock_path)
            if not later:
                self._make()
        except OSError as error:
            self._release()
            raise UnavailableError(
                f"A private directory cannot be made: {error.strerror}.",
                hint="Free some space, or set PADDOCK_STATE to an absolute path elsewhere.",
            ) from error

    def note_cgroups(self, paths: Iterable[str]) -> None:
        """Remember the cgroups that belong to it, so that a sweep ends what is left in there."""
        self._note(paths)

    def note_socket(self, path: str) -> None:
        """Remember a socket that belongs to it, so that a sweep removes it."""
        self._has_others = True
        self._note([path])

    def _note(self, paths: Iterable[str]) -> None:
        """They are lines of the lock file."""
        self._notes += paths
        os.pwrite(self._lock, os.fsencode("\n".join(self._notes)), 0)

    def lock(self) -> int:
        """One more descriptor of the lock, for somebody else: as long as it is open anywhere, nothing is swept."""
        return os.dup(self._lock)

    def note_elsewhere(self) -> None:
        """Remember that it is kept by a container engine: it lives until that is asked, and `forget` was called."""
        self._has_others = True
        self._note([_ELSEWHERE])

    def let_go(self) -> None:
        """It is somebody else's from now on."""
        self._close()

    def make(self, name: str) -> Path:
        """A directory in it."""
        if not self._there:
            self._make()
        path = self.path / name
        os.mkdir(path, 0o755)
        if os.stat(path).st_mode & 0o777 != 0o755:  # the umask took bits away
            os.chmod(path, 0o755)  # noqa: S103 - what is above it is 0700
        return path

    def _make(self) -> None:
        os.mkdir(self.path, 0o700)
        self._there = True

    def expect(self, *paths: Path) -> None:
        """What is in directories that were made, or will be, and is nobody's work: the deepest first."""
        self._expected += map(os.fspath, paths)

    def clear_empty(self) -> bool:
        """Remove the directory if there are no files in it, only what `make` made. Whether it is gone.

        Those who still hold such a directory can put nothing into it any more, so nobody's end has to be awaited for this.
        They are in `held` from then on: a disk takes its time to free one, and whoever lets go of it last waits for that.
        """
        if self._lock < 0 or self._owner != os.getpid():
            return False
        self._there = self._there and not _removed_empty(os.fspath(self.path), self._expected, self.held)
        return not self._there

    def remove_empty(self) -> bool:
        """Remove it if there are no files in it: then it takes no time. Whether it is gone."""
        if not self.clear_empty():
            return False
        self._release()
        return True

    def remove(self) -> None:
        """Remove it with everything in it. In a forked child it is still the parent's, and stays."""
        if self._lock < 0:
            return
        if self._owner != os.getpid():
            self._close()
            return
        try:
            _remove(self.path)
        except OSError as error:
            self._close()  # so that a sweep can try again
            raise SandboxError(
                f"Private files could not be removed: {error.strerror}.",
                hint="The next sandbox that is made tries again.",
            ) from error
        self._release()

    def _release(self) -> None:
        with suppress(OSError):
            if self._has_others:
                _remove_beside(self._lock_path, self._notes)
            self._lock_path.unlink(missing_ok=True)
        self._close()

    def _close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def sweep() -> int:
    """Remove the directories whose owners are gone; how many there were."""
    parent = state_directory() / "sandboxes"
    swept = 0
    for lock in parent.glob(f"*{_LOCK}"):
        with suppress(OSError):  # in use, or not to be removed: the others still are
            swept += _sweep_one(lock)
    return swept


def sweep_one(sandbox: str, seconds: float = _SECONDS_TO_ASK) -> bool:
    """The same for one whose owner is gone; whether nothing of it is left. Others who ask may hold it for a moment."""
    lock, deadline = _lock_of(sandbox), time.monotonic() + seconds
    while True:
        try:
            _sweep_one(lock)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
        except OSError:
            return False
        else:
            return True
        time.sleep(0.002)


def is_held(sandbox: str) -> bool:
    """Whether the owner of a private directory lives, or may: about one that is kept elsewhere, others have to be asked."""
    return _is_held(_lock_of(sandbox))


def has_owner(sandbox: str) -> bool:
    """Whether a process holds it now."""
    return _is_held(_lock_of(sandbox), elsewhere=False)


def is_living(record: Path) -> bool:
    """`is_held` for one whose record is at hand: where many run, finding the state directory for each would be most of it."""
    return _is_held(record.with_suffix(_LOCK))


def _is_held(lock: Path, *, elsewhere: bool = True) -> bool:
    """Asking does not look like an owner to others who ask."""
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return elsewhere and _ELSEWHERE in _notes(fd)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)


def forget(sandbox: str) -> bool:
    """Remove what is left of one that was kept elsewhere and is not there any more; whether nothing is left."""
    with suppress(OSError):
        fd = os.open(_lock_of(sandbox), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            noted = [note for note in _notes(fd) if note != _ELSEWHERE]
            os.ftruncate(fd, 0)
            os.pwrite(fd, os.fsencode("\n".join(noted)), 0)
        finally:
            os.close(fd)
    return sweep_one(sandbox)


def _notes(fd: int) -> list[str]:
    return os.fsdecode(os.pread(fd, _MOST_NOTES, 0)).splitlines()


def record_path(sandbox: str) -> Path:
    """Where the record of a detached sandbox is: beside its private directory."""
    return private(state_directory() / "sandboxes") / f"{sandbox}{_RECORD}"


def serve_alone(sandbox: str) -> int | None:
    """Be the one who serves the network of a detached sandbox, until this descriptor is closed; None if somebody is.

    It is a lock on this host: what runs inside can neither take it nor take it away.
    """
    path = private(state_directory() / "sandboxes") / f"{sandbox}{_SERVED}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except BaseException:
        os.close(fd)
        raise
    return fd


def records() -> list[Path]:
    """Every record there is, of the living and of those that are to be swept."""
    return sorted((state_directory() / "sandboxes").glob(f"*{_RECORD}"))


@contextmanager
def records_alone() -> Iterator[None]:
    """Nobody else adds or removes a record meanwhile. It is for moments: others wait."""
    fd = os.open(private(state_directory() / "sandboxes") / ".records", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _lock_of(sandbox: str) -> Path:
    return state_directory() / "sandboxes" / f"{sandbox}{_LOCK}"


def _hold(path: Path) -> int:
    """The lock at `path`, taken. A sweep may have removed the file between its making and its locking: once more."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.stat(path).st_ino == os.fstat(fd).st_ino:
                return fd
        os.close(fd)


def _sweep_one(lock: Path) -> bool:
    """Whether it was there. One that is held is a BlockingIOError."""
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        notes = _taken_over(lock, fd)
        _end_processes(notes)
        _remove(_directory_of(lock))
        lock.unlink(missing_ok=True)
    finally:
        os.close(fd)
    return True


def _taken_over(lock: Path, fd: int) -> list[str]:
    """What is noted about one whose owner is gone, which we are from now on. One that has an owner is an error."""
    record = _directory_of(lock).with_suffix(_RECORD)
    with records_alone() if record.exists() else nullcontext():
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        notes = _notes(fd)
        if _ELSEWHERE in notes and record.exists():  # without one, its maker was killed before anything was made there
            raise BlockingIOError(errno.EAGAIN, "it may live, elsewhere")
        _remove_beside(lock, notes)
    return notes


def _remove_beside(lock: Path, notes: Iterable[str]) -> None:
    """The socket and the record, which others would take for a sandbox that lives, and who serves it."""
    directory = _directory_of(lock)
    for path in notes:
        if os.path.basename(path) == f"{directory.name}{SOCKET}":
            with suppress(FileNotFoundError):
                os.unlink(path)
    for suffix in (_RECORD, f"{_RECORD}{UNFINISHED}", _SERVED):
        directory.with_suffix(suffix).unlink(missing_ok=True)


def _directory_of(lock: Path) -> Path:
    return lock.with_name(lock.name.removesuffix(_LOCK))


def _end_processes(noted: list[str]) -> None:
    """What the owner's commands left, if its supervisor was killed too."""
    for cgroup in noted:
        if os.path.basename(cgroup).startswith(cgroups.NAME):
            cgroups.remove(cgroup)


def _removed_empty(path: str, expected: list[str], held: list[int]) -> bool:
    """Whether it could be removed with the directories in it, which are all empty. They are opened before."""
    try:
        try:
            _remove_each(expected, held)
        except PermissionError:  # the kernel lets nobody enter what it makes for itself
            for inner in reversed(expected):
                with suppress(FileNotFoundError):
                    os.chmod(inner, 0o700)
            _remove_each(expected, held)
        for inner in [os.path.join(path, name) for name in os.listdir(path)]:
            held.append(os.open(inner, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW))
            os.rmdir(inner)
        os.rmdir(path)
    except OSError:
        return False
    return True


def _remove_each(paths: list[str], held: list[int]) -> None:
    """Empty directories and files, which are no longer in the list when they are gone."""
    while paths:
        with suppress(FileNotFoundError):
            fd = os.open(paths[0], os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
            held.append(fd)
            os.rmdir(paths[0]) if stat.S_ISDIR(os.fstat(fd).st_mode) else os.unlink(paths[0])
        del paths[0]


def _remove(path: Path) -> None:
    parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        remove_tree(parent, os.fsencode(path.name))
    finally:
        os.close(parent)
