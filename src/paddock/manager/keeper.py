"""What is kept for each key, in memory and on disk, and how a sandbox comes to its end."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from paddock.errors import NotFoundError, UnavailableError
from paddock.finishing import to_the_end
from paddock.manager.asking import MANAGER
from paddock.manager.clock import SteadyTime
from paddock.manager.entries import Entries, Entry
from paddock.manager.keys import Key
from paddock.manager.places import Places
from paddock.manager.slots import Slot
from paddock.manager.telling import Teller
from paddock.manager.workspaces import Workspaces
from paddock.sandbox import Sandbox
from paddock.types import SandboxInfo


class Keeper:
    """The sandboxes of one directory. What is done about a key is done under the lock of its slot."""

    def __init__(self, directory: Path, places: Places, time: SteadyTime, teller: Teller) -> None:
        self.directory = str(directory)
        self._pid = os.getpid()
        self.time = time
        self.teller = teller
        self.places = places
        self.entries = Entries(directory)
        self.workspaces = Workspaces(directory)
        self.slots: dict[Key, Slot] = {}

    def slot(self, key: Key) -> Slot:
        """The slot of a key, also of one that nobody asked for before."""
        return self.slots.setdefault(key, Slot(key, self.time))

    @asynccontextmanager
    async def alone(self, slot: Slot) -> AsyncIterator[None]:
        """A block under the lock of a key, which is forgotten if nothing is left of it: also if the block is cancelled."""
        try:
            async with slot.lock:
                yield
        finally:
            self.drop_empty(slot)

    def drop_empty(self, slot: Slot) -> None:
        """Remember nothing about keys that have nothing."""
        if slot.is_empty and self.slots.get(slot.key) is slot:
            del self.slots[slot.key]

    def keep(self, slot: Slot, entry: Entry) -> None:
        """This holds from now on, in memory and on disk."""
        slot.entry = slot.dated(entry)
        self.entries.write(slot.entry)

    def note(self, slot: Slot) -> None:
        """The time of its last use, on disk. A disk that is full is no reason to fail a request, or to keep a sandbox."""
        if slot.entry is not None:
            with suppress(UnavailableError):
                self.keep(slot, slot.entry)

    @property
    def is_ours(self) -> bool:
        """Whether this is the manager's own process, and not one that it forked."""
        return self._pid == os.getpid()

    async def living(self) -> list[SandboxInfo]:
        """Those of our sandboxes that run, the oldest first: the truth, whatever is kept here."""
        return await Sandbox.find(labels={MANAGER: self.directory})

    async def put_away(self, key: Key, action: Literal["stop", "remove"], why: str, only: str | None = None) -> None:
        """Stop or forget what there is for a key, with `only` if that is its workspace. Nothing being there is fine."""
        slot = self.slots.get(key)
        if slot is None:
            return
        async with self.alone(slot):
            try:
                wanted = slot.entry is not None and only in (None, slot.entry.workspace)
                if wanted and (action == "remove" or slot.running):
                    await self.end(slot, action, why)
            finally:
                slot.let_go()

    async def settled(self) -> None:
        """Wait until nobody is at ending a sandbox, or a lease."""
        while any(slot.leaving for slot in self.slots.values()):
            await self.places.next_change()

    async def end(self, slot: Slot, action: Literal["stop", "remove"], why: str) -> None:
        """End its sandbox, for everybody, and stop or forget it. Under its lock; done to the end."""
        slot.leaving += 1
        try:
            await to_the_end(self._end(slot, action, why))
        finally:
            slot.leaving -= 1
            self.places.tell_waiting()

    async def _end(self, slot: Slot, action: Literal["stop", "remove"], why: str) -> None:
        entry = slot.entry
        if entry is None:
            return
        with self.teller.telling(action, slot.key) as act:
            act.sandbox, act.why = entry.sandbox, why
            if entry.sandbox is not None:
                with suppress(NotFoundError):
                    await Sandbox.remove(entry.sandbox)
            await self._ended(slot, entry, why, stay=action == "stop")

    async def died(self, slot: Slot) -> None:
        """Its sandbox has ended by itself, or somebody else ended it. Under its lock."""
        entry = slot.entry
        if entry is not None:
            self.teller.tell("died", slot.key, entry.sandbox)
            await self._ended(slot, entry, "its sandbox has ended", stay=entry.policy.stays)

    async def _ended(self, slot: Slot, entry: Entry, why: str, *, stay: bool) -> None:
        self.places.give_back(slot.key)
        await _lapse(slot, why)
        if stay:
            self.keep(slot, replace(entry, state="stopped", sandbox=None))
        else:
            slot.entry = None
            self.entries.forget(slot.key)


async def _lapse(slot: Slot, why: str) -> None:
    """Leases on what is gone are over."""
    import asyncio

    slot.observe()
    leases, slot.leases = list(slot.leases), set()
    for lease in leases:
        lease._has_lapsed(why)
    await asyncio.gather(*(lease.sandbox.close() for lease in leases), return_exceptions=True)
