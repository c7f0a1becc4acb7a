"""`Dir` over a directory descriptor: the kernel keeps every call beneath it."""

import builtins
import errno
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import Self

from paddock.dirs.names import temporary_name
from paddock.dirs.protocol import Change, Node, Stage, Write, about
from paddock.dirs.remove import remove_tree
from paddock.dirs.stamps import stamp_of
from paddock.dirs.syscalls import (
    RENAME_EXCHANGE,
    RENAME_NOREPLACE,
    chmod_directory,
    open_beneath,
    rename,
)
from paddock.paths import decode, encode

FILE_MODE = 0o644
MODE_BITS = 0o777
_MAX_OPEN = 128
_UTF8 = sys.getfilesystemencoding() == "utf-8"

_PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
_LISTABLE = os.O_RDONLY | os.O_DIRECTORY
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_UNNAMED = os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC if hasattr(os, "O_TMPFILE") else 0
_NOT_A_FILE = {stat.S_IFLNK: errno.ELOOP, stat.S_IFDIR: errno.EISDIR}
_NO_RENAMEAT2 = (errno.ENOSYS, errno.EINVAL, errno.EPERM)


def kind_of(mode: int) -> str:
    """What a file type is called."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "other"


class DescriptorDir:
    """A directory by its descriptor, which it owns."""

    remote = False

    def __init__(self, fd: int) -> None:
        self._root = fd

    @classmethod
    def at(cls, host_path: str) -> Self:
        """The directory at a path of this host; the path itself is trusted and its links are followed."""
        return cls(os.open(host_path, _PATH_ONLY | os.O_CLOEXEC))

    def stat(self, path: str) -> Node:
        with self._parent(path) as (directory, name):
            return _node(directory, name, path)

    def list(self, path: str, *, stats: bool) -> builtins.list[Node]:
        fd = open_beneath(self._root, encode(path), _LISTABLE)
        try:
            if not stats:
                with os.scandir(fd) as entries:
                    return [_bare(entry) for entry in entries]
            return [node for name in os.listdir(fd) if (node := _present(fd, os.fsencode(name))) is not None]
        finally:
            os.close(fd)

    def open(self, path: str, offset: int = 0) -> "DescriptorReader":
        raw = encode(path)
        if b"/" in raw:
            fd = open_beneath(self._root, raw, _READ)
        else:
            fd = os.open(raw or b".", _READ, dir_fd=self._root)
        try:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                raise _error(errno.EISDIR if stat.S_ISDIR(info.st_mode) else errno.ENXIO)
            if offset:
                os.lseek(fd, offset, os.SEEK_SET)
        except BaseException:
            os.close(fd)
            raise
        return DescriptorReader(fd, info, offset)

    def write(self, path: str, data: bytes | Iterable[bytes], mode: int | None, *, replace: bool = True) -> int:
        parent, _, last = path.rpartition("/")
        name = encode(last) or b"."
        directory = open_beneath(self._root, encode(parent), _PATH_ONLY) if parent else self._root
        try:
            keep = _replaceable(directory, name)
            if keep is not None and not replace:
                raise _error(errno.EEXIST)
            if keep is None and (fd := _unnamed(directory)) is not None:
                return _put_unnamed(fd, directory, name, data, _mode(mode, None), replace)
            temporary, size = _write_beside(directory, data, _mode(mode, keep))
            try:
                if replace:
                    os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
                else:
                    _rename_new(directory, temporary, directory, name)
            except BaseException:
                _unlink(directory, temporary)
                raise
            return size
        finally:
            if parent:
                os.close(directory)

    def stage(self, files: Iterable[Write]) -> "Stage":
        stage = DescriptorStage(self._root)
        try:
            for file in files:
                stage.add(file)
        except BaseException:
            stage.finish()
            raise
        return stage

    def mkdir(self, path: str, mode: int = 0o755) -> None:
        with self._parent(path) as (directory, name):
            os.mkdir(name, mode, dir_fd=directory)
            if os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode & MODE_BITS != mode:
                chmod_directory(directory, name, mode)  # the umask took bits away

    def remove(self, path: str, *, tree: bool = False) -> None:
        with self._parent(path) as (directory, name):
            if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                if tree:
                    remove_tree(directory, name)
                else:
                    os.rmdir(name, dir_fd=directory)
            else:
                os.unlink(name, dir_fd=directory)

    def rename(self, path: str, to: str, *, replace: bool) -> None:
        with self._parent(path) as (source, old), self._parent(to) as (target, new):
            if replace:
                os.rename(old, new, src_dir_fd=source, dst_dir_fd=target)
            else:
                _rename_new(source, old, target, new)

    def link(self, path: str, target: str) -> None:
        with self._parent(path) as (directory, name):
            os.symlink(encode(target), name, dir_fd=directory)

    def chmod(self, path: str, mode: int) -> None:
        with self._parent(path) as (directory, name):
            chmod_directory(directory, name, mode & MODE_BITS)

    def watch(self, path: str, notify: Callable[[builtins.list[Change]], None]) -> Callable[[], None]:
        from paddock.dirs.inotify import InotifySource
        from paddock.dirs.watching import watch_tree

        return watch_tree(InotifySource(self._root), path, notify)

    def identity(self, path: str) -> os.stat_result:
        """Which file or directory is at `path`, with no link on the way."""
        fd = open_beneath(self._root, encode(path), getattr(os, "O_PATH", os.O_RDONLY))
        try:
            return os.fstat(fd)
        finally:
            os.close(fd)

    def is_read_only(self, path: str) -> bool:
        """Whether what is at `path` lies on a mount that cannot be written."""
        fd = open_beneath(self._root, encode(path), getattr(os, "O_PATH", os.O_RDONLY))
        try:
            return bool(os.fstatvfs(fd).f_flag & os.ST_RDONLY)
        finally:
            os.close(fd)

    def close(self) -> None:
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    @contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, bytes]]:
        parent, _, name = path.rpartition("/")
        if not parent:
            yield self._root, encode(name) or b"."
            return
        fd = open_beneath(self._root, encode(parent), _PATH_ONLY)
        try:
            yield fd, encode(name)
        finally:
            os.close(fd)


class DescriptorReader:
    """An open regular file. One that grows as it is read ends where it ended when it was opened."""

    __slots__ = ("_fd", "_info", "_left", "mode", "size")

    def __init__(self, fd: int, info: os.stat_result, offset: int) -> None:
        self._fd = fd
        self._info = info
        self.size = info.st_size
        self.mode = info.st_mode & MODE_BITS
        self._left = max(0, info.st_size - offset)

    @property
    def stamp(self) -> int:
        return stamp_of(self._info)

    def read(self, size: int) -> bytes:
        wanted = min(size, self._left)
        data = os.read(self._fd, wanted)
        if len(data) < wanted:
            data += b"".join(_rest(self._fd, wanted - len(data)))
        self._left -= len(data)
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)


@dataclass(slots=True)
class _Staged:
    path: str
    parent: str
    name: bytes
    temporary: bytes
    replaced: bool = False
    """Whether the temporary name now holds what was in the file's place before."""


class DescriptorStage:
    """Files written under temporary names; `commit` swaps each into its place, so that each can be swapped back."""

    def __init__(self, root: int) -> None:
        self._directories = _OpenDirectories(root)
        self._files: list[_Staged] = []
        self._committed = 0

    def add(self, file: Write) -> None:
        """Write one more file beside its place."""
        parent, _, last = file.path.rpartition("/")
        name = encode(last) or b"."
        try:
            directory = self._directories.get(parent)
            mode = _mode(file.mode, _replaceable(directory, name))
            temporary, _ = _write_beside(directory, file.data, mode)
        except OSError as error:
            raise about(error, file.path) from None
        self._files.append(_Staged(file.path, parent, name, temporary))

    def commit(self) -> None:
        for file in self._files:
            try:
                self._put(file)
            except BaseException as error:  # noqa: BLE001 - raised again
                self.rollback()
                raise about(error, file.path) from None
            self._committed += 1

    def rollback(self) -> None:
        for file in reversed(self._files[: self._committed]):
            with suppress(OSError):  # somebody else moved or removed it; the others are still to be taken back
                directory = self._directories.get(file.parent)
                if file.replaced:
                    _exchange(directory, file.temporary, file.name)
                else:
                    os.unlink(file.name, dir_fd=directory)
        self._committed = 0

    def finish(self) -> None:
        for position, file in enumerate(self._files):
            if file.replaced or position >= self._committed:
                with suppress(OSError):
                    _unlink(self._directories.get(file.parent), file.temporary)
        self._files = []
        self._directories.close()

    def _put(self, file: _Staged) -> None:
        directory = self._directories.get(file.parent)
        try:
            _rename_new(directory, file.temporary, directory, file.name)
        except FileExistsError:
            _replaceable(directory, file.name)
            _exchange(directory, file.temporary, file.name)
            file.replaced = True


class _OpenDirectories:
    """The directories of a stage, of which it holds a bounded number open."""

    def __init__(self, root: int) -> None:
        self._root = os.dup(root)
        self._open: dict[str, int] = {}

    def get(self, path: str) -> int:
        """The descriptor of one, which stays open until the next call at least."""
        if not path:
            return self._root
        fd = self._open.get(path)
        if fd is None:
            if len(self._open) >= _MAX_OPEN:
                os.close(self._open.pop(next(iter(self._open))))
            fd = self._open[path] = open_beneath(self._root, encode(path), _PATH_ONLY)
        return fd

    def close(self) -> None:
        """Close all of them."""
        while self._open:
            os.close(self._open.popitem()[1])
        if self._root >= 0:
            os.close(self._root)
            self._root = -1


def _unnamed(directory: int) -> int | None:
    """A new file without a name, where the file system has such: quicker than renaming, and no crash leaves it behind."""
    if not _can_link():
        return None
    try:
        return os.open(b".", _UNNAMED, 0o600, dir_fd=directory)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
            raise
        return None


@cache
def _can_link() -> bool:
    return _UNNAMED != 0 and os.path.isdir("/proc/self/fd")


def _put_unnamed(fd: int, directory: int, name: bytes, data: bytes | Iterable[bytes], mode: int, replace: bool) -> int:
    """Fill the file and give it its name; if somebody else has just taken that, it replaces theirs as any write does."""
    try:
        size = _write_all(fd, data) if isinstance(data, bytes) else sum(_write_all(fd, part) for part in data)
        os.fchmod(fd, mode)
        source = f"/proc/self/fd/{fd}"
        try:
            os.link(source, name, dst_dir_fd=directory)
        except FileExistsError:
            if not replace:
                raise
            _replaceable(directory, name)
            temporary = temporary_name()
            os.link(source, temporary, dst_dir_fd=directory)
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        return size
    finally:
        os.close(fd)


def _write_beside(directory: int, data: bytes | Iterable[bytes], mode: int) -> tuple[bytes, int]:
    """A new file under a name nobody can guess, complete and closed: its name and size."""
    temporary = temporary_name()
    fd = os.open(temporary, _CREATE, 0o600, dir_fd=directory)
    try:
        size = _write_all(fd, data) if isinstance(data, bytes) else sum(_write_all(fd, part) for part in data)
        os.fchmod(fd, mode)  # and not when it is made: the umask is the whole process's, and may change
    except BaseException:
        os.close(fd)
        _unlink(directory, temporary)
        raise
    os.close(fd)
    return temporary, size


def _write_all(fd: int, data: bytes) -> int:
    size = len(data)
    written = os.write(fd, data)
    while written < size:
        written += os.write(fd, memoryview(data)[written:])
    return size


def _rest(fd: int, size: int) -> Iterator[bytes]:
    while size > 0 and (part := os.read(fd, size)):
        yield part
        size -= len(part)


def _replaceable(directory: int, name: bytes) -> int | None:
    """The mode of what a new file would replace: a regular file, or nothing."""
    try:
        mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISREG(mode):
        return mode
    raise _error(_NOT_A_FILE.get(stat.S_IFMT(mode), errno.ENXIO))


def _mode(asked: int | None, old: int | None) -> int:
    if asked is not None:
        return asked & MODE_BITS
    return FILE_MODE if old is None else old & MODE_BITS


def _rename_new(source: int, old: bytes, target: int, new: bytes) -> None:
    try:
        rename(source, old, target, new, RENAME_NOREPLACE)
    except OSError as error:
        if error.errno not in _NO_RENAMEAT2:
            raise
        try:
            os.stat(new, dir_fd=target, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(old, new, src_dir_fd=source, dst_dir_fd=target)
        else:
            raise _error(errno.EEXIST) from None


def _exchange(directory: int, one: bytes, other: bytes) -> None:
    try:
        rename(directory, one, directory, other, RENAME_EXCHANGE)
    except OSError as error:
        if error.errno not in _NO_RENAMEAT2:
            raise
        aside = temporary_name()
        os.rename(other, aside, src_dir_fd=directory, dst_dir_fd=directory)
        try:
            os.rename(one, other, src_dir_fd=directory, dst_dir_fd=directory)
        except OSError:
            os.rename(aside, other, src_dir_fd=directory, dst_dir_fd=directory)
            raise
        os.rename(aside, one, src_dir_fd=directory, dst_dir_fd=directory)


def _error(code: int) -> OSError:
    return OSError(code, os.strerror(code))


def _unlink(directory: int, name: bytes) -> None:
    with suppress(OSError):
        os.unlink(name, dir_fd=directory)


def _present(directory: int, name: bytes) -> Node | None:
    try:
        return _node(directory, name, decode(name))
    except FileNotFoundError:
        return None  # removed since the directory was read


def _node(directory: int, name: bytes, path: str) -> Node:
    while True:
        info = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISLNK(info.st_mode):
            return _from_stat(path.rpartition("/")[2], info)
        try:
            return _from_stat(path.rpartition("/")[2], info, decode(os.readlink(name, dir_fd=directory)))
        except OSError as error:
            if error.errno != errno.EINVAL:  # no longer a link: look again
                raise


def _from_stat(name: str, info: os.stat_result, target: str | None = None) -> Node:
    kind = kind_of(info.st_mode)
    stamp = stamp_of(info) if kind == "file" else None
    return Node(name, kind, info.st_size, info.st_mode & MODE_BITS, info.st_mtime, target, stamp)  # type: ignore[arg-type]


def _bare(entry: "os.DirEntry[str]") -> Node:
    name = entry.name if _UTF8 else decode(os.fsencode(entry.name))
    if entry.is_file(follow_symlinks=False):
        return Node(name, "file", 0, 0, 0.0)
    if entry.is_dir(follow_symlinks=False):
        return Node(name, "directory", 0, 0, 0.0)
    return Node(name, "link" if entry.is_symlink() else "other", 0, 0, 0.0)
