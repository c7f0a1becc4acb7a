"""Workspaces on disk: a directory for each, what is known about it beside what a sandbox sees, and a lock.

NAME.ws-…/.workspace.json   whose it is, since when, when it was last used
          .lock             held shared by whoever uses it, and alone by whoever takes it away
          workspace/        what a sandbox sees
          cache/
"""

import errno
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from paddock.dirs.remove import remove_tree
from paddock.dirs.syscalls import chmod_directory
from paddock.errors import ConflictError, NotFoundError, SandboxError, UnavailableError, visible
from paddock.finishing import in_thread
from paddock.manager.about import ABOUT, About, Workspace, read
from paddock.manager.entries import remove_unfinished, write_whole
from paddock.manager.keys import Place
from paddock.manager.locks import FileLock, take, take_patiently
from paddock.paths import within
from paddock.records import SandboxRecord
from paddock.sandbox.create import living
from paddock.state import private
from paddock.types.managed import WorkspaceInfo

_SHOWN = ("workspace", "cache")
_LOCK = ".lock"
_BEING_MADE, _GONE = ".new-", ".gone-"
_LOOKS, _PAUSE = 3, 0.001


class Workspaces:
    """All workspaces of one manager's directory. Every process may look, and take away what nobody uses."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "workspaces"

    # Looking

    def all(self) -> list[Workspace]:
        """Those that are there, by name."""
        return list(self._listed())

    def find(self, id: str) -> Workspace:
        """The one with this id."""
        found = [one for one in self._listed() if one.id == id] if isinstance(id, str) else []
        if not found:
            raise NotFoundError(
                f"There is no workspace '{visible(str(id))}'.", hint="`paddock workspaces` lists those that are there."
            )
        return found[0]

    async def infos(self) -> list[WorkspaceInfo]:
        """All of them, as they are told."""
        return await in_thread(self._infos, await living())

    async def users(self, workspace: Workspace) -> list[str]:
        """The ids of detached sandboxes that run and see it, whoever made them. Engines are asked what runs."""
        return await in_thread(_users, workspace, await living())

    async def is_used(self, workspace: Workspace) -> bool:
        """Whether a lease, or a sandbox that runs, holds it."""
        return await in_thread(_is_leased, workspace) or bool(await self.users(workspace))

    def _infos(self, running: list[SandboxRecord]) -> list[WorkspaceInfo]:
        return [one.info(in_use=_is_leased(one) or bool(_users(one, running))) for one in self._listed()]

    def _listed(self) -> Iterator[Workspace]:
        if not self._directory.is_dir():
            return
        for path in sorted(self._directory.iterdir()):
            if not path.name.startswith(".") and path.is_dir():
                with suppress(FileNotFoundError):  # just taken away
                    yield Workspace(f"ws-{path.name.rpartition('.ws-')[2]}", path, read(path))

    # Using

    def hold(self, place: Place, now: float) -> tuple[Workspace, FileLock] | None:
        """The workspace of somebody, made if it is missing, and a lock that keeps it from being taken away.

        None if somebody has it to himself just now, for a moment.
        """
        path = self._path(place)
        while True:
            is_new = self._make(place, path, now)
            with suppress(FileNotFoundError):  # taken away between the two
                lock = take(path / _LOCK, shared=True)
                about = replace(read(path), place=place)
                if lock is None:
                    return None
                _open_up(path)
                return Workspace(place.id, path, about, is_new), lock

    def note(self, workspace: Workspace, about: About) -> None:
        """Keep this about it from now on."""
        with suppress(UnavailableError):  # it may just have been taken away, or the disk is full: not worth a request
            write_whole(workspace.directory / ABOUT, json.dumps(about.to_dict()))

    def touch(self, place: Place, now: float) -> None:
        """It was used. Only for those who hold it."""
        path = self._path(place)
        with suppress(FileNotFoundError):
            about = replace(read(path), place=place, last_used=now)
            self.note(Workspace(place.id, path, about), about)

    def _path(self, place: Place) -> Path:
        return self._directory / place.directory_name()

    def _make(self, place: Place, path: Path, now: float) -> bool:
        """Whole or not at all: built under another name, and renamed. Whether it was missing."""
        if path.is_dir():
            return False
        private(self._directory)
        new = self._directory / f"{_BEING_MADE}{secrets.token_hex(8)}"
        try:
            new.mkdir(mode=0o700)
            for name in _SHOWN:
                (new / name).mkdir()
                (new / name).chmod(0o755)
            write_whole(new / ABOUT, json.dumps(About(place, now, now).to_dict()))
            os.rename(new, path)
        except OSError as error:
            self._remove(new)
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise UnavailableError(
                    f"A workspace cannot be made: {error.strerror}.", hint="Free some space, or give another state=."
                ) from error
            return False
        return True

    # Taking away

    async def take_away(self, workspace: Workspace) -> None:
        """Remove it with all that is in it. `ConflictError` if something uses it: also what began to while we looked."""
        gone = self._directory / f"{_GONE}{secrets.token_hex(8)}"
        lock = await self._alone(workspace)
        try:
            if read(workspace.directory).last_used != workspace.about.last_used:
                raise ConflictError(f"The workspace {workspace.id} was just used.", hint="Look again.")
            await self._refuse_used(workspace)
            os.rename(workspace.directory, gone)
            try:
                await self._refuse_used(workspace)
            except BaseException as error:
                if _put_back(gone, workspace.directory) or not isinstance(error, ConflictError):
                    raise
        except FileNotFoundError:
            return
        finally:
            lock.release()
        if not await in_thread(self._remove, gone):
            raise SandboxError("Some files of the workspace could not be removed.", hint="The next clean tries again.")

    def drop_new(self, workspace: Workspace) -> None:
        """Remove one that was made just now and has nothing in it, unless somebody else has begun to use it."""
        with suppress(OSError):
            lock = take(workspace.directory / _LOCK)
            if lock is None:
                return
            gone = self._directory / f"{_GONE}{secrets.token_hex(8)}"
            try:
                if not any(os.listdir(workspace.directory / name) for name in _SHOWN):
                    os.rename(workspace.directory, gone)
                    self._remove(gone)
            finally:
                lock.release()

    async def refuse_leased(self, workspace: Workspace) -> None:
        """A `ConflictError` if somebody has a lease: that cannot be ended from outside."""
        (await self._alone(workspace)).release()

    def tidy(self, *, unmade: bool) -> None:
        """Remove what was being taken away, and with `unmade` what was being made, when somebody was killed."""
        for prefix in (_GONE, _BEING_MADE) if unmade else (_GONE,):
            for path in self._directory.glob(f"{prefix}*"):
                self._remove(path)
        if unmade:
            for path in self._directory.glob("*.ws-*"):
                remove_unfinished(path, ABOUT)

    async def _alone(self, workspace: Workspace) -> FileLock:
        try:
            lock = await take_patiently(workspace.directory / _LOCK, tries=_LOOKS)
        except FileNotFoundError:
            raise NotFoundError("The workspace is gone.", hint="`paddock workspaces` lists what is there.") from None
        if lock is None:
            raise ConflictError(
                f"The workspace {workspace.id} is in use: somebody has a lease.", hint="Try again when that has ended."
            )
        return lock

    async def _refuse_used(self, workspace: Workspace) -> None:
        users = await self.users(workspace)
        if users:
            raise ConflictError(
                f"The workspace {workspace.id} is in use by {', '.join(users)}.",
                hint="Remove the sandbox first, or pass force=True.",
            )

    def _remove(self, path: Path) -> bool:
        try:
            parent = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                remove_tree(parent, os.fsencode(path.name))
            finally:
                os.close(parent)
        except OSError:
            return False
        return True


def _open_up(path: Path) -> None:
    """Their owner gets into what is shown, whatever somebody in a sandbox made of the modes."""
    parent = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in _SHOWN:
            with suppress(OSError):  # one that somebody on this host took away is missed when it is mounted
                mode = stat.S_IMODE(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
                if mode & 0o700 != 0o700:
                    chmod_directory(parent, os.fsencode(name), mode | 0o700)
    finally:
        os.close(parent)


def _put_back(gone: Path, directory: Path) -> bool:
    """Whether that could be: then whoever sees it noticed nothing. Else a new one was made meanwhile, and is what is used."""
    try:
        os.rename(gone, directory)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        return False
    return True


def _is_leased(workspace: Workspace) -> bool:
    """Whoever else asks has the lock for a moment, and is not mistaken for somebody who uses it."""
    for _ in range(_LOOKS):
        try:
            lock = take(workspace.directory / _LOCK)
        except OSError:
            return False
        if lock is not None:
            lock.release()
            return False
        time.sleep(_PAUSE)
    return True


def _users(workspace: Workspace, running: list[SandboxRecord]) -> list[str]:
    real = os.path.realpath(workspace.directory)
    return [record.info.id for record in running if _sees(record, real)]


def _sees(record: SandboxRecord, directory: str) -> bool:
    sources = [os.path.realpath(mount.source) for mount in record.mounts if mount.source is not None]
    return any(within(source, directory) or within(directory, source) for source in sources)
