"""Making the sandbox of a key: a place first, then what is kept, then the sandbox. What fails gives all of it back."""

from contextlib import suppress
from dataclasses import replace
from functools import partial

from paddock.errors import ExistsError, NotFoundError, SandboxError, UnavailableError
from paddock.finishing import to_the_end
from paddock.manager.about import Workspace
from paddock.manager.asking import Ask, creation, key_of
from paddock.manager.entries import Entry
from paddock.manager.keeper import Keeper
from paddock.manager.keys import Key
from paddock.manager.places import reached
from paddock.manager.slots import Slot
from paddock.manager.sweeping import Sweeper
from paddock.sandbox import Sandbox


class Maker:
    """Makes sandboxes, as many as there may be."""

    def __init__(self, keeper: Keeper, sweeper: Sweeper) -> None:
        self._keeper = keeper
        self._sweeper = sweeper

    async def make(self, slot: Slot, ask: Ask, workspace: Workspace) -> Sandbox:
        """A new one for this key, whose lock is held."""
        before = slot.entry
        await self._take_place(slot.key)
        entry = self._new_entry(slot, ask)
        try:
            self._keeper.keep(slot, entry)
            sandbox = await self._created(slot, ask, workspace)
            await self._keep_made(slot, entry, sandbox)
        except BaseException:
            self._give_back(slot, before)
            raise
        self._keeper.teller.tell("create", slot.key, sandbox.id)
        return sandbox

    def _new_entry(self, slot: Slot, ask: Ask) -> Entry:
        """What is kept from now on. One that was stopped goes on, and is no younger for it."""
        now = self._keeper.time.now()
        created = slot.entry.created if slot.entry is not None else now
        entry = Entry(ask.key, ask.chat, ask.policy, ask.place.id, "created", created, now, options=ask.digest)
        slot.adopt(entry)
        return entry

    async def _created(self, slot: Slot, ask: Ask, workspace: Workspace) -> Sandbox:
        left = None if ask.policy.lifetime is None else ask.policy.lifetime - slot.age
        make = partial(creation, ask, self._keeper.directory, str(workspace.directory), left)
        try:
            return await make()
        except ExistsError:
            await self._remove_unknown(slot.key)
            return await make()

    async def _remove_unknown(self, key: Key) -> None:
        """One that was being made when the last manager was killed, and that came up after we had looked."""
        for info in await self._keeper.living():
            if key_of(info) == key:
                with suppress(NotFoundError):
                    await to_the_end(Sandbox.remove(info.id))

    async def _keep_made(self, slot: Slot, entry: Entry, sandbox: Sandbox) -> None:
        try:
            made = replace(entry, state="running", sandbox=sandbox.id, backend=sandbox.backend)
            self._keeper.keep(slot, made)
        except BaseException:
            await to_the_end(_undo(sandbox))
            raise

    def _give_back(self, slot: Slot, before: Entry | None) -> None:
        self._keeper.places.give_back(slot.key)
        slot.entry = before
        with suppress(UnavailableError):
            if before is None:
                self._keeper.entries.forget(slot.key)
            else:
                self._keeper.keep(slot, before)

    # Room for one more

    async def _take_place(self, key: Key) -> None:
        """A place for this key. Idle sandboxes without a lease make way, the longest idle first."""
        places, tried, looked = self._keeper.places, set[Key](), False
        while limit := places.full_for(key.user):
            owner = key.user if limit == "max_per_user" else None
            victim = self._victim(owner, tried)
            if victim is not None:
                tried.add(victim.key)
                await self._evict(victim)
            elif not looked:
                looked = True
                await self._sweeper.drop_dead()
            elif self._one_leaves(owner):
                await places.next_change()
            else:
                raise reached(limit, places, key.user)
        places.take(key)

    def _victim(self, owner: str | None, tried: set[Key]) -> Slot | None:
        found = [slot for slot in self._keeper.slots.values() if slot.key not in tried and _makes_way(slot, owner)]
        return max(found, key=lambda slot: slot.idle, default=None)

    async def _evict(self, slot: Slot) -> None:
        async with self._keeper.alone(slot):
            if slot.is_free and slot.entry is not None:
                with suppress(SandboxError):  # then it keeps its place; another one may go
                    await self._keeper.end(slot, slot.entry.policy.when_idle, "others need its place")

    def _one_leaves(self, owner: str | None) -> bool:
        """Whether a place may soon be free. Who leaves without one frees none, and may wait for a key that we have."""
        has = self._keeper.places.has
        slots = self._keeper.slots.values()
        return any(slot.leaving and has(slot.key) and owner in (None, slot.key.user) for slot in slots)


def _makes_way(slot: Slot, owner: str | None) -> bool:
    """One whose lock somebody has is about to be used, or to go."""
    evictable = slot.entry is not None and slot.entry.policy.evictable
    return evictable and slot.is_free and not slot.lock.locked() and owner in (None, slot.key.user)


async def _undo(sandbox: Sandbox) -> None:
    with suppress(SandboxError):
        await sandbox.close()
        await Sandbox.remove(sandbox.id)
