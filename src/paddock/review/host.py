"""Writing to a host directory: beneath it, through no link, as its owner, each file at once or not at all."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass

from paddock.dirs.owned import User
from paddock.dirs.syscalls import RENAME_NOREPLACE, open_beneath, rename
from paddock.paths import encode
from paddock.review.content import pieces
from paddock.review.durable import sync_all
from paddock.review.tree import MODE_BITS, Seen, Tree, descend, owner_of

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class _Place:
    """A name in a directory that is open."""

    directory: int
    name: bytes
    user: User | None

    def acting(self) -> AbstractContextManager[None]:
        return nullcontext() if self.user is None else self.user


class Host(Tree):
    """A host directory that is written to. Every path is relative to it; errors are `OSError`s."""

    @property
    def is_root(self) -> bool:
        """Whether modes are in nobody's way."""
        return os.geteuid() == 0 and self._user is None

    def put_file(self, path: str, temporary: bytes, content: int, made: Seen, *, new: bool, sync: bool) -> None:
        """A file with what is in `content`, written beside its place and then moved there. `new`: nothing may be there."""
        with self._place(path) as place:
            self._drop(place, temporary)
            with place.acting():
                fd = os.open(temporary, _CREATE, 0o600, dir_fd=place.directory)
            try:
                for piece in pieces(content, made.size):
                    _write(fd, piece)
                self._give(place, fd)
                os.fchmod(fd, made.mode & MODE_BITS)
                if sync:
                    os.fsync(fd)
            finally:
                os.close(fd)
            _move(place, temporary, new)

    def put_link(self, path: str, temporary: bytes, target: str, *, new: bool) -> None:
        """The same for a symbolic link."""
        with self._place(path) as place:
            self._drop(place, temporary)
            with place.acting():
                os.symlink(encode(target), temporary, dir_fd=place.directory)
            _move(place, temporary, new)

    def make_directory(self, path: str) -> None:
        """One for its owner alone; it gets its mode when all is in it."""
        with self._place(path) as place, place.acting():
            os.mkdir(place.name, 0o700, dir_fd=place.directory)

    def remove(self, path: str, *, directory: bool = False) -> None:
        """A file or link; or a directory, if it is empty."""
        with self._place(path) as place, place.acting():
            (os.rmdir if directory else os.unlink)(place.name, dir_fd=place.directory)

    def set_mode(self, path: str, mode: int) -> None:
        """Of a file or directory, by its handle: `chmod` would follow a link."""
        with self._place(path) as place, place.acting():
            handle = open_beneath(place.directory, place.name, os.O_PATH)
            try:
                if not stat.S_ISLNK(os.fstat(handle).st_mode):
                    os.chmod(f"/proc/self/fd/{handle}", mode & MODE_BITS)
            finally:
                os.close(handle)

    def drop(self, path: str, temporary: bytes) -> None:
        """Remove what a crash left beside a path."""
        with suppress(OSError), self._place(path) as place:
            self._drop(place, temporary)

    def sync(self, path: str) -> None:
        """See that the names in a directory are on the disk."""
        with self.directory(path) as fd:
            os.fsync(fd)

    def sync_all(self) -> None:
        """See that everything is."""
        with suppress(PermissionError), self.directory("") as fd:
            sync_all(fd)

    def _drop(self, place: _Place, temporary: bytes) -> None:
        with suppress(FileNotFoundError), place.acting():
            os.unlink(temporary, dir_fd=place.directory)

    def _give(self, place: _Place, fd: int) -> None:
        """The file that it replaces keeps its owner. Without one it belongs to whoever made it: the directory's owner."""
        try:
            with place.acting():
                old = os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
        except FileNotFoundError:
            return
        if not stat.S_ISREG(old.st_mode):
            return
        if self.is_root:
            os.fchown(fd, old.st_uid, old.st_gid)
        else:
            with suppress(PermissionError), place.acting():  # a group that we are not in
                os.fchown(fd, -1, old.st_gid)

    @contextmanager
    def _place(self, path: str) -> Iterator[_Place]:
        parent, _, name = path.rpartition("/")
        with self.acting():
            directory = descend(self.fd, parent, os.O_PATH | os.O_DIRECTORY)
        try:
            yield _Place(directory, encode(name) or b".", self._user or owner_of(directory))
        finally:
            os.close(directory)


def _move(place: _Place, temporary: bytes, new: bool) -> None:
    with place.acting():
        try:
            if not (new and _moved_to_nothing(place, temporary)):
                os.rename(temporary, place.name, src_dir_fd=place.directory, dst_dir_fd=place.directory)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=place.directory)
            raise


def _moved_to_nothing(place: _Place, temporary: bytes) -> bool:
    """False where the file system cannot say that nothing may be there: then it was looked at just before."""
    try:
        rename(place.directory, temporary, place.directory, place.name, RENAME_NOREPLACE)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EINVAL):
            raise
        return False
    return True


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
