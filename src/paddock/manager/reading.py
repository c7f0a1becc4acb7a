"""What others can see of a manager, from disk and from what runs: for those who have none, and beside one that runs."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from paddock.config import setting
from paddock.errors import ConflictError, NotFoundError, PermissionDeniedError
from paddock.manager import overview
from paddock.manager.asking import MANAGER, key_of, marks
from paddock.manager.entries import Entries, Entry
from paddock.manager.locks import become_holder, holder
from paddock.manager.places import Places
from paddock.manager.settings import chosen_unless_none, policy_name
from paddock.manager.workspaces import Workspaces
from paddock.sandbox.create import living
from paddock.state import manager_directory
from paddock.types import ManagedInfo, ManagerStats, SandboxInfo


def directory_of(state: str | None) -> Path:
    """Where a manager with this `state=` keeps things. Only without one there may be nothing yet."""
    found = manager_directory() if state is None else Path(os.path.abspath(state)) / "manager"
    directory = Path(os.path.realpath(found))
    try:
        os.close(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except PermissionError:
        raise PermissionDeniedError(
            f"The state directory '{found.parent}' is closed to this user.",
            hint="Be the user whose manager it is, or name another one.",
        ) from None
    except OSError as error:
        if state is not None:
            raise NotFoundError(
                f"There is nothing of a manager in the state directory '{found.parent}': {error.strerror}.",
                hint="Name the directory that a manager was given as state=.",
            ) from None
    return directory


async def forget_stopped(directory: Path, user: str, chat: str | None) -> list[Entry]:
    """Forget what does not run, for a user or one chat; what that is. A manager that runs has to be asked itself."""
    found = await _not_running(directory, user, chat)
    if not found:
        return []
    manager = holder(directory)
    if manager is None:
        lock = await become_holder(directory)
        try:
            found = await _not_running(directory, user, chat)
            for entry in found:
                Entries(directory).forget(entry.key)
        finally:
            lock.release()
    elif any(map(_stays_known, found := await _not_running(directory, user, chat))):
        raise ConflictError(
            f"What is stopped is known to a manager that runs, process {manager}.",
            hint="Call manager.remove(user, chat) there, or end it first.",
        )
    return found


async def _not_running(directory: Path, user: str, chat: str | None) -> list[Entry]:
    running = {record.info.id for record in await living()}
    found = [entry for entry in Entries(directory).read() if entry.key.user == user and chat in (None, entry.chat)]
    return [entry for entry in found if entry.sandbox not in running]


def _stays_known(entry: Entry) -> bool:
    """Whether a manager that runs does not forget it by itself, now that its sandbox has ended."""
    return entry.state == "stopped" or (entry.state == "running" and entry.policy.stays)


def is_of(info: SandboxInfo, directory: Path) -> bool:
    """Whether the manager of this directory made a sandbox."""
    return info.labels.get(MANAGER) == str(directory)


def managed(info: SandboxInfo) -> ManagedInfo | None:
    """What a manager keeps about a sandbox that runs, if one made it."""
    key, said = key_of(info), marks(info)
    if MANAGER not in info.labels or key is None or said is None:
        return None
    entry = Entries(Path(info.labels[MANAGER])).find(key)
    return ManagedInfo(
        user=key.user,
        chat=said.chat if entry is None else entry.chat,
        assistant=key.assistant,
        policy=policy_name(said.policy),
        state="running",
        workspace=said.workspace,
        sandbox=info.id,
        backend=info.backend,
        created=info.created,
        last_used=info.created if entry is None else entry.last_used,
    )


def stopped(directory: Path, running: set[str]) -> list[ManagedInfo]:
    """What is known there and has no sandbox that runs; those that are to be forgotten are not."""
    found = [_settled(entry, running) for entry in Entries(directory).read()]
    return [entry.info() for entry in found if entry.state == "stopped" and entry.policy.stays]


def _settled(entry: Entry, running: set[str]) -> Entry:
    return entry if entry.sandbox in running else replace(entry, state="stopped", sandbox=None)


@dataclass(frozen=True, slots=True)
class Overview:
    """All that can be told of one directory."""

    manager: int | None
    """The process whose manager has it."""
    stats: ManagerStats


def look(directory: Path, found: list[SandboxInfo]) -> Overview:
    """The numbers of a directory, with the limits of this program's settings."""
    ours = [info for info in found if is_of(info, directory)]
    places = Places(setting("manager_max").value, chosen_unless_none("max_per_user", None))
    for info in ours:
        key = key_of(info)
        if key is not None:
            places.take(key)
    infos = [kept for info in ours if (kept := managed(info)) is not None]
    infos += stopped(directory, {info.id for info in ours})
    return Overview(holder(directory), overview.stats(infos, None, places, Workspaces(directory)))
