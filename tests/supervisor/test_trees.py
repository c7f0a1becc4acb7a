"""A command ends with everything that it started, in whatever way it is ended; and nothing else does."""

import asyncio
import os
import signal

import pytest

from paddock import ExecTimeoutError, Sandbox, cgroups
from paddock.backends.local import Local
from supervisor.marks import Mark, parent, until
from supervisor.shapes import KEEPER_KILLER, SHAPES, Shape


@pytest.fixture(params=SHAPES)
def shape(request: pytest.FixtureRequest) -> Shape:
    return SHAPES[request.param]


async def _timed_out(sb: Sandbox, shape: Shape, mark: Mark) -> None:
    """Run it into a timeout that leaves it enough time to grow."""
    for seconds in (0.4, 1, 4, 16):
        if await _grew_until(sb, shape, mark, seconds):
            return
    raise AssertionError("it never grew")


async def _grew_until(sb: Sandbox, shape: Shape, mark: Mark, seconds: float) -> bool:
    """Whether it had grown when its time was over."""
    task = asyncio.ensure_future(sb.exec(shape.argv, env=mark.env, timeout=seconds))
    grown = await until(lambda: task.done() or len(mark.pids()) >= shape.size) and not task.done()
    with pytest.raises(ExecTimeoutError) as caught:
        await task
    assert mark.gone()
    assert caught.value.result.exit_code == 137
    return grown


async def test_timeout(owner: Local, shape: Shape, mark: Mark) -> None:
    async with Sandbox.create(owner) as sb:
        other = await sb.start(["sleep", "60"])
        await _timed_out(sb, shape, mark)
        assert other.exit_code is None
        assert (await sb.exec(["echo", "still here"])).stdout == "still here\n"


async def test_cancel(owner: Local, shape: Shape, mark: Mark) -> None:
    async with Sandbox.create(owner) as sb:
        other = await sb.start(["sleep", "60"])
        task = asyncio.ensure_future(sb.exec(shape.argv, env=mark.env))
        assert await until(lambda: len(mark.pids()) >= shape.size)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert mark.gone()
        assert other.exit_code is None


async def test_kill(owner: Local, shape: Shape, mark: Mark) -> None:
    async with Sandbox.create(owner) as sb:
        other = await sb.start(["sleep", "60"])
        process = await sb.start(shape.argv, env=mark.env)
        assert await until(lambda: len(mark.pids()) >= shape.size)
        await process.kill()
        assert mark.gone()
        assert (await process.wait()).exit_code == 137
        assert other.exit_code is None
        assert (await sb.exec(["echo", "still here"])).stdout == "still here\n"


async def test_close(mode: Local, mark: Mark) -> None:
    async with Sandbox.create(mode) as sb:
        for shape in SHAPES.values():
            await sb.start(shape.argv, env=mark.env)
        assert await until(lambda: len(mark.pids()) >= sum(shape.size for shape in SHAPES.values()))
    assert mark.gone()


@pytest.mark.parametrize("backend", [Local(cgroup=False), Local(cgroup=False, frames=True)], ids=["pipes", "frames"])
async def test_one_that_kills_its_keeper(backend: Local, mark: Mark) -> None:
    async with Sandbox.create(backend) as sb:
        other = await sb.start(["sleep", "60"])
        process = await sb.start(KEEPER_KILLER.argv, env=mark.env, stdin=True)
        assert await until(lambda: len(mark.pids()) >= KEEPER_KILLER.size)
        await process.write("now\n")
        assert (await process.wait()).exit_code == 137
        await process.kill()
        assert mark.gone()
        assert other.exit_code is None


async def test_a_keeper_that_is_stopped(mark: Mark) -> None:
    async with Sandbox.create(Local(cgroup=False)) as sb:
        process = await sb.start(SHAPES["daemon"].argv, env=mark.env)
        assert await until(lambda: len(mark.pids()) >= 2)
        os.kill(parent(process.pid), signal.SIGSTOP)
        await process.kill()
        assert mark.gone()


async def test_children_of_a_command_that_ended_live_on(mode: Local, mark: Mark) -> None:
    async with Sandbox.create(mode) as sb:
        result = await sb.exec("sleep 60 & setsid sleep 60 & echo done", env=mark.env, timeout=20)
        assert (result.exit_code, result.stdout) == (0, "done\n")
        assert await until(lambda: len(mark.pids()) == 2)
        await sb.exec(["true"])
        assert await until(lambda: len(mark.pids()) == 2)
    assert mark.gone()


async def test_kill_reaches_them_after_all(mode: Local, mark: Mark) -> None:
    async with Sandbox.create(mode) as sb:
        process = await sb.start("sleep 60 & setsid sleep 60 & echo done", env=mark.env)
        assert (await process.wait()).exit_code == 0
        assert await until(lambda: len(mark.pids()) == 2)
        await process.kill()
        assert mark.gone()


@pytest.mark.skipif(cgroups.parent() is None, reason="no cgroup2 that we may use")
async def test_cgroups_that_a_command_made_in_its_own(mark: Mark) -> None:
    made = """
    own=$(awk -F: '/^0::/ {print $3}' /proc/self/cgroup); top=$(awk '$3 == "cgroup2" {print $2; exit}' /proc/mounts)
    exec 2> /dev/null
    mkdir -p "$top$own/inner/most"; sleep 60 & echo $! > "$top$own/inner/most/cgroup.procs"; echo made; wait
    """
    async with Sandbox.create(Local()) as sb:
        process = await sb.start(made, env=mark.env)
        assert (await anext(aiter(process))).data == b"made\n"
        await process.kill()
        assert mark.gone()
        assert (await sb.exec(["echo", "still here"])).stdout == "still here\n"


async def test_keepers_are_used_again() -> None:
    """For commands that have nothing in common: each has its own words, variables, directory and streams."""
    async with Sandbox.create(Local(cgroup=False)) as sb:
        await sb.mkdir("/workspace/d")
        keepers = []
        for number in range(12):
            cwd = ("/workspace", "/workspace/d")[number % 2]
            told = await sb.exec("cat; echo $N $PPID; pwd >&2", cwd=cwd, env={"N": str(number)}, stdin=f"{number} ")
            first, second, keeper = told.stdout.split()
            assert (first, second, told.stderr.strip()) == (str(number), str(number), await _there(sb, cwd))
            keepers.append(keeper)
        assert len(set(keepers)) < len(keepers)


async def _there(sb: Sandbox, cwd: str) -> str:
    return (await sb.exec(["pwd"], cwd=cwd)).stdout.strip()


async def test_the_keeper_of_a_killed_command_is_not(mark: Mark) -> None:
    async with Sandbox.create(Local(cgroup=False)) as sb:
        process = await sb.start(SHAPES["daemon"].argv, env=mark.env)
        keeper = parent(process.pid)
        await process.kill()
        assert mark.gone()
        assert await until(lambda: parent(keeper) == 0)
        assert (await sb.exec(["echo", "still here"])).stdout == "still here\n"


async def test_a_keeper_that_is_stopped_goes_on() -> None:
    """Else nobody would hear of the command's end."""
    async with Sandbox.create(Local(cgroup=False)) as sb:
        for _ in range(3):
            assert (await sb.exec("kill -STOP $PPID; echo done", timeout=30)).stdout == "done\n"


@pytest.mark.skipif(
    cgroups.parent() is None, reason="no cgroup2 that we may use: everything here is tested with keepers only"
)
def test_there_are_cgroups() -> None:
    assert cgroups.parent() is not None
