"""Places: exact counts through everything that can happen, and who makes way."""

import asyncio
import random
from typing import Any

import pytest

from manager.fakes import FakeClock, World
from paddock import LimitReachedError, Manager, Sandbox, SandboxError


def manager(clock: FakeClock, **more: Any) -> Manager:
    return Manager(backend="fake", clock=clock, sweep_every=None, **{"policy": "session", **more})


async def used(m: Manager, clock: FakeClock, user: str, chat: str, **more: Any) -> None:
    clock.advance(1)
    async with m.get_or_create(user, chat, **more):
        pass


async def chats(m: Manager) -> set[str]:
    return {info.chat for info in await m.list() if info.state == "running"}


async def test_the_longest_idle_makes_way(world: World, clock: FakeClock) -> None:
    async with manager(clock, max_total=3) as m:
        for chat in ("one", "two", "three", "one"):
            await used(m, clock, "alice", chat)
        await used(m, clock, "alice", "four")
        assert await chats(m) == {"one", "three", "four"}
        assert world.most == 3
        await used(m, clock, "bob", "five")
        assert await chats(m) == {"one", "four", "five"}


async def test_who_has_a_lease_or_is_to_be_kept_does_not(world: World, clock: FakeClock) -> None:
    async with manager(clock, max_total=2) as m:
        await used(m, clock, "alice", "kept", policy="persistent")
        async with m.get_or_create("alice", "leased"):
            with pytest.raises(LimitReachedError, match="max_total") as raised:
                await m.get_or_create("bob", "chat")
            assert raised.value.limit == "max_total"
            assert (await m.stats()).total == 2
        await used(m, clock, "bob", "chat")
        assert await chats(m) == {"kept", "chat"}


async def test_a_long_running_one_is_stopped_and_starts_again(world: World, clock: FakeClock) -> None:
    async with manager(clock, max_total=1) as m:
        async with m.get_or_create("alice", "long", policy="longrunning") as lease:
            await lease.sandbox.write("f", "x")
        await used(m, clock, "bob", "chat")
        assert {info.chat: info.state for info in await m.list()} == {"long": "stopped", "chat": "running"}
        async with m.get_or_create("alice", "long", policy="longrunning") as lease:
            assert await lease.sandbox.read("f") == "x"
        assert await chats(m) == {"long"}
        assert world.most == 1


async def test_each_user_has_a_limit(world: World, clock: FakeClock) -> None:
    async with manager(clock, max_per_user=2) as m:
        for chat in ("one", "two", "three"):
            await used(m, clock, "alice", chat)
        await used(m, clock, "bob", "one")
        assert (await m.stats()).users == {"alice": 2, "bob": 1}
        leases = [await m.get_or_create("alice", chat) for chat in ("two", "three")]
        with pytest.raises(LimitReachedError, match="'alice'") as raised:
            await m.get_or_create("alice", "one")
        assert raised.value.limit == "max_per_user"
        await used(m, clock, "bob", "two")
        for lease in leases:
            await lease.release()


async def test_a_sandbox_takes_so_many_leases(world: World, clock: FakeClock) -> None:
    async with Manager(backend="fake", clock=clock, policy="session", sweep_every=None) as m:
        leases = [await m.get_or_create("alice", "chat") for _ in range(64)]
        with pytest.raises(LimitReachedError, match=r"64 leases.*connections") as caught:
            await m.get_or_create("alice", "chat")
        assert caught.value.limit == "connections"
        async with m.get_or_create("alice", "other"):
            pass
        await leases.pop().release()
        async with m.get_or_create("alice", "chat"):
            pass


async def test_one_on_its_way_out_is_waited_for(world: World, clock: FakeClock) -> None:
    async with manager(clock, max_total=1, policy="oneshot") as m:
        lease = await m.get_or_create("alice", "chat")
        await asyncio.gather(lease.release(), used(m, clock, "bob", "chat"))
        await asyncio.gather(*(used(m, clock, "alice", "same") for _ in range(5)))
        assert world.most == 1


async def test_who_leaves_without_a_place_is_not_waited_for(
    world: World, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease on a sandbox that died is released while the next request has the key, and cannot be over before that."""
    async with manager(clock, max_total=1) as m:
        lease = await m.get_or_create("alice", "chat")
        closing, close = asyncio.Event(), lease.sandbox.close

        async def closed() -> None:
            await closing.wait()
            await close()

        monkeypatch.setattr(lease.sandbox, "close", closed)
        world.die(lease.sandbox.id)
        releasing = asyncio.ensure_future(lease.release())
        again = asyncio.ensure_future(used(m, clock, "alice", "chat"))
        while (await m.stats()).total:
            await asyncio.sleep(0)
        async with m.get_or_create("bob", "chat"):
            closing.set()
            with pytest.raises(LimitReachedError):
                await asyncio.wait_for(again, 10)
            await releasing


async def test_one_that_died_has_no_place(world: World, clock: FakeClock) -> None:
    async with manager(clock, max_total=1) as m:
        await used(m, clock, "alice", "chat", policy="persistent")
        with pytest.raises(LimitReachedError):
            await m.get_or_create("bob", "chat")
        world.die(next(iter(world.held)))
        await used(m, clock, "bob", "chat")
        assert sorted((info.user, info.state) for info in await m.list()) == [("alice", "stopped"), ("bob", "running")]
        assert (await m.stats()).users == {"bob": 1}


async def test_one_that_does_not_end_keeps_its_place(world: World, clock: FakeClock) -> None:
    async with manager(clock, max_total=2) as m:
        for chat in ("stuck", "other"):
            await used(m, clock, "alice", chat)
        (stuck,) = [info.sandbox for info in await m.list() if info.chat == "stuck"]
        world.stuck.add(str(stuck))
        await used(m, clock, "bob", "chat")
        assert await chats(m) == {"stuck", "chat"}
        with pytest.raises(SandboxError, match="did not end"):
            await m.remove("alice", "stuck")
        assert (await m.stats()).total == 2
        world.stuck.clear()
        await m.remove("alice", "stuck")
        assert (await m.stats()).total == 1


async def test_who_is_cancelled_while_another_makes_way(world: World, clock: FakeClock) -> None:
    """Nothing is remembered of either: keys that have nothing would add up."""
    async with manager(clock, max_total=1) as m:
        await used(m, clock, "alice", "chat")
        asking = asyncio.ensure_future(used(m, clock, "bob", "chat"))
        assert m._running is not None
        slots = m._running.keeper.slots
        while not any(slot.leaving for slot in slots.values()):
            await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (world.held, slots) == ({}, {})


async def test_many_users_under_a_limit(world: World, clock: FakeClock) -> None:
    """200 users with three chats each, and everything that can happen to them."""
    chance = random.Random(5)
    refused = 0

    async def one(m: Manager, user: int) -> None:
        nonlocal refused
        for chat in range(3):
            policy = chance.choice(["oneshot", "session", "session", "longrunning", "longrunning"])
            try:
                async with m.get_or_create(f"user-{user}", f"chat-{chat}", policy=policy) as lease:
                    await lease.sandbox.write("who", f"{user}/{chat}")
                    for _ in range(chance.randrange(3)):
                        await asyncio.sleep(0)
                    happening = chance.randrange(10)
                    if happening == 0:
                        world.die(lease.sandbox.id)
                    elif happening == 1:
                        await m.stop(f"user-{user}", f"chat-{chat}")
            except LimitReachedError:
                refused += 1
            if chance.randrange(5) == 0:
                await m.remove(f"user-{user}", f"chat-{chance.randrange(3)}")

    async with manager(clock, max_total=100) as m:
        for first in range(0, 200, 40):
            await asyncio.gather(*(one(m, user) for user in range(first, first + 40)))
            await m.sweep()
            running = [info for info in await m.list() if info.state == "running"]
            told = await m.stats()
            assert {info.sandbox for info in running} == set(world.held) == {info.id for info in await Sandbox.find()}
            assert told.total == len(running) == told.states.get("running", 0) == sum(told.users.values())
            assert told.leases == 0
        assert refused == 0
        assert 90 <= world.most <= 100
        assert told.workspaces == 600
        for info in await m.list():
            await m.remove(info.user, info.chat)
        assert ((await m.stats()).total, world.held, await m.list()) == (0, {}, [])


async def test_who_is_refused_leaves_no_workspace(world: World, clock: FakeClock) -> None:
    """Or somebody could fill a disk by being refused. One with something in it stays."""
    async with manager(clock, max_per_user=1) as m:
        async with m.get_or_create("alice", "first") as lease:
            await lease.sandbox.write("f", "x")
            for number in range(5):
                with pytest.raises(LimitReachedError):
                    await m.get_or_create("alice", f"other-{number}")
        assert [info.chat for info in await m.workspaces()] == ["first"]
