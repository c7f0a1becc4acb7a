"""Drivers of one sandbox that outlives them: what one starts, another finds, takes over and hears the end of."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

import descriptors
from paddock import ClosedError, ConflictError, NotFoundError, SandboxDiedError, UnavailableError, UnsupportedError
from paddock.backends.supervised.connect import connect, end_sandbox, hang_up
from paddock.backends.supervised.driver import Root, SupervisedDriver
from paddock.backends.supervised.streams import MOST_KEPT
from paddock.dirs.descriptor import DescriptorDir
from paddock.driver import Running, Spawn
from paddock.types import Guarantee, Isolation
from paddock.wire.channel import SocketChannel, root_payload
from paddock.wire.frames import Request
from supervisor.listening import Listening
from supervisor.marks import Mark, until

NO = Guarantee(False, "")
NOTHING = Isolation(files=NO, processes=NO, network=NO, syscalls=NO)
ENV = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def there() -> Iterator[Listening]:
    with Listening() as supervisor:
        yield supervisor


class Host:
    """One driver over a connection of its own."""

    def __init__(self, channel: SocketChannel, driver: SupervisedDriver) -> None:
        self.channel = channel
        self.driver = driver

    async def start(
        self, script: str, env: Mapping[str, str] = ENV, *, pty: bool = False, background: bool = True
    ) -> Running:
        """A shell script."""
        files = cast("Any", None)
        return await self.driver.spawn(
            Spawn((script,), True, "/", "/", "", env, not pty, pty, background, 1 << 20, files)
        )


async def _host(there: Listening, *, detached: bool = True) -> Host:
    channel = await connect(there.path)
    (frame,) = await channel.ask(Request.ROOT, root_payload("/"), number := channel.new_id(), descriptors=1)
    roots = {"/": Root(number, DescriptorDir(frame.fds[0]), "/")}

    async def end() -> None:
        await hang_up(channel)

    return Host(channel, SupervisedDriver(channel, roots, NOTHING, {}, end, detached=detached))


@asynccontextmanager
async def _hosts(there: Listening, count: int) -> AsyncIterator[list[Host]]:
    hosts = [await _host(there) for _ in range(count)]
    try:
        yield hosts
    finally:
        for host in hosts:
            await host.driver.close()


async def _read(run: Running, until_: bytes) -> bytes:
    found = b""
    async with asyncio.timeout(30):
        async for chunk in run.chunks():
            found += chunk.data
            if until_ in found:
                break
    return found


async def test_what_one_started_another_finds(there: Listening) -> None:
    async with _hosts(there, 1) as (one,):
        process = await one.start("echo begun; echo wrong >&2; read word; echo $word; exit 5")
        await one.start("sleep 1000", background=False)
        await _read(process, b"begun\n")
        pid = process.pid
    async with _hosts(there, 1) as (other,):
        (info,) = await other.driver.processes()
        assert (info.pid, info.command) == (pid, ("echo begun; echo wrong >&2; read word; echo $word; exit 5",))
        again, twice = await asyncio.gather(other.driver.attach(pid), other.driver.attach(pid))
        assert again is twice
        assert again.pid == pid
        assert (await other.driver.processes())[0].command == info.command
        await again.write(b"on\n")
        result = await again.wait()
        assert (result.exit_code, result.stdout, result.stderr) == (5, "begun\non\n", "wrong\n")
        assert result.duration > 0
        assert await other.driver.processes() == []
        with pytest.raises(NotFoundError):
            await other.driver.attach(pid)


async def test_taken_over(there: Listening) -> None:
    async with _hosts(there, 2) as (one, other):
        process = await one.start("read word; echo $word; read word; exit 5")
        waiting = [asyncio.ensure_future(process.wait()) for _ in range(3)]
        reading = asyncio.ensure_future(_read(process, b"never"))
        again = await other.driver.attach(process.pid)
        for waiter in waiting:
            with pytest.raises(ConflictError, match="taken over by another connection"):
                await asyncio.wait_for(waiter, 30)
        assert await reading == b""
        with pytest.raises(BrokenPipeError):
            await process.write(b"x\n")
        await process.signal(15)
        with pytest.raises(ConflictError):
            await process.kill()
        await again.write(b"mine\n")
        assert await _read(again, b"mine\n") == b"mine\n"
        back = await one.driver.attach(process.pid)
        with pytest.raises(ConflictError):
            await again.wait()
        assert await _read(back, b"mine\n") == b"mine\n"
        await back.write(b"\n")
        assert (await back.wait()).exit_code == 5


async def test_taken_over_while_it_is_killed(there: Listening, mark: Mark) -> None:
    async with _hosts(there, 2) as (one, other):
        for _ in range(10):
            process = await one.start("sleep 1000", {**ENV, **mark.env})
            killing = asyncio.ensure_future(process.kill())
            try:
                taken = await other.driver.attach(process.pid)
            except NotFoundError:
                await killing
            else:
                assert (await taken.wait()).exit_code == 137
                await asyncio.wait([killing])
                assert killing.exception() is None or isinstance(killing.exception(), ConflictError)
            assert await until(mark.gone)


async def test_killing_what_was_attached_to(there: Listening, mark: Mark) -> None:
    async with _hosts(there, 1) as (one,):
        pid = (await one.start("sleep 1000 & setsid sleep 1000 & sleep 1000", {**ENV, **mark.env})).pid
    async with _hosts(there, 1) as (other,):
        again = await other.driver.attach(pid)
        await again.kill()
        assert mark.gone()
        assert again.exit_code == 137


async def test_input_that_was_closed(there: Listening) -> None:
    async with _hosts(there, 2) as (one, other):
        process = await one.start("cat; read word; sleep 1000")
        await process.close_stdin()
        again = await other.driver.attach(process.pid)
        with pytest.raises(BrokenPipeError):
            await asyncio.wait_for(again.write(b"x"), 30)
        await again.kill()


async def test_much_input_and_output(there: Listening) -> None:
    async with _hosts(there, 2) as (one, other):
        process = await one.start("head -c 3000000 | tee /dev/stderr | wc -c; exit 3")
        await process.write(bytes(1_000_000))
        again = await other.driver.attach(process.pid)
        await asyncio.wait_for(again.write(bytes(2_000_000)), 60)
        result = await again.wait()
        assert (result.exit_code, result.stdout) == (3, "3000000\n")
        assert result.truncated
        assert len(result.stderr_bytes) == MOST_KEPT


async def test_a_terminal(there: Listening) -> None:
    async with _hosts(there, 1) as (one,):
        process = await one.start("stty -echo; echo begun; while read word; do stty size; done; exit 4", pty=True)
        await _read(process, b"begun\r\n")
        await process.resize(30, 100)
        pid = process.pid
    async with _hosts(there, 1) as (other,):
        again = await other.driver.attach(pid)
        await again.write(b"\n")
        assert await _read(again, b"100\r\n") == b"begun\r\n30 100\r\n"
        await again.resize(50, 132)
        await again.write(b"\n")
        assert (await _read(again, b"132\r\n")).endswith(b"50 132\r\n")
        await again.close_stdin()
        assert (await asyncio.wait_for(again.wait(), 30)).exit_code == 4


async def test_leaving_and_ending(there: Listening, mark: Mark) -> None:
    env = {**ENV, **mark.env}
    async with _hosts(there, 2) as (one, other):
        leaves = [await one.start("exec sleep 1000", env), await one.start("exec sleep 1000", env, background=False)]
        stays = await other.start("exec sleep 1000", env)
        await one.driver.close()
        with pytest.raises(ClosedError, match="runs on"):
            await leaves[0].wait()
        assert (await leaves[1].wait()).exit_code == 137
        assert await until(lambda: len(mark.pids()) == 2)
        await end_sandbox(other.channel)
        assert mark.gone()
        assert (await stays.wait()).exit_code == 137
        with pytest.raises(SandboxDiedError):
            await end_sandbox(other.channel)
        assert there.wait() == 0
    with pytest.raises(SandboxDiedError):
        await connect(there.path)


async def test_another_ends_it(there: Listening) -> None:
    async with _hosts(there, 2) as (one, other):
        process = await one.start("sleep 1000")
        await end_sandbox(other.channel)
        with pytest.raises(SandboxDiedError):
            await process.wait()


async def test_a_cancelled_attach_lets_the_command_be(there: Listening) -> None:
    async with _hosts(there, 2) as (one, other):
        process = await one.start("read word; exit 5")
        for turns in range(6):
            attaching = asyncio.ensure_future(other.driver.attach(process.pid))
            for _ in range(turns):
                await asyncio.sleep(0)
            attaching.cancel()
            await asyncio.wait([attaching])
        again = await asyncio.wait_for(other.driver.attach(process.pid), 30)
        await again.write(b"\n")
        assert (await again.wait()).exit_code == 5


async def test_it_is_not_taken_by_one_that_is_not_detached(there: Listening) -> None:
    """Such a driver knows its own commands only, and theirs have the host's own pipes."""
    plain = await _host(there, detached=False)
    async with _hosts(there, 1) as (one,):
        theirs = await one.start("sleep 1000")
        assert await plain.driver.processes() == []
        with pytest.raises(NotFoundError):
            await plain.driver.attach(theirs.pid)
        own = await plain.start("sleep 1000")
        with pytest.raises(UnsupportedError, match="goes to the connection that started it"):
            await one.driver.attach(own.pid)
    await plain.driver.close()


async def test_too_many_connections(there: Listening) -> None:
    before = descriptors.count()
    async with _hosts(there, 64):
        with pytest.raises(UnavailableError, match="does not take"):
            await connect(there.path)
    await (await _host(there)).driver.close()
    assert await descriptors.soon_back_to(before)


async def test_nothing_to_connect_to(tmp_path: Path) -> None:
    with pytest.raises(SandboxDiedError):
        await connect(tmp_path / "socket")
    with pytest.raises(UnavailableError, match="too long"):
        await connect(tmp_path / ("x" * 200))
