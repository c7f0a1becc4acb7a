"""What goes on when a manager is closed, and while it opens: nothing once the next one may have what there is."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from manager.fakes import FakeClock, World
from paddock import ClosedError, ConfigError, ConflictError, Manager, Sandbox, state
from paddock.manager.workspaces import Workspaces

Call = Callable[[Manager, str], Awaitable[object]]


def manager(clock: FakeClock, policy: str = "session") -> Manager:
    return Manager(backend="fake", clock=clock, sweep_every=None, policy=policy)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """The end of a sandbox waits for this."""
    remove, go = Sandbox.remove, asyncio.Event()

    async def slowly(id: str) -> None:
        await go.wait()
        await remove(id)

    monkeypatch.setattr(Sandbox, "remove", slowly)
    return go


CALLS: dict[str, Call] = {
    "remove": lambda m, _: m.remove("alice", "chat"),
    "stop": lambda m, _: m.stop("alice", "chat"),
    "sweep": lambda m, _: m.sweep(),
    "clean": lambda m, _: m.clean(),
    "delete_workspace": lambda m, workspace: m.delete_workspace(workspace, force=True),
}


@pytest.mark.parametrize("call", CALLS)
async def test_a_call_is_over_before_the_next_manager(
    call: str, world: World, clock: FakeClock, slow: asyncio.Event
) -> None:
    m = manager(clock)
    await m.open()
    async with m.get_or_create("alice", "chat") as lease:
        pass
    clock.advance(3600)
    task = asyncio.ensure_future(CALLS[call](m, lease.info.workspace))
    await asyncio.sleep(0.05)
    closing = asyncio.ensure_future(m.close())
    await asyncio.sleep(0.05)
    assert not task.done()
    assert not closing.done()
    with pytest.raises(ConflictError):
        await manager(clock).open()
    slow.set()
    await closing
    assert task.done()
    with pytest.raises(ClosedError, match="meanwhile"):
        await task
    assert world.held == {}
    async with manager(clock) as after, after.get_or_create("alice", "chat") as lease:
        await lease.sandbox.write("f", "x")
        assert [info.sandbox for info in await after.list()] == [lease.sandbox.id]
        await after.delete_workspace(lease.info.workspace, force=True)


async def test_a_release_is_over_before_the_next_manager(world: World, clock: FakeClock, slow: asyncio.Event) -> None:
    m = manager(clock, "oneshot")
    await m.open()
    lease = await m.get_or_create("alice", "chat")
    task = asyncio.ensure_future(lease.release())
    await asyncio.sleep(0.05)
    closing = asyncio.ensure_future(m.close())
    await asyncio.sleep(0.05)
    assert not closing.done()
    slow.set()
    await closing
    await task
    assert world.held == {}
    with pytest.raises(ClosedError):
        lease.heartbeat()


async def test_a_lease_that_ends_with_its_manager_says_so(world: World, clock: FakeClock) -> None:
    async with manager(clock) as m:
        lease = await m.get_or_create("alice", "chat")
    with pytest.raises(ClosedError, match="the manager was closed"):
        lease.heartbeat()
    await lease.release()


async def test_nothing_holds_a_workspace_afterwards(world: World, clock: FakeClock) -> None:
    m = manager(clock)
    await m.open()
    lease = await m.get_or_create("alice", "chat")
    for call in (m.remove("alice", "chat"), m.sweep()):
        task = asyncio.ensure_future(call)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await m.close()
    store = Workspaces(state.manager_directory())
    await store.refuse_leased(store.find(lease.info.workspace))


async def test_closed_while_it_opens(world: World, clock: FakeClock) -> None:
    m = manager(clock)
    opening = asyncio.ensure_future(m.open())
    await asyncio.sleep(0)
    await m.close()
    with pytest.raises(ClosedError):
        await opening
    with pytest.raises(ClosedError):
        await m.open()
    async with manager(clock):
        pass


async def test_one_that_cannot_open_holds_nothing(
    world: World, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing() -> None:
        raise ConfigError("There is no log.")

    for part in ("Teller", "adopt"):
        with monkeypatch.context() as patch:
            patch.setattr(f"paddock.manager.running.{part}", failing)
            with pytest.raises((ConfigError, TypeError)):
                await manager(clock).open()
    async with manager(clock):
        pass


# The loop goes on


async def longest_pause(work: Awaitable[object]) -> float:
    """For how long nothing else could be done meanwhile."""
    worst, last = 0.0, time.perf_counter()

    async def beat() -> None:
        nonlocal worst, last
        while True:
            await asyncio.sleep(0.002)
            now = time.perf_counter()
            worst, last = max(worst, now - last), now

    beating = asyncio.ensure_future(beat())
    try:
        await work
        await asyncio.sleep(0.005)
    finally:
        beating.cancel()
    return worst


async def test_removing_what_is_left_blocks_nobody(
    world: World, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = state.manager_directory() / "workspaces" / ".gone-0123"
    left.mkdir(parents=True)
    remove = Workspaces._remove

    def slowly(*args: Any) -> bool:
        time.sleep(0.5)
        return remove(*args)

    monkeypatch.setattr(Workspaces, "_remove", slowly)
    m = manager(clock)
    assert await longest_pause(m.open()) < 0.4
    assert not left.exists()
    await m.close()


async def test_a_second_one_blocks_nobody(world: World, clock: FakeClock) -> None:
    async def refused() -> None:
        with pytest.raises(ConflictError):
            await manager(clock).open()

    async with manager(clock):
        assert await longest_pause(refused()) < 0.4


# What two processes write and hold at once


async def test_writing_at_once(world: World, clock: FakeClock, tmp_path: Path) -> None:
    from paddock.manager.entries import write_whole

    def write(letter: str) -> None:
        for _ in range(100):
            write_whole(tmp_path / "file", letter * 1000)

    await asyncio.gather(*(asyncio.to_thread(write, letter) for letter in "abcd"))
    assert len(set((tmp_path / "file").read_text())) == 1
    assert os.listdir(tmp_path) in (["file"], ["state", "file"], ["file", "state"])


async def test_what_was_being_written_is_removed(world: World, clock: FakeClock) -> None:
    async with manager(clock, "longrunning") as m, m.get_or_create("alice", "chat"):
        (info,) = await m.workspaces()
    directory = state.manager_directory()
    left = [
        Path(info.path).parent / ".workspace.json.new-0123",
        next((directory / "entries").glob("*.json")).with_suffix(".json.new-0123"),
        directory / "cleaned.new-0123",
    ]
    for path in left:
        path.write_text("{")
    async with Manager(backend="fake", policy="longrunning") as m:
        assert [info.chat for info in await m.list()] == ["chat"]
        assert [path for path in left if path.exists()] == []
        await m.remove("alice", "chat")


async def test_looking_is_not_use(world: World, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.manager.workspaces._LOOKS", 10_000)  # on a busy machine a moment may be long
    async with manager(clock) as m:
        async with m.get_or_create("alice", "chat"):
            pass
        await m.remove("alice", "chat")
        store = Workspaces(state.manager_directory())
        (workspace,) = store.all()
        from paddock.manager.locks import take

        for looks in (store.is_used(workspace), store.refuse_leased(workspace)):
            lock = take(workspace.directory / ".lock")  # as one who looks has it, for a moment
            assert lock is not None
            asyncio.get_running_loop().call_later(0.0005, lock.release)
            assert not await looks
