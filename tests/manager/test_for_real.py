"""The volume is tried with fakes; here it is few, and on a backend that runs commands."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import detached
from manager.fakes import FakeClock
from paddock import ClosedError, LimitReachedError, Manager, Sandbox, SandboxDiedError

HERE = "namespaces"


@pytest.fixture(autouse=True)
async def nothing_of_them_is_left(private_state: None, tmp_path: Path) -> AsyncIterator[None]:
    yield
    for info in await Sandbox.find():
        await Sandbox.remove(info.id)

    async def is_clear() -> bool:
        return detached.left() == [] and detached.seeing(str(tmp_path)) == []

    await detached.until(is_clear, "something is left")


async def test_counts_are_exact() -> None:
    async with Manager(backend=HERE, policy="session", max_total=4) as m:

        async def one(user: int, chat: int) -> None:
            async with m.get_or_create(f"u{user}", f"c{chat}") as lease:
                await lease.sandbox.exec("echo $$ >> log", check=True)
                assert (await m.stats()).total <= 4

        await asyncio.gather(*(one(user, 0) for user in range(4) for _ in range(3)))
        for user in range(6):
            await asyncio.gather(one(user, 0), one(user, 1))
        found = await Sandbox.find()
        assert len(found) == (await m.stats()).total == 4
        os.kill(detached.record(found[0].id).held["pid"], signal.SIGKILL)
        await detached.ended(found[0].id)
        await m.sweep()
        assert (await m.stats()).total == 3
        logs = {info.user + str(info.chat): Path(info.path, "log") for info in await m.workspaces()}
        assert [len(logs[f"u{user}c0"].read_text().splitlines()) for user in range(6)] == [4, 4, 4, 4, 1, 1]
        assert {os.stat(path).st_uid for path in logs.values()} == {os.geteuid()}
        for info in await m.list():
            await m.remove(info.user, info.chat)


async def test_requests_that_overlap() -> None:
    async with Manager(backend=HERE) as m:
        long = await m.get_or_create("alice", "chat")
        await long.sandbox.exec("mkfifo go", check=True)
        running = asyncio.ensure_future(long.sandbox.exec("read line < go; echo $line"))
        for _ in range(3):
            async with m.get_or_create("alice", "chat") as short:
                await short.sandbox.set_workdir("/tmp")
                await short.sandbox.exec("true", check=True)
        async with m.get_or_create("alice", "chat") as last:
            await last.sandbox.exec("echo it went well > go")
            assert (await running).stdout == "it went well\n"
        assert (await long.sandbox.exec("echo fine")).stdout == "fine\n"
        await long.release()
        assert await Sandbox.find() == []


async def test_stopping_ends_processes_and_keeps_files() -> None:
    async with Manager(backend=HERE, policy="longrunning") as m:
        lease = await m.get_or_create("alice", "chat")
        await lease.sandbox.start("exec sleep 1000")
        await lease.sandbox.write_files({"/workspace/w": "w", "/cache/c": "c", "/tmp/t": "t", "/home/agent/h": "h"})
        await m.stop("alice", "chat")
        with pytest.raises((SandboxDiedError, ClosedError)):
            await lease.sandbox.exec("true")
        assert await Sandbox.find() == []
        async with m.get_or_create("alice", "chat") as again:
            assert await again.sandbox.processes() == []
            found = [await again.sandbox.exists(path) for path in ("w", "/cache/c", "/tmp/t", "/home/agent/h")]
            assert found == [True, True, False, False]


async def test_a_command_that_runs_is_use(clock: FakeClock) -> None:
    async with Manager(backend=HERE, policy="session", clock=clock, sweep_every=None) as m:
        lease = await m.get_or_create("alice", "chat")
        process = await lease.sandbox.start("exec sleep 1000")
        clock.advance(3600)
        assert await m.sweep() == []
        await process.kill()
        await process.wait()
        clock.advance(3600)
        assert [removal.action for removal in await m.sweep()] == ["remove"]
        with pytest.raises((SandboxDiedError, ClosedError)):
            await lease.sandbox.exec("true")


async def test_one_that_was_ended_outside() -> None:
    async with Manager(backend=HERE, policy="session") as m:
        async with m.get_or_create("alice", "chat") as lease:
            await lease.sandbox.write("f", "x")
        detached.ran("await Sandbox.remove(sys.argv[1])", lease.sandbox.id)
        async with m.get_or_create("alice", "chat") as again:
            assert again.sandbox.id != lease.sandbox.id
            assert await again.sandbox.read("f") == "x"
            supervisor = detached.record(again.sandbox.id).held["pid"]
            os.kill(supervisor, signal.SIGKILL)
            await detached.ended(again.sandbox.id)
            async with m.get_or_create("alice", "chat") as third:
                assert await third.sandbox.read("f") == "x"
        assert (await m.stats()).total == 1


async def test_the_state_directory_is_still_closed(tmp_path: Path) -> None:
    """A manager's workspaces are shown to sandboxes, and nothing else that is beside them."""
    from paddock import ConfigError, Mount

    async with Manager(backend=HERE, policy="session") as m, m.get_or_create("alice", "chat") as lease:
        (info,) = await m.workspaces()
        above = Path(info.path).parent
        assert (await lease.sandbox.exec("ls -a / /workspace /cache")).stdout.count("workspace.json") == 0
        for path in (above, above.parent, above.parent.parent, above.parent.parent / "entries", tmp_path / "state"):
            with pytest.raises(ConfigError, match="state directory"):
                await Sandbox.create(HERE, mounts=[Mount(path, "/data")])
        async with Sandbox.create(HERE, mounts=[Mount(info.path, "/data")]) as other:
            assert await other.list("/data") == []


async def test_as_many_leases_as_connections() -> None:
    async with Manager(backend="namespaces", policy="session", sweep_every=None) as m:
        leases = [await m.get_or_create("alice", "chat") for _ in range(64)]
        with pytest.raises(LimitReachedError, match="64"):
            await m.get_or_create("alice", "chat")
        assert (await leases[-1].sandbox.exec("echo x")).stdout == "x\n"
        await m.remove("alice", "chat")
