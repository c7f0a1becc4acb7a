"""Sandboxes that are ready before they are needed."""

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

import descriptors
import detached
from paddock import ClosedError, ConfigError, Limits, Memory, Pool, Sandbox, SandboxError, UnsupportedError, sync
from paddock.driver import Plan

HERE = "namespaces"


class Counted(Memory):
    """Sandboxes in memory that are counted: how many were made, are being made, and are open."""

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "state", {"made": 0, "making": 0, "most": 0, "open": 0, "pause": 0.0, "fail": False})

    __slots__ = ("state",)
    state: dict[str, Any]

    async def launch(self, plan: Plan) -> Any:
        state = self.state
        state["making"] += 1
        state["most"] = max(state["most"], state["making"])
        try:
            await asyncio.sleep(state["pause"])
            if state["fail"]:
                raise SandboxError("It cannot be made.")
            driver = await super().launch(plan)
        finally:
            state["making"] -= 1
        state["made"] += 1
        state["open"] += 1
        close = driver.close

        async def closed() -> None:
            state["open"] -= 1
            await close()

        driver.close = closed  # type: ignore[method-assign]
        return driver


async def filled(pool: Pool, count: int) -> None:
    async def is_full() -> bool:
        return pool.ready == count

    await detached.until(is_full, f"{pool!r} does not fill up")


async def settled(condition: Callable[[], bool]) -> None:
    async def is_so() -> bool:
        return condition()

    await detached.until(is_so, "it does not settle")


async def test_ready_ones_are_handed_out_and_made_anew() -> None:
    backend = Counted()
    async with Pool(3, backend) as pool:
        await filled(pool, 3)
        taken = [await pool.acquire() for _ in range(3)]
        assert (len({sb.id for sb in taken}), pool.ready) == (3, 0)
        await filled(pool, 3)
        assert backend.state["made"] == 6
        assert repr(pool) == "<Pool of 3, 3 ready>"
        async with pool.acquire() as sb:
            await sb.write("f", "x")
        with pytest.raises(ClosedError):
            await sb.read("f")
        await filled(pool, 3)
        async with pool.acquire() as another:
            assert await another.list() == []
    assert backend.state["open"] == 0
    with pytest.raises(ClosedError):
        await taken[0].read("f")


async def test_never_more_than_asked_for() -> None:
    backend = Counted()
    async with Pool(2, backend) as pool:
        await filled(pool, 2)
        for _ in range(5):
            async with pool.acquire():
                pass
        await filled(pool, 2)
        await asyncio.sleep(0.05)
        assert (pool.ready, backend.state["open"], backend.state["most"]) == (2, 2, 2)


async def test_fifty_at_once() -> None:
    async with Pool(4, HERE) as pool:

        async def use(number: int) -> str:
            async with pool.acquire() as sb:
                await sb.write("f", str(number))
                assert (await sb.exec("cat f; ls")).stdout == f"{number}f\n"
                return sb.id

        assert len(set(await asyncio.gather(*map(use, range(50))))) == 50


async def test_real_ones_leave_nothing() -> None:
    async with Sandbox.create(HERE):
        pass  # so that what is opened once is open
    before = descriptors.count()
    async with Pool(3, HERE, limits=Limits(pids=100), env={"WHO": "me"}) as pool:
        await filled(pool, 3)
        sb = await pool.acquire()
        assert (await sb.exec("echo $WHO")).stdout == "me\n"
    assert detached.left() == []
    assert await descriptors.soon_back_to(before)


@pytest.mark.parametrize("moment", [0.0, 0.003, 0.01, 0.03])
async def test_closing_while_some_are_made(moment: float) -> None:
    async with Sandbox.create(HERE):
        pass  # so that what is opened once is open
    before = descriptors.count()
    pool = Pool(6, HERE)
    waiting = asyncio.ensure_future(_taken(pool))
    await asyncio.sleep(moment)
    await pool.close()
    await pool.close()
    outcome = (await asyncio.gather(waiting, return_exceptions=True))[0]
    if isinstance(outcome, Sandbox):
        with pytest.raises(ClosedError):
            await outcome.read("f")
    else:
        assert isinstance(outcome, ClosedError)
    with pytest.raises(ClosedError, match="pool"):
        await pool.acquire()
    assert detached.left() == []
    assert await descriptors.soon_back_to(before)


async def _taken(pool: Pool) -> Sandbox:
    return await pool.acquire()


async def test_an_acquire_that_is_cancelled() -> None:
    backend = Counted()
    backend.state["pause"] = 0.01
    async with Pool(0, backend) as pool:
        tasks = [asyncio.ensure_future(_taken(pool)) for _ in range(6)]
        await asyncio.sleep(0.005)
        for task in tasks[::2]:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(outcome, Sandbox) for outcome in outcomes] == [False, True] * 3
    assert backend.state["open"] == 0


async def test_one_that_came_too_late_is_for_the_next() -> None:
    backend = Counted()
    async with Pool(0, backend) as pool:
        task = asyncio.ensure_future(_taken(pool))
        await settled(lambda: bool(pool._taken))
        task.cancel()  # it has been given one and does not know yet, or has it
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]
        if isinstance(outcome, asyncio.CancelledError):
            assert pool.ready == 1
            assert (await pool.acquire()).id
            assert backend.state["made"] == 1
    assert backend.state["open"] == 0


async def test_failure_is_for_who_waits_and_not_tried_again_and_again() -> None:
    backend = Counted()
    backend.state["fail"] = True
    async with Pool(4, backend) as pool:
        for _ in range(3):
            with pytest.raises(SandboxError, match="cannot be made"):
                await pool.acquire()
        most = backend.state["most"]
        await asyncio.sleep(0.1)
        assert (pool.ready, backend.state["making"], most) == (0, 0, 2)
        assert len(pool._tasks) == 0
        backend.state["fail"] = False
        async with pool.acquire():
            pass
        await filled(pool, 4)


async def test_what_the_backend_cannot() -> None:
    async with Pool(2, "memory", detached=False, lifetime=1.0) as pool:
        with pytest.raises(UnsupportedError):
            await pool.acquire()


async def test_one_that_died_is_not_handed_out() -> None:
    async with Pool(2, HERE) as pool:
        await filled(pool, 2)
        dead = pool._ready[0]
        process = dead._core.launched.driver._end.__self__._supervisor.process  # type: ignore[attr-defined]
        os.kill(process.pid, signal.SIGKILL)
        await settled(lambda: dead._core.launched.driver.error is not None)
        assert pool.ready == 1
        for _ in range(2):
            async with pool.acquire() as sb:
                assert sb is not dead
                assert (await sb.exec("echo alive")).stdout == "alive\n"


async def test_one_that_ended_by_itself_is_not_handed_out() -> None:
    async with Pool(1, HERE, idle_timeout=0.2) as pool:
        await filled(pool, 1)
        first = pool._ready[0]
        await settled(lambda: first._gate.closed)
        async with pool.acquire() as sb:
            assert sb is not first
            assert (await sb.exec("echo alive")).stdout == "alive\n"


async def test_prepared() -> None:
    backend, fail = Counted(), False

    async def prepare(sb: Sandbox) -> None:
        await sb.write("ready.txt", sb.id)
        if fail:
            raise RuntimeError("it does not want to")

    async with Pool(2, backend, prepare=prepare) as pool:
        await filled(pool, 2)
        async with pool.acquire() as sb:
            assert await sb.read("ready.txt") == sb.id
        await filled(pool, 2)
        fail = True
        taken = [await pool.acquire() for _ in range(2)]
        with pytest.raises(RuntimeError, match="want to"):
            await pool.acquire()
        assert backend.state["open"] == len(taken)
    assert backend.state["open"] == 0


async def test_arguments() -> None:
    for wrong in (-1, True, "4", 1.5):
        with pytest.raises(ConfigError, match="size"):
            Pool(wrong)  # type: ignore[arg-type]
    for arguments in ({"name": "x"}, {"detached": True}):
        with pytest.raises(ConfigError, match="names"):
            Pool(2, "memory", **arguments)
    for kind in (Pool, sync.Pool):
        with pytest.raises(ConfigError, match="prepare=3"):
            kind(2, "memory", prepare=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no_such"):
        Pool(2, "memory", no_such=1)
    with pytest.raises(AttributeError, match="await"):
        Pool(0, "memory").acquire().read  # noqa: B018


def test_blocking() -> None:
    prepared: list[str] = []

    def prepare(sb: sync.Sandbox) -> None:
        sb.write("f", "x")
        prepared.append(sb.id)

    with sync.Pool(2, "memory", prepare=prepare) as pool, pool.acquire() as sb:
        assert sb.read("f") == "x"
        assert sb.id in prepared
    with pytest.raises(ClosedError):
        sb.read("f")
