"""Looking at a directory tree that somebody hostile may change meanwhile: by descriptor, no links, of any depth."""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Self

from paddock.dirs.descriptor import kind_of
from paddock.dirs.owned import User
from paddock.dirs.syscalls import open_beneath
from paddock.paths import decode, encode
from paddock.review.bounds import check_count
from paddock.types.files import Kind
from paddock.types.record import Record

MODE_BITS = 0o777
_LISTABLE = os.O_RDONLY | os.O_DIRECTORY
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_MOST_AT_ONCE = 3000
"""Bytes of a path that the kernel is given in one call: it takes 4,096."""
MOVED = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ESTALE)
"""What was there a moment ago is something else now, or a link is in the way."""


@dataclass(frozen=True, slots=True)
class Seen(Record):
    """What was at a path when somebody looked, itself and not what it links to."""

    kind: Kind
    mode: int = 0
    size: int = 0
    ino: int = 0
    ctime_ns: int = 0
    target: str | None = None
    sha256: str | None = None
    """Of a file that was read as well."""
    uid: int = 0
    gid: int = 0
    dev: int = 0
    whiteout: bool = False
    """Whether an overlay means by it that nothing is there."""


def seen(info: os.stat_result, target: str | None = None) -> Seen:
    """The same in our words."""
    kind: Kind = kind_of(info.st_mode)  # type: ignore[assignment]
    return Seen(
        kind=kind,
        mode=info.st_mode & MODE_BITS,
        size=info.st_size if kind == "file" else 0,
        ino=info.st_ino,
        ctime_ns=info.st_ctime_ns,
        target=target,
        uid=info.st_uid,
        gid=info.st_gid,
        dev=info.st_dev,
        whiteout=stat.S_ISCHR(info.st_mode) and info.st_rdev == 0,
    )


def owner_of(fd: int) -> User | None:
    """Whom root works as in a directory; None where we are nobody but ourselves, or it is root's own."""
    info = os.fstat(fd)
    if os.geteuid() != 0 or info.st_uid == 0:
        return None
    user = User(info.st_uid, info.st_gid)
    return user if user.can_be() else None  # a root without that right has no others either


class Tree:
    """A directory and all below it, as its owner where we are root.

    `ours` is one of Paddock's own, where a directory that its owner cannot enter is opened for the moment. In a directory
    of the host's nothing is changed by looking.
    """

    def __init__(self, fd: int, *, ours: bool = False) -> None:
        self.fd = fd
        self._ours = ours
        self._user = owner_of(fd)

    @classmethod
    def at(cls, path: str, *, ours: bool = False) -> Self:
        """The one at an absolute path. On the way to a host directory no link may be; one of ours is where we put it."""
        if ours:
            return cls(os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), ours=True)
        top = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return cls(descend(top, path.strip("/"), os.O_PATH | os.O_DIRECTORY))
        finally:
            os.close(top)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def listed(self, path: str) -> dict[str, Seen]:
        """The entries of a directory by their names."""
        with self.directory(path) as fd:
            names = os.listdir(fd)
            check_count(len(names))  # each is looked at before anybody counts
            return _looked(fd, names)

    def looked(self, path: str, names: Iterable[str]) -> dict[str, Seen]:
        """Those of `names` that are in a directory; none if there is no such directory."""
        try:
            with self.directory(path, os.O_PATH) as fd:
                return _looked(fd, names)
        except OSError as error:
            if error.errno not in MOVED:
                raise
            return {}

    def look(self, path: str) -> Seen | None:
        """What is at a path below it; None if nothing is, or a link is on the way."""
        parent, _, name = path.rpartition("/")
        return self.looked(parent, [name]).get(name)

    @contextmanager
    def open(self, path: str) -> Iterator[int]:
        """A regular file for reading. Whatever else is there is an `OSError` of `MOVED`, and never waited for."""
        parent, _, name = path.rpartition("/")
        with self.directory(parent, os.O_PATH) as directory:
            fd = self._opened(directory, encode(name))
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
            yield fd
        finally:
            os.close(fd)

    def acting(self) -> AbstractContextManager[None]:
        """For a block: as the owner."""
        return nullcontext() if self._user is None else self._user

    @contextmanager
    def directory(self, path: str, flags: int = os.O_RDONLY) -> Iterator[int]:
        """A directory below it, open for a block in which file calls are made as the owner."""
        with self.acting(), ExitStack() as stack:
            try:
                fd = descend(self.fd, path, flags | os.O_DIRECTORY)
                stack.callback(os.close, fd)
                locked = self._ours and os.fstat(fd).st_mode & 0o500 != 0o500
            except PermissionError:
                if not self._ours:
                    raise
                locked = True
            yield _unlocked(stack, self.fd, path) if locked else fd

    def _opened(self, directory: int, name: bytes) -> int:
        try:
            return open_beneath(directory, name, _READ)
        except PermissionError:
            if not self._ours:
                raise
            with ExitStack() as stack:
                handle = open_beneath(directory, name, os.O_PATH)
                stack.callback(os.close, handle)
                _allow(stack, handle, 0o400)
                return open_beneath(directory, name, _READ)


def descend(root: int, path: str, flags: int) -> int:
    """Open a directory below another, however long the path is."""
    here, opened = root, -1
    pieces = list(_pieces(encode(path)))
    try:
        for index, piece in enumerate(pieces):
            last = index == len(pieces) - 1
            step = open_beneath(here, piece, flags if last else os.O_PATH | os.O_DIRECTORY)
            if opened >= 0:
                os.close(opened)
            here = opened = step
    except BaseException:
        if opened >= 0:
            os.close(opened)
        raise
    return opened


def _pieces(path: bytes) -> Iterator[bytes]:
    while len(path) > _MOST_AT_ONCE:
        cut = path.rfind(b"/", 0, _MOST_AT_ONCE)
        if cut <= 0:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        yield path[:cut]
        path = path[cut + 1 :]
    yield path


def _unlocked(stack: ExitStack, root: int, path: str) -> int:
    """The same, name by name, with what stands in the owner's own way allowed until the stack is left."""
    here = os.dup(root)
    stack.callback(os.close, here)
    for name in encode(path).split(b"/") if path else ():
        _allow(stack, here, 0o100)
        here = open_beneath(here, name, os.O_PATH | os.O_DIRECTORY)
        stack.callback(os.close, here)
    _allow(stack, here, 0o500)
    fd = open_beneath(here, b".", _LISTABLE)
    stack.callback(os.close, fd)
    return fd


def _allow(stack: ExitStack, handle: int, bits: int) -> None:
    """Until the stack is left, its owner may do this with it. By its handle, so it is this one and no other."""
    info = os.fstat(handle)
    if info.st_mode & bits == bits or not (stat.S_ISDIR(info.st_mode) or stat.S_ISREG(info.st_mode)):
        return
    path = f"/proc/self/fd/{handle}"
    os.chmod(path, info.st_mode & MODE_BITS | bits)
    stack.callback(os.chmod, path, info.st_mode & MODE_BITS)


def _looked(directory: int, names: Iterable[str]) -> dict[str, Seen]:
    found = {}
    for name in names:
        raw = os.fsencode(name) or b"."
        try:
            info = os.stat(raw, dir_fd=directory, follow_symlinks=False)
            target = decode(os.readlink(raw, dir_fd=directory)) if stat.S_ISLNK(info.st_mode) else None
        except OSError as error:
            if error.errno not in (*MOVED, errno.EINVAL, errno.ENAMETOOLONG):
                raise
            continue  # gone, or something else by now
        found[decode(os.fsencode(name))] = seen(info, target)
    return found
