"""Going on where the last manager stopped, however it ended: what runs is the truth, and what was kept says the rest."""

from dataclasses import replace

from paddock.finishing import in_thread
from paddock.manager.asking import key_of, marks
from paddock.manager.entries import Entry
from paddock.manager.keeper import Keeper
from paddock.manager.keys import Key
from paddock.manager.settings import Settings
from paddock.manager.sweeping import Sweeper
from paddock.types import SandboxInfo


async def adopt(keeper: Keeper, sweeper: Sweeper, settings: Settings) -> int:
    """Take over what runs and what was stopped; how many run. A key has one sandbox: others are ended."""
    kept = {entry.key: entry for entry in await in_thread(keeper.entries.read)}
    await in_thread(keeper.entries.tidy)
    await in_thread(keeper.workspaces.tidy, unmade=True)
    adopted = 0
    for info in await keeper.living():
        key = key_of(info)
        entry = None if key is None or key in keeper.slots else _entry(key, kept.get(key), info, settings)
        if entry is None:
            await sweeper.remove_orphan(info)
        else:
            _go_on(keeper, entry)
            keeper.places.take(entry.key)
            keeper.teller.tell("adopt", entry.key, info.id)
            adopted += 1
    for entry in kept.values():
        if entry.key not in keeper.slots:
            _without_sandbox(keeper, entry)
    return adopted


def _entry(key: Key, kept: Entry | None, info: SandboxInfo, settings: Settings) -> Entry | None:
    """What is known about one that runs: what was kept, or as much as its labels say."""
    said = marks(info)
    if said is None:
        return None
    if kept is None or kept.options != said.options:
        policy = settings.policy_for(said.policy, None, None)
        kept = Entry(
            key, said.chat, policy, said.workspace, "running", info.created, info.created, options=said.options
        )
    return replace(kept, state="running", sandbox=info.id, backend=info.backend)


def _without_sandbox(keeper: Keeper, entry: Entry) -> None:
    """It was being made, or has died meanwhile."""
    if entry.policy.stays:
        _go_on(keeper, replace(entry, state="stopped", sandbox=None))
    else:
        keeper.entries.forget(entry.key)


def _go_on(keeper: Keeper, entry: Entry) -> None:
    slot = keeper.slot(entry.key)
    slot.adopt(entry)
    keeper.keep(slot, entry)
