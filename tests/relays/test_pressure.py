"""Whoever does not read holds up nobody but themselves, and costs no memory; and too many wait."""

import asyncio
import os
import resource
from pathlib import Path

import pytest

from paddock import LimitReachedError, Local, Sandbox
from paddock.backends.supervised import relays
from paddock.backends.supervised.connections import WINDOW, FrameConnection
from paddock.driver import Connection
from paddock.types.ports import RelayAddress
from relays import inside
from relays.conftest import Subject, echo, first_line, until

MOST_IN_KERNEL = 16 << 20
"""What two sockets on this machine may hold, with room for other kernels' ideas."""


def resident(pid: int | str) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def supervisor() -> int:
    """The only one that this process has, wherever it is."""
    found = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/comm") if _is_ours(path)]
    (pid,) = [pid for pid in found if not any(_parent(other) == pid for other in found)]
    return pid


def _is_ours(path: Path) -> bool:
    try:
        return path.read_text().startswith(("paddock-init", "init\n")) and _descends(int(path.parent.name))
    except OSError:
        return False


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _descends(pid: int) -> bool:
    while pid > 1:
        if pid == os.getpid():
            return True
        pid = _parent(pid)
    return False


async def test_a_handler_that_never_reads(here: Subject) -> None:
    """What somebody inside sends stays with the kernel, but for a window."""
    handled: list[Connection] = []
    stay = asyncio.Event()

    async def never(connection: Connection) -> None:
        handled.append(connection)
        await stay.wait()

    listener = await here.driver.listen(RelayAddress.loopback(), never)
    mine, its = resident("self"), resident(supervisor())
    pushing = [await here.start(inside.push, listener.address.port) for _ in range(4)]
    sent = [int(await first_line(process)) for process in pushing]
    assert all(0 < size < MOST_IN_KERNEL for size in sent)
    assert resident("self") - mine < 8 << 20
    assert resident(supervisor()) - its < 4 << 20
    for connection in handled:
        if isinstance(connection, FrameConnection):
            assert len(connection._data) <= WINDOW
    other = await here.driver.listen(RelayAddress.loopback(), echo)  # meanwhile, for others
    assert await here.ask(inside.say, other.address.port, "not held up") == "not held up"
    stay.set()
    for process in pushing:
        await process.kill()
    await listener.close()
    await other.close()


async def test_a_server_that_never_reads(here: Subject) -> None:
    """What the host writes is taken as far as the kernel and a window go; then `write` waits, and only that."""
    async with here.serving(inside.deaf, 0) as address, here.serving(inside.echo, 0) as other:
        connections = [await here.driver.connect(address) for _ in range(8)]
        mine, its = resident("self"), resident(supervisor())
        sent = [0] * len(connections)

        async def push(number: int) -> None:
            while True:
                await connections[number].write(bytes(65536))
                sent[number] += 65536

        tasks = [asyncio.create_task(push(number)) for number in range(len(connections))]
        before = -1
        while sum(sent) != before:
            before = sum(sent)
            await asyncio.sleep(0.5)
        assert all(0 < size < MOST_IN_KERNEL for size in sent)
        assert resident("self") - mine < 8 << 20
        assert resident(supervisor()) - its < 8 * WINDOW + (2 << 20)
        fine = await here.driver.connect(other)
        await fine.write(b"not held up")
        assert await fine.read() == b"not held up"
        fine.close()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for connection in connections:
            connection.close()


async def test_a_host_that_never_reads(here: Subject) -> None:
    async with here.serving(inside.talker, 0, 64 << 20) as address, here.serving(inside.echo, 0) as other:
        mine, its = resident("self"), resident(supervisor())
        silent = [await here.driver.connect(address) for _ in range(3)]
        await asyncio.sleep(2)
        assert resident("self") - mine < 4 << 20
        assert resident(supervisor()) - its < 4 << 20
        fine = await here.driver.connect(other)
        await fine.write(b"not held up")
        assert await fine.read() == b"not held up"
        for connection in (*silent, fine):
            connection.close()


async def test_more_than_there_may_be_wait(here: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays, "MOST_ACCEPTED", 10)
    at_once = most = 0

    async def count(connection: Connection) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        try:
            await echo(connection)
        finally:
            at_once -= 1

    listener = await here.driver.listen(RelayAddress.loopback(), count)
    holding = await here.start(inside.hold, listener.address.port, 40)
    assert await first_line(holding) == "40"  # they are connected, and wait
    await until(lambda: at_once == 10)
    async with here.serving(inside.echo, 0) as address:  # which the host may still do
        connection = await here.driver.connect(address)
        await connection.write(b"fine")
        assert await connection.read() == b"fine"
        connection.close()
    await holding.close_stdin()
    assert (await holding.wait()).exit_code == 0
    await until(lambda: at_once == 0)
    assert most == 10
    assert await here.ask(inside.say, listener.address.port, "the next") == "the next"
    await listener.close()


async def test_there_is_a_bound_for_the_host_too(here: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays, "MOST_CONNECTIONS", 3)
    async with here.serving(inside.echo, 0) as address:
        connections = [await here.driver.connect(address) for _ in range(3)]
        with pytest.raises(LimitReachedError) as caught:
            await here.driver.connect(address)
        assert caught.value.limit == "connections"
        connections.pop().close()
        (await here.driver.connect(address)).close()
        for connection in connections:
            connection.close()


async def test_a_flood_of_connections(here: Subject) -> None:
    """They come and go as fast as they can, and nothing of them is left."""
    ends = 0

    async def count(connection: Connection) -> None:
        nonlocal ends
        try:
            await echo(connection)
        finally:
            ends += 1

    listener = await here.driver.listen(RelayAddress.loopback(), count)
    await asyncio.gather(*(here.ask(inside.vanish, listener.address.port, 300) for _ in range(3)))
    assert await here.ask(inside.say, listener.address.port, "still here") == "still here"
    await until(lambda: ends > 300)  # some were cut off before anybody had accepted them
    await until(lambda: not listener.serving)  # type: ignore[attr-defined]
    assert (await here.sandbox.exec("echo alive")).stdout == "alive\n"
    await listener.close()


async def test_more_than_a_thousand_in_frames() -> None:
    """The supervisor has a bound of its own, whatever a host thinks."""
    async with Sandbox.create(Local(frames=True)) as sandbox:
        there = Subject(sandbox)
        async with there.serving(inside.echo, 0) as address:
            connections = [await there.driver.connect(address) for _ in range(relays.MOST_CONNECTIONS)]
            relays_of_it = there.driver._relays  # type: ignore[attr-defined]
            relays_of_it._connections.pop()  # so that one more seems fine
            with pytest.raises(LimitReachedError, match="Too many open files"):
                await there.driver.connect(address)
            for connection in connections:
                connection.close()
            again = await there.driver.connect(address)
            await again.write(b"room again")
            assert await again.read() == b"room again"
            again.close()


async def test_without_descriptors_to_spare_they_travel_in_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Sandbox.create(Local()) as sandbox:
        there = Subject(sandbox)
        monkeypatch.setattr(relays.budget, "take", lambda: False)
        async with there.serving(inside.echo, 0) as address:
            connection = await there.driver.connect(address)
            assert isinstance(connection, FrameConnection)
            await connection.write(b"in frames")
            assert await connection.read() == b"in frames"
            connection.close()
