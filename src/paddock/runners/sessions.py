"""Conversations that go on: what agents remember of them in their home, and how that gets from one sandbox to the next."""

import io
import os
import re
import secrets
import tarfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from uuid import NAMESPACE_URL, uuid4, uuid5

from paddock.errors import NotFileError, NotFoundError, PermissionDeniedError, SandboxError, TooLargeError
from paddock.finishing import in_thread
from paddock.runners.preparing import profile_place
from paddock.runners.shapes import can_be_said
from paddock.sandbox import Sandbox
from paddock.state import private, state_directory

_MARKS = ".paddock/sessions"
"""Below the home: by what name an agent's program knows a conversation."""
_LONGEST_NAME = 200
_NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.:-]{{0,{_LONGEST_NAME - 1}}}")
"""Which is no option of a program, either."""
_DAYS = 90
_MOST_BYTES = 64 << 20
_MOST_FILES = 2000
_MOST_ENTRIES = 4000


def session_id(key: str | None, profile: str | None = None) -> str:
    """The UUID of a conversation: the same for the same key of the same profile, and a new one without any key."""
    if key is None:
        return str(uuid4())
    whose = "" if profile is None else f"{profile_place(profile)}:"
    spelled = f"session:{key}" if can_be_said(key) else f"bytes:{key.encode('utf-8', 'surrogatepass').hex()}"
    return str(uuid5(NAMESPACE_URL, f"paddock:{whose}{spelled}"))


class Marks:
    """What one agent's program calls the conversations of one home. The files are the sandbox's: little is believed."""

    def __init__(self, sandbox: Sandbox, home: str, agent: str) -> None:
        self._sandbox = sandbox
        self._home = home
        self._agent = agent

    async def known(self, session: str) -> str | None:
        """Its name for a conversation, if it has one."""
        try:
            content = await self._sandbox.read_bytes(self._path(session), limit=_LONGEST_NAME + 1)
        except SandboxError:
            return None
        name = content.decode("utf-8", "replace")
        return name if _NAME.fullmatch(name) else None

    async def set(self, session: str, name: str) -> None:
        """It has one from now on; where the agent has made that impossible, it will begin anew."""
        if not _NAME.fullmatch(name):
            return
        with suppress(SandboxError):
            try:
                await self._sandbox.write(self._path(session), name)
            except SandboxError:
                await self.remove(session)
                await self._sandbox.write(self._path(session), name)

    async def remove(self, session: str) -> None:
        """It has none after all."""
        with suppress(SandboxError):
            await self._sandbox.delete(self._path(session), recursive=True)

    def _path(self, session: str) -> str:
        return f"{self._home}/{_MARKS}/{self._agent}-{session}"


class Sessions:
    """Conversations kept on this host for 90 days after their last use. What is kept is only ever given to sandboxes."""

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        """In the state directory, if no other is given."""
        self._directory = None if directory is None else Path(directory)

    def knows(self, agent: str, key: str, profile: str | None = None) -> bool:
        """Whether a conversation of this agent is kept, by the `session=` and the `profile=` of its runner."""
        return self._path(agent, session_id(key, profile)).exists()

    async def restore(self, sandbox: Sandbox, home: str, agent: str, session: str) -> bool:
        """Put what the agent remembers into its home; whether there was anything."""
        files = await in_thread(_unpacked, self._path(agent, session), home)
        if files:
            await sandbox.write_files(files)
        return bool(files)

    async def save(self, sandbox: Sandbox, home: str, agent: str, session: str, places: Iterable[str]) -> None:
        """Keep what the agent remembers. More than 64 MiB or 2000 files of it is a `TooLargeError`, and nothing is kept."""
        path = self._path(agent, session)
        try:
            files = await _read(sandbox, home, [f"{_MARKS}/{agent}-{session}", *places])
        except TooLargeError:
            await in_thread(path.unlink, missing_ok=True)  # or it would go on where it was before that
            raise
        if files:
            await in_thread(_pack, path, files)

    def _path(self, agent: str, session: str) -> Path:
        directory = private(self._directory or state_directory() / "sessions")
        return directory / f"{agent}-{session}.tar"


async def _read(sandbox: Sandbox, home: str, places: Iterable[str]) -> dict[str, bytes]:
    """The files at these places, by their paths below the home."""
    files: dict[str, bytes] = {}
    left = _MOST_BYTES
    for path in await _below(sandbox, home, places):
        with suppress(NotFoundError, NotFileError, PermissionDeniedError):  # as it is now
            content = await sandbox.read_bytes(path, limit=left + 1)
            left -= len(content)
            if left < 0 or len(files) >= _MOST_FILES:
                raise _too_much()
            files[path.removeprefix(f"{home}/")] = content
    return files


async def _below(sandbox: Sandbox, home: str, places: Iterable[str]) -> list[str]:
    """The regular files at these places."""
    found = []
    for place in places:
        path = f"{home}/{place}"
        with suppress(NotFoundError):
            info = await sandbox.stat(path)
            candidates = await sandbox.glob("**/*", path) if info.kind == "directory" else [path]
            if len(candidates) > _MOST_ENTRIES:  # each is looked at
                raise _too_much()
            found += [name for name in candidates if await _is_file(sandbox, name)]
    return found


def _too_much() -> TooLargeError:
    return TooLargeError("What the agent remembers is too much to be kept.", hint="Begin a new conversation.")


async def _is_file(sandbox: Sandbox, path: str) -> bool:
    with suppress(SandboxError):
        return (await sandbox.stat(path)).kind == "file"
    return False


def _pack(path: Path, files: dict[str, bytes]) -> None:
    part = path.with_name(f".{secrets.token_hex(8)}.new")
    try:
        with part.open("xb") as file, tarfile.open(fileobj=file, mode="w") as archive:
            for name, content in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    _forget_old(path.parent)


def _unpacked(path: Path, home: str) -> dict[str, bytes]:
    """The files, by where they belong; nothing is written to this host."""
    files = {}
    with suppress(FileNotFoundError, tarfile.TarError), tarfile.open(path) as archive:
        for member in archive:
            reader = archive.extractfile(member) if member.isreg() else None
            if reader is not None:
                files[f"{home}/{member.name}"] = reader.read()
        os.utime(path)
    return files


def _forget_old(directory: Path) -> None:
    for path in (*directory.glob("*.tar"), *directory.glob(".*.new")):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - _DAYS * 86400:
                path.unlink()
