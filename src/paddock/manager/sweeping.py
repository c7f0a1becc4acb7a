"""Looking after what nobody asks for: sandboxes that have died, that are idle or too old, and that belong to nobody."""

from contextlib import suppress

from paddock.errors import NotFoundError, SandboxError
from paddock.finishing import to_the_end
from paddock.manager.asking import key_of
from paddock.manager.keeper import Keeper
from paddock.manager.policies import Verdict
from paddock.manager.slots import Slot
from paddock.sandbox import Sandbox
from paddock.sandbox.signs import in_use
from paddock.types import Removal, SandboxInfo


class Sweeper:
    """Does what the policies say."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    async def sweep(self, *, dry_run: bool = False) -> list[Removal]:
        """Stop and remove what is due; what that was, or would be."""
        if not dry_run:
            await self.drop_dead()
        done = []
        for slot in list(self._keeper.slots.values()):
            if not slot.lock.locked():  # else somebody is at it, and it is not idle
                done += await self._judge(slot, dry_run)
        return done

    async def _judge(self, slot: Slot, dry_run: bool) -> list[Removal]:
        async with self._keeper.alone(slot):
            await self._notice_use(slot)
            found, entry = slot.verdict(), slot.entry
            if found is None or entry is None:
                if not dry_run:
                    self._note_use(slot)
                return []
            removal = _removal(slot, found)
            if not dry_run:
                try:
                    with suppress(SandboxError):  # which the log has; the next sweep tries again
                        await self._keeper.end(slot, found.action, found.reason)
                finally:
                    slot.let_go()
            return [removal]

    def _note_use(self, slot: Slot) -> None:
        """On disk, so that the next manager knows it, give or take one sweep."""
        if slot.entry is not None and slot.leases:
            self._keeper.note(slot)
            if slot.place is not None:
                self._keeper.workspaces.touch(slot.place, slot.entry.last_used)

    async def _notice_use(self, slot: Slot) -> None:
        """Calls that were made, and commands that run for somebody who has a lease."""
        slot.observe()
        found = slot.verdict()
        if found is None or not slot.leases:
            return
        for lease in list(slot.leases):
            with suppress(SandboxError):
                if await in_use(lease.sandbox):
                    slot.touch()
                    return

    # What the disk and the engine say

    async def drop_dead(self) -> None:
        """Give up those whose sandbox has ended, and end sandboxes of ours that nobody knows."""
        supposed = {slot: slot.entry.sandbox for slot in self._keeper.slots.values() if slot.running and slot.entry}
        living = await self._keeper.living()
        ids = {info.id for info in living}
        for slot, sandbox in supposed.items():
            if sandbox not in ids and not slot.lock.locked():
                await self._drop(slot, sandbox)
        for info in living:
            if self._is_orphan(info):
                await self.remove_orphan(info)

    async def _drop(self, slot: Slot, sandbox: str | None) -> None:
        async with self._keeper.alone(slot):
            if slot.running and slot.entry is not None and slot.entry.sandbox == sandbox:
                await self._keeper.died(slot)
                slot.let_go()

    def _is_orphan(self, info: SandboxInfo) -> bool:
        key = key_of(info)
        slot = None if key is None else self._keeper.slots.get(key)
        if slot is None:
            return True
        known = slot.entry is not None and slot.entry.sandbox == info.id
        return not known and not slot.lock.locked()

    async def remove_orphan(self, info: SandboxInfo) -> None:
        """End one that no key has."""
        with suppress(SandboxError), self._keeper.teller.telling("remove", key_of(info)) as act:
            act.sandbox, act.why = info.id, "nobody knows it"
            with suppress(NotFoundError):
                await to_the_end(Sandbox.remove(info.id))


def _removal(slot: Slot, found: Verdict) -> Removal:
    entry = slot.entry
    assert entry is not None  # noqa: S101 - there is a verdict about it
    return Removal("sandbox", found.action, entry.sandbox or "-", slot.key.user, entry.chat, found.reason)
