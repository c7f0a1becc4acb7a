"""A manager that is open: its parts, its tasks, and their end."""

import os
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from paddock.errors import NotFoundError
from paddock.finishing import in_thread, to_the_end
from paddock.manager.adoption import adopt
from paddock.manager.asking import Ask
from paddock.manager.cleaning import clean
from paddock.manager.clock import Clock, SteadyTime
from paddock.manager.keeper import Keeper
from paddock.manager.keys import Key
from paddock.manager.lease import Lease
from paddock.manager.leasing import Leases
from paddock.manager.locks import FileLock, become_holder
from paddock.manager.making import Maker
from paddock.manager.places import Places
from paddock.manager.settings import Settings
from paddock.manager.sweeping import Sweeper
from paddock.manager.telling import Teller
from paddock.manager.underway import Underway
from paddock.manager.watching import Watcher
from paddock.sandbox import Sandbox
from paddock.state import manager_directory, private
from paddock.types import ManagedInfo, Removal

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class Running:
    """The parts of an open manager."""

    def __init__(self, directory: Path, settings: Settings, clock: Clock, lock: FileLock) -> None:
        self._directory = directory
        self._settings = settings
        self._clock = clock
        places = Places(settings.max_total, settings.max_per_user)
        self.keeper = Keeper(self._directory, places, SteadyTime(clock), Teller())
        self.sweeper = Sweeper(self.keeper)
        self._leases = Leases(self.keeper, Maker(self.keeper, self.sweeper))
        self._underway = Underway()
        self._watching: asyncio.Task[None] | None = None
        self._lock = lock

    @classmethod
    async def begun(cls, directory: Path, settings: Settings, clock: Clock) -> "Running":
        """The one manager of this directory, with all that is there taken over."""
        chosen_by = "PADDOCK_STATE" if directory == manager_directory() else "state="
        real = Path(os.path.realpath(private(directory, "manager's directory", chosen_by)))
        lock = await become_holder(real)
        try:
            running = cls(real, settings, clock, lock)
        except BaseException:
            lock.release()
            raise
        try:
            await running._begin()
        except BaseException:
            await to_the_end(running.end())
            raise
        return running

    async def _begin(self) -> None:
        import asyncio

        with self.keeper.teller.telling("open") as act:
            act.count = await adopt(self.keeper, self.sweeper, self._settings)
            await self.sweeper.sweep()
        if self._settings.sweep_every is not None:
            watcher = Watcher(self._clock, self._directory, self._settings.sweep_every, self._settings.clean_at)
            self._watching = asyncio.ensure_future(watcher.run(self.sweeper.sweep, self.clean))

    async def end(self) -> None:
        """Let go of everything, when nothing is being done any more. Twice is fine."""
        import asyncio

        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        await self._underway.end()
        await self._leases.take_back_all()
        await self.keeper.settled()
        for slot in self.keeper.slots.values():
            slot.let_go()
        self.keeper.teller.tell("close", None, None)
        self.keeper.teller.close()
        self._lock.release()

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Serve a call, unless the manager is closed; if it is closed meanwhile, that is a `ClosedError`."""
        return await self._underway.do(work)

    # Sandboxes

    async def lease(self, ask: Ask, known: Iterable[Key] = ()) -> Lease:
        """A lease; a caller who is cancelled leaves nothing."""
        return await self._underway.do(self._leases.lease(ask, known), Lease.release)

    async def put_away(self, keys: Iterable[Key], action: Literal["stop", "remove"], only: str | None) -> None:
        """Stop or forget what there is for these keys; with `only`, what has that workspace."""
        for key in keys:
            await self.keeper.put_away(key, action, "it was asked for", only)

    async def infos(self, user: str | None) -> list[ManagedInfo]:
        """The sandboxes of a user, or of all. Where a lease has lost its own, it is looked at what runs."""
        if any(slot.may_have_died for slot in self.keeper.slots.values()):
            await self.sweeper.drop_dead()
        found = []
        for slot in self.keeper.slots.values():
            if slot.entry is not None and user in (None, slot.key.user):
                slot.observe()
                found.append(slot.info())
        return sorted(found, key=lambda info: (info.created, info.user, info.chat))

    # Workspaces

    async def delete_workspace(self, id: str, force: bool) -> None:
        """Remove one; with `force` whatever uses it is ended first."""
        with self.keeper.teller.telling("delete_workspace", id):
            workspace = await in_thread(self.keeper.workspaces.find, id)
            if force:
                await self._free(id)
                for sandbox in await self.keeper.workspaces.users(workspace):
                    with suppress(NotFoundError):
                        await to_the_end(Sandbox.remove(sandbox))
                workspace = await in_thread(self.keeper.workspaces.find, id)
            await self.keeper.workspaces.take_away(workspace)
            await self._forget_homeless()

    async def _free(self, workspace: str) -> None:
        for slot in list(self.keeper.slots.values()):
            if slot.entry is not None and slot.entry.workspace == workspace:
                await self.keeper.put_away(slot.key, "remove", "its workspace is removed")

    async def clean(self, dry_run: bool = False) -> list[Removal]:
        """Sweep, then remove workspaces that are stale."""
        with self.keeper.teller.telling("clean") as act:
            done = await self.sweeper.sweep(dry_run=dry_run)
            now, retention = self.keeper.time.now(), self._settings.retention
            done += await clean(self._directory, now, retention, dry_run=dry_run)
            if not dry_run:
                await self._forget_homeless()
            act.count = len(done)
            return done

    async def _forget_homeless(self) -> None:
        """What is stopped and has lost its workspace has nothing to start again with."""
        there = {one.id for one in await in_thread(self.keeper.workspaces.all)}
        for slot in list(self.keeper.slots.values()):
            if slot.entry is not None and slot.entry.state == "stopped" and slot.entry.workspace not in there:
                await self.keeper.put_away(slot.key, "remove", "its workspace is gone")
