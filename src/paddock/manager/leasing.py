"""Leases: who asks for a key gets its sandbox, which is made once; who is done gives it back."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from paddock.errors import (
    ConflictError,
    LimitReachedError,
    NotFoundError,
    QuotaExceededError,
    SandboxDiedError,
    SandboxError,
    UnavailableError,
    visible,
)
from paddock.manager.about import Workspace
from paddock.manager.asking import Ask
from paddock.manager.keeper import Keeper
from paddock.manager.keys import Key
from paddock.manager.lease import Lease
from paddock.manager.making import Maker
from paddock.manager.measuring import measure
from paddock.manager.slots import Slot
from paddock.sandbox import Sandbox

_TRIES = 500
_PAUSE = 0.01
_MOST_LEASES = 64
"""Each is a connection, and a supervisor takes no more."""


class Leases:
    """Gives leases, and takes them back."""

    def __init__(self, keeper: Keeper, maker: Maker) -> None:
        self._keeper = keeper
        self._maker = maker

    async def lease(self, ask: Ask, known: Iterable[Key] = ()) -> Lease:
        """A lease on the sandbox of a key, made if there is none. Whoever asks for the same one waits for its turn.

        With `known` keys it is the sandbox of one of these, if there is one, by the policy that it has.
        """
        ask = self._as_it_is(ask, known)
        slot = self._keeper.slot(ask.key)
        slot.asking += 1
        try:
            with self._keeper.teller.telling("lease", ask.key) as act:
                async with slot.lock:
                    lease = await self._lease(slot, ask)
                    act.sandbox = lease.sandbox.id
                    return lease
        finally:
            slot.asking -= 1
            self._keeper.drop_empty(slot)

    def _as_it_is(self, ask: Ask, known: Iterable[Key]) -> Ask:
        for key in known:
            slot = self._keeper.slots.get(key)
            if slot is not None and slot.entry is not None and slot.entry.chat == ask.chat:
                return replace(ask, key=key, policy=slot.entry.policy)
        return ask

    async def _lease(self, slot: Slot, ask: Ask) -> Lease:
        await self._make_way(slot, ask)
        _refuse_too_many(slot)
        workspace: Workspace | None = None
        try:
            workspace = await self._hold(slot, ask)
            await self._check_quota(workspace, ask.quota)
            sandbox = await self._connected(slot) or await self._maker.make(slot, ask, workspace)
        except BaseException:
            slot.let_go()
            if workspace is not None and workspace.is_new:  # who is refused leaves nothing on the disk
                self._keeper.workspaces.drop_new(workspace)
            raise
        slot.touch()
        if slot.entry is not None:
            slot.entry = replace(slot.entry, chat=ask.chat)
        self._keeper.note(slot)
        lease = Lease(sandbox, slot.info(1), slot.touch, self.give_back)
        slot.leases.add(lease)
        return lease

    async def give_back(self, lease: Lease) -> None:
        """Let go of a sandbox. When that was the last lease of a oneshot, it is removed."""
        slot = next((slot for slot in self._keeper.slots.values() if lease in slot.leases), None)
        if slot is None or not self._keeper.is_ours:  # it has lapsed, or is the parent's
            return
        slot.leaving += 1
        try:
            with suppress(SandboxError):
                await lease.sandbox.close()
            async with slot.lock:
                if lease in slot.leases:
                    await self._released(slot, lease)
        finally:
            slot.leaving -= 1
            self._keeper.places.tell_waiting()
            self._keeper.drop_empty(slot)

    async def take_back_all(self) -> None:
        """The manager ends, and all leases with it. One that is being released is waited for."""
        import asyncio

        leases = [lease for slot in self._keeper.slots.values() for lease in slot.leases]
        for lease in leases:
            lease._has_lapsed("the manager was closed")
        await asyncio.gather(*(self.give_back(lease) for lease in leases), return_exceptions=True)

    async def _released(self, slot: Slot, lease: Lease) -> None:
        slot.observe()
        slot.leases.discard(lease)
        slot.touch()
        self._keeper.teller.tell("release", slot.key, lease.sandbox.id)
        self._keeper.note(slot)
        if slot.leases:
            return
        if slot.place is not None:
            self._keeper.workspaces.touch(slot.place, self._keeper.time.now())
        slot.let_go()
        if slot.running and slot.entry is not None and slot.entry.policy.name == "oneshot":
            await self._keeper.end(slot, "remove", "its last lease has ended")

    # What a lease needs

    async def _make_way(self, slot: Slot, ask: Ask) -> None:
        """A sandbox that was made with other options cannot serve this request: it is ended, if nobody minds."""
        entry = slot.entry
        if entry is None or not slot.running or entry.options == ask.digest:
            return
        if slot.leases or entry.policy.name == "persistent":
            raise ConflictError(
                f"The sandbox of '{visible(ask.key.user)}' was made with other options, or another policy.",
                hint="Ask with the same ones, or remove it first: manager.remove(user, chat).",
            )
        await self._keeper.end(slot, "remove", "it is asked for with other options")

    async def _hold(self, slot: Slot, ask: Ask) -> Workspace:
        """The workspace, which nobody can take away from now on. Whoever looks at it is waited for."""
        import asyncio

        now, left = self._keeper.time.now(), _TRIES
        while (held := self._keeper.workspaces.hold(ask.place, now)) is None:
            left -= 1
            if not left:
                raise ConflictError("The workspace is just being removed.", hint="Try again in a moment.")
            await asyncio.sleep(_PAUSE)
        workspace, lock = held
        slot.place = ask.place
        if slot.hold is None:
            slot.hold = lock
        else:
            lock.release()
        about = replace(workspace.about, last_used=now, quota=ask.quota, labels=dict(ask.labels))
        self._keeper.workspaces.note(workspace, about)
        return replace(workspace, about=about)

    async def _check_quota(self, workspace: Workspace, quota: int | None) -> None:
        import asyncio

        if quota is None:
            return
        found = await asyncio.to_thread(measure, workspace.directory)
        self._keeper.workspaces.note(workspace, replace(workspace.about, size=found.size))
        if found.size > quota or not found.complete:
            size = f"{found.size} bytes" if found.complete else "more than can be counted"
            more = "a larger quota=" if found.complete else "quota=math.inf"  # counting would end at the same place
            raise QuotaExceededError(
                f"The workspace {workspace.id} has {size}, and may have {quota}.",
                hint=f"Ask with {more} to clear it up, or remove it: `paddock workspaces rm`.",
            )

    async def _connected(self, slot: Slot) -> Sandbox | None:
        """The sandbox that runs, by a connection of this lease's own; None if there is none, or no longer."""
        entry = slot.entry
        if entry is None or entry.sandbox is None:
            return None
        try:
            return await Sandbox.connect(entry.sandbox)
        except NotFoundError:
            await self._keeper.died(slot)
        except (UnavailableError, SandboxDiedError):
            if slot.leases:
                raise
            await self._keeper.end(slot, "stop" if entry.policy.stays else "remove", "it cannot be reached")
        return None


def _refuse_too_many(slot: Slot) -> None:
    if len(slot.leases) >= _MOST_LEASES:
        raise LimitReachedError(
            f"The sandbox of '{visible(slot.key.user)}' has {_MOST_LEASES} leases, and takes no more connections.",
            limit="connections",
            hint="Release leases that are not needed, share one between requests, or ask for another chat.",
        )
