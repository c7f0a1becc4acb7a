"""How a sandbox ends: its host is killed, its channel breaks, its supervisor is killed. Nothing is left, nothing hangs."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from paddock import Sandbox, SandboxDiedError, cgroups
from paddock.backends.local import Local
from paddock.state import sweep
from supervisor.marks import Mark, parent, state, until
from supervisor.shapes import SHAPES, Shape

ALL = sum(shape.size for shape in SHAPES.values())


@contextmanager
def _creator(mode: Local, shapes: list[Shape], mark: Mark, *, fork: bool = False) -> Iterator[subprocess.Popen[str]]:
    """A host process with a sandbox in which all of these run."""
    job = json.dumps([{"local": asdict(mode), "fork": fork}, [shape.argv for shape in shapes], mark.env])
    words = [sys.executable, str(Path(__file__).with_name("creator.py")), job]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n"
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _supervisor_of(process_pid: int) -> int:
    """The supervisor above a command, whether or not there is a keeper between them."""
    above = parent(process_pid)
    with open(f"/proc/{above}/cmdline", "rb") as file:
        name = file.read().split(b"\0")[0]
    assert b"paddock-init" in name
    grand = parent(above)
    with open(f"/proc/{grand}/cmdline", "rb") as file:
        return grand if b"paddock-init" in file.read().split(b"\0")[0] else above


async def test_a_killed_host(mode: Local, mark: Mark) -> None:
    with _creator(mode, list(SHAPES.values()), mark) as creator:
        assert await until(lambda: len(mark.pids()) >= ALL)
        creator.kill()
        assert await until(mark.gone)
    sweep()


async def test_a_killed_host_whose_child_holds_the_channel(mode: Local, mark: Mark) -> None:
    with _creator(mode, [SHAPES["plain"], SHAPES["daemon"]], mark, fork=True) as creator:
        assert await until(lambda: len(mark.pids()) >= 4)
        (child,) = [int(name) for name in os.listdir("/proc") if name.isdigit() and _is_forked(int(name), creator.pid)]
        creator.kill()
        assert await until(mark.gone)
        assert state(child) == "S"
    sweep()


def _is_forked(pid: int, creator: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return parent(pid) == creator and b"creator.py" in file.read()
    except OSError:
        return False


async def test_a_stopped_host_is_no_killed_one(owner: Local, mark: Mark) -> None:
    with _creator(owner, [SHAPES["plain"]], mark) as creator:
        assert await until(lambda: len(mark.pids()) >= 2)
        creator.send_signal(signal.SIGSTOP)
        await asyncio.sleep(0.3)
        assert await until(lambda: len(mark.pids()) >= 2)
        creator.kill()
        assert await until(mark.gone)
    sweep()


async def test_a_channel_that_breaks(mode: Local, mark: Mark) -> None:
    async with Sandbox.create(mode) as sb:
        running = [await sb.start(shape.argv, env=mark.env) for shape in SHAPES.values()]
        assert await until(lambda: len(mark.pids()) >= ALL)
        under_way = asyncio.ensure_future(sb.exec(["sleep", "60"]))
        await asyncio.sleep(0)
        channel = sb._core.launched.driver._channel  # type: ignore[attr-defined]
        channel.close()
        channel.closing = False  # as if nobody had meant to
        for process in running:
            with pytest.raises(SandboxDiedError):
                await process.wait()
        with pytest.raises(SandboxDiedError):
            await under_way
        assert await until(mark.gone)


async def test_a_killed_supervisor(mode: Local, mark: Mark) -> None:
    async with Sandbox.create(mode) as sb:
        workspace = Path(sb.resolve("/workspace"))
        await sb.write("f", "x")
        process = await sb.start(SHAPES["daemon"].argv, env=mark.env)
        assert await until(lambda: len(mark.pids()) >= 2)
        under_way = asyncio.ensure_future(sb.exec(["sleep", "60"]))
        await asyncio.sleep(0.05)
        os.kill(_supervisor_of(process.pid), signal.SIGKILL)
        for call in (under_way, process.wait(), sb.exec(["true"]), sb.start(["true"]), sb.processes()):
            with pytest.raises(SandboxDiedError):
                await asyncio.wait_for(call, 20)
        await process.kill()
        await process.signal(15)
        assert workspace.exists()
    assert await until(mark.gone, 20)
    assert not workspace.exists()


async def test_a_command_that_kills_its_supervisor(mark: Mark) -> None:
    async with Sandbox.create(Local()) as sb:
        process = await sb.start(["sleep", "60"])
        killer = f"sleep 60 & setsid sleep 60 & kill -9 {_supervisor_of(process.pid)}; sleep 60"
        with pytest.raises(SandboxDiedError):
            await sb.exec(killer, env=mark.env, timeout=30)
        if cgroups.parent() is not None:
            assert await until(lambda: len(mark.pids()) >= 1)
    if cgroups.parent() is not None:
        assert mark.gone()


async def test_a_command_that_kills_its_supervisor_and_keeper(mark: Mark) -> None:
    """Without a cgroup nothing more is promised than that nobody waits for ever; other keepers end their own."""
    async with Sandbox.create(Local(cgroup=False)) as sb:
        other = await sb.start(SHAPES["daemon"].argv, env=mark.env)
        assert await until(lambda: len(mark.pids()) >= 2)
        killer = "top=$(awk '/^PPid/ {print $2}' /proc/$PPID/status); kill -9 $top $PPID"
        with pytest.raises(SandboxDiedError):
            await sb.exec(killer, timeout=30)
        with pytest.raises(SandboxDiedError):
            await other.wait()
        assert await until(mark.gone)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_supervisor_that_is_asked_to_end(owner: Local, number: int, mark: Mark) -> None:
    async with Sandbox.create(owner) as sb:
        process = await sb.start(SHAPES["deaf"].argv, env=mark.env)
        assert await until(lambda: len(mark.pids()) >= 2)
        os.kill(_supervisor_of(process.pid), number)
        with pytest.raises(SandboxDiedError):
            await process.wait()
        assert await until(mark.gone)


def test_the_thread_that_made_it_may_end(owner: Local, mark: Mark) -> None:
    """A loop that is driven by one thread after another keeps its sandbox."""
    loop = asyncio.new_event_loop()
    made: list[Sandbox] = []

    async def begin() -> None:
        made.append(await Sandbox.create(owner))
        await made[0].start(["sleep", "60"], env=mark.env)

    async def go_on() -> None:
        assert await until(lambda: len(mark.pids()) == 1)
        assert (await made[0].exec(["echo", "still here"])).stdout == "still here\n"
        await made[0].close()

    thread = threading.Thread(target=lambda: loop.run_until_complete(begin()))
    thread.start()
    thread.join()
    loop.run_until_complete(go_on())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    assert mark.gone()
