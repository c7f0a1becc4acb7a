"""`Dir` for root: every call is made as the sandbox's own user, so that root reaches no more than the sandbox does.

The kernel keeps the user of file calls for each thread by itself. It is set for the length of one call, in whatever thread
makes it, and never across an await: all calls of a `Dir` are synchronous.
"""

import builtins
import ctypes
import errno
import os
from collections.abc import Callable, Iterable
from functools import cache

from paddock.dirs.descriptor import DescriptorDir, DescriptorReader
from paddock.dirs.inotify import InotifySource
from paddock.dirs.protocol import Change, Node, Stage, Write
from paddock.dirs.watching import Watched, watch_tree


@cache
def _libc() -> ctypes.PyDLL:
    """The one that keeps the interpreter's lock: the calls are shorter than giving it up."""
    return ctypes.PyDLL(None)


_SETGROUPS = {"x86_64": 116, "aarch64": 159}.get(os.uname().machine, -1)
"""The system call, which is about one thread. The library's function of that name changes all of them."""


class User:
    """Somebody whom file calls of this thread are made as, without our groups, for the length of a block."""

    __slots__ = ("_gid", "_own_gid", "_own_groups", "_own_uid", "_setfsgid", "_setfsuid", "_syscall", "_uid")

    def __init__(self, uid: int, gid: int) -> None:
        self._uid, self._gid = ctypes.c_uint(uid), ctypes.c_uint(gid)
        self._own_uid, self._own_gid = ctypes.c_uint(os.geteuid()), ctypes.c_uint(os.getegid())
        groups = os.getgroups()
        self._own_groups = (ctypes.c_uint * len(groups))(*groups)
        self._setfsuid, self._setfsgid, self._syscall = _libc().setfsuid, _libc().setfsgid, _libc().syscall

    def __enter__(self) -> None:
        try:
            if self._syscall(_SETGROUPS, 0, None) != 0:
                raise PermissionError(errno.EPERM, "the groups cannot be given up")
            self._setfsgid(self._gid)
            self._setfsuid(self._uid)
        except BaseException:  # a signal's handler may raise between any two calls
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            self._setfsuid(self._own_uid)
        finally:
            try:
                self._setfsgid(self._own_gid)
            finally:
                self._syscall(_SETGROUPS, len(self._own_groups), self._own_groups)

    def alone(self) -> "User":
        """The same with our groups: enough for what belongs to this user, since the kernel asks its owner for no more."""
        return _Alone(self._uid.value, self._gid.value)

    def maker(self) -> "User":
        """The same as `alone`, for what is made as well: it is to have the right group."""
        return _Maker(self._uid.value, self._gid.value)

    def can_be(self) -> bool:
        """Whether it works: the call itself never says that it failed, and tells who it was before instead."""
        nobody = ctypes.c_uint(0xFFFFFFFF)
        try:
            with self:
                uid, gid, groups = self._setfsuid(nobody), self._setfsgid(nobody), os.getgroups()
        except PermissionError:
            return False
        return (ctypes.c_uint(uid).value, ctypes.c_uint(gid).value, groups) == (self._uid.value, self._gid.value, [])


class _Alone(User):
    """A third of the calls: changing to another user takes longer than opening a file."""

    __slots__ = ()

    def __enter__(self) -> None:
        try:
            self._setfsuid(self._uid)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        self._setfsuid(self._own_uid)


class _Maker(User):
    """Two thirds of the calls."""

    __slots__ = ()

    def __enter__(self) -> None:
        try:
            self._setfsgid(self._gid)
            self._setfsuid(self._uid)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            self._setfsuid(self._own_uid)
        finally:
            self._setfsgid(self._own_gid)


class OwnedDir(DescriptorDir):
    """A directory by its descriptor, as somebody else. With `private`, all that is in it was made by that user."""

    def __init__(self, fd: int, user: User, *, private: bool = False) -> None:
        super().__init__(fd)
        self._user = user.maker() if private else user
        self._reader = user.alone() if private else user

    def stat(self, path: str) -> Node:
        with self._reader:
            return super().stat(path)

    def list(self, path: str, *, stats: bool) -> builtins.list[Node]:
        with self._reader:
            return super().list(path, stats=stats)

    def open(self, path: str, offset: int = 0) -> DescriptorReader:
        with self._reader:
            return DescriptorDir.open(self, path, offset)

    def write(self, path: str, data: bytes | Iterable[bytes], mode: int | None, *, replace: bool = True) -> int:
        with self._user:
            return super().write(path, data, mode, replace=replace)

    def stage(self, files: Iterable[Write]) -> "OwnedStage":
        with self._user:
            return OwnedStage(super().stage(files), self._user)

    def mkdir(self, path: str, mode: int = 0o755) -> None:
        with self._user:
            super().mkdir(path, mode)

    def remove(self, path: str, *, tree: bool = False) -> None:
        with self._user:
            super().remove(path, tree=tree)

    def rename(self, path: str, to: str, *, replace: bool) -> None:
        with self._user:
            super().rename(path, to, replace=replace)

    def link(self, path: str, target: str) -> None:
        with self._user:
            super().link(path, target)

    def chmod(self, path: str, mode: int) -> None:
        with self._user:
            super().chmod(path, mode)

    def watch(self, path: str, notify: Callable[[builtins.list[Change]], None]) -> Callable[[], None]:
        return watch_tree(_OwnedSource(self._root, self._user), path, notify)


class OwnedStage:
    """A stage, as somebody else."""

    def __init__(self, stage: Stage, user: User) -> None:
        self._stage, self._user = stage, user

    def commit(self) -> None:
        with self._user:
            self._stage.commit()

    def rollback(self) -> None:
        with self._user:
            self._stage.rollback()

    def finish(self) -> None:
        with self._user:
            self._stage.finish()


class _OwnedSource(InotifySource):
    def __init__(self, root: int, user: User) -> None:
        super().__init__(root)
        self._user = user

    def add(self, directory: str) -> Watched:
        with self._user:
            return super().add(directory)
