"""What only `local` does: real paths, real programs, and plain words about what it does not hold."""

import asyncio
import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from paddock import ExecTimeoutError, Local, Sandbox, SandboxDiedError, cgroups
from paddock.backends.supervised import launch, running, streams
from paddock.driver import BackendSpec

BOTH = pytest.mark.parametrize("backend", [Local(), Local(frames=True)], ids=["descriptors", "frames"])


def supervisor(sandbox: Sandbox) -> int:
    """The pid of its supervisor."""
    closing = sandbox._core.launched.driver._end.__self__  # type: ignore[attr-defined]
    pid: int = closing.supervisor.process.pid
    return pid


@BOTH
async def test_it_says_that_nothing_is_isolated(backend: BackendSpec) -> None:
    async with Sandbox.create(backend) as sb:
        for part in (sb.isolation.files, sb.isolation.processes, sb.isolation.network, sb.isolation.syscalls):
            assert not part.enforced
            assert "nothing" in part.by


@BOTH
async def test_commands_see_real_paths(backend: BackendSpec, tmp_path: Path) -> None:
    async with Sandbox.create(backend, workspace=tmp_path / "work", cache=tmp_path / "cache") as sb:
        await sb.write_files({"a/f": "1", "/cache/g": "2", "/home/agent/h": "3"})
        where = (await sb.exec("pwd -P; echo $PADDOCK_WORKSPACE; echo $PADDOCK_CACHE", cwd="a")).stdout.split()
        assert where == [str(tmp_path / "work/a"), str(tmp_path / "work"), str(tmp_path / "cache")]
        assert (await sb.exec("cat $PADDOCK_WORKSPACE/a/f $PADDOCK_CACHE/g ~/h")).stdout == "123"
        assert (await sb.exec("echo $HOME", env={"HOME": "/mine"})).stdout == "/mine\n"
        os.symlink("a", tmp_path / "work/link")
        assert (await sb.exec("pwd -P", cwd="link")).stdout.strip() == str(tmp_path / "work/a")


async def test_a_directory_that_is_swapped_for_a_link_is_not_entered(tmp_path: Path) -> None:
    """The supervisor opens it beneath its root once more, without following anything."""
    async with Sandbox.create("local", workspace=tmp_path / "work") as sb:
        await sb.mkdir("d")
        driver = sb._core.launched.driver
        spawn, ready = driver.spawn, asyncio.Event()

        async def late(command: object) -> object:
            os.rmdir(tmp_path / "work/d")
            os.symlink("/etc", tmp_path / "work/d")
            ready.set()
            return await spawn(command)  # type: ignore[arg-type]

        driver.spawn = late  # type: ignore[method-assign,assignment]
        with pytest.raises(FileNotFoundError, match="start in"):
            await sb.exec("pwd", cwd="d")
        assert ready.is_set()


@BOTH
async def test_a_killed_supervisor_is_told_and_not_a_hang(backend: BackendSpec, tmp_path: Path) -> None:
    sb = await Sandbox.create(backend)
    slow = asyncio.ensure_future(sb.exec("sleep 100"))
    while not await sb.processes():
        await asyncio.sleep(0.01)
    with pytest.raises(SandboxDiedError):
        await sb.exec(f"kill -9 {supervisor(sb)}; sleep 100")
    with pytest.raises(SandboxDiedError):
        await slow
    for later in (sb.exec("true"), sb.start("true"), sb.processes()):
        with pytest.raises(SandboxDiedError):
            await later
    await sb.close()
    assert not list((tmp_path / "state/sandboxes").iterdir())


async def test_out_of_descriptors_frames_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams.budget, "take", lambda: False)
    async with Sandbox.create("local") as sb:
        assert (await sb.exec("cat; echo err >&2; exit 5", stdin="in")).stdout == "in"
        process = await sb.start("stty size", pty=True)
        assert (await process.wait()).stdout == "24 80\r\n"


@pytest.mark.parametrize("pause", ["0", "0.004", "0.05"], ids=["before", "between", "after"])
async def test_more_than_a_pipe_holds(pause: str) -> None:
    """Before the pipes of a command are looked at, between two looks, and when they are watched."""
    async with Sandbox.create("local") as sb:
        result = await sb.exec(f"sleep {pause}; head -c 300000 /dev/zero; head -c 200000 /dev/zero >&2", timeout=60)
        assert (len(result.stdout_bytes), len(result.stderr_bytes)) == (300_000, 200_000)


async def test_the_budget_of_descriptors_is_given_back() -> None:
    before = streams.budget._used
    async with Sandbox.create("local") as sb:
        await asyncio.gather(*(sb.exec("true") for _ in range(20)))
        await sb.exec(["no-such-program"])
        process = await sb.start("sleep 100", pty=True)
        assert streams.budget._used == before + 1
        await process.kill()
        assert streams.budget._used == before
        await sb.start("sleep 100")
    assert streams.budget._used == before


async def test_signals_reach_the_command_alone(tmp_path: Path) -> None:
    async with Sandbox.create("local", workspace=tmp_path / "work") as sb:
        script = "trap 'echo caught; exit 9' USR1; sleep 100 & echo ready; wait"
        process = await sb.start(["sh", "-c", script])
        async for chunk in process:
            if "ready" in chunk.text:
                await process.signal(signal.SIGUSR1)
        result = await process.wait()
        assert (result.exit_code, result.stdout) == (9, "ready\ncaught\n")


@pytest.mark.skipif(shutil.which("npm", path="/usr/local/bin:/usr/bin:/bin") is None, reason="npm is not installed")
async def test_npm_test() -> None:
    async with Sandbox.create("local") as sb:
        package = {"name": "demo", "version": "1.0.0", "scripts": {"test": "echo success"}}
        await sb.write("package.json", json.dumps(package))
        result = await sb.exec("npm test", env={"npm_config_update_notifier": "false"})
        assert (result.exit_code, "success" in result.stdout) == (0, True), result.stderr


async def test_a_forked_child_leaves_its_parents_sandbox_alone() -> None:
    async with Sandbox.create("local") as sb:
        process = await sb.start(["sleep", "100"])
        child = os.fork()
        if child == 0:
            code = 1
            try:
                driver = sb._core.launched.driver
                driver.close().send(None)  # no loop runs here: it has to be done at the first step
            except StopIteration:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (await sb.exec("echo alive")).stdout == "alive\n"
        assert process.exit_code is None
        assert [info.pid for info in await sb.processes()] == [process.pid]


async def test_a_supervisor_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command can stop its own supervisor. Nobody waits for it for ever."""
    monkeypatch.setattr(running, "_SECONDS_TO_KILL", 0.5)
    monkeypatch.setattr(launch, "_SECONDS_TO_END", 0.5)
    monkeypatch.setattr("paddock.wire.channel.SECONDS_TO_ANSWER", 0.5)
    sb = await Sandbox.create("local")
    with pytest.raises(SandboxDiedError, match="does not answer"):
        await sb.exec(f"kill -STOP {supervisor(sb)}; sleep 100", timeout=0.5)
    with pytest.raises(SandboxDiedError):
        await sb.exec("true")
    await sb.close()


async def test_temporary_files_of_commands_are_private() -> None:
    async with Sandbox.create("local") as sb:
        made = Path((await sb.exec("mktemp", check=True)).stdout.strip())
        assert made.parent == Path(sb.resolve("/tmp"))
        assert await sb.list("/tmp") == [made.name]
    assert not made.exists()


@pytest.mark.skipif(cgroups.parent() is None, reason="no cgroup2 that we may use")
async def test_a_command_that_leaves_its_cgroup_ends_too() -> None:
    async with Sandbox.create("local") as sb:
        away = f"echo $$ > {cgroups.parent()}/cgroup.procs; exec sleep 100"
        with pytest.raises(ExecTimeoutError):
            await sb.exec(away, timeout=1)
        assert (await sb.exec("echo on")).stdout == "on\n"


@pytest.mark.skipif(cgroups.parent() is None, reason="no cgroup2 that we may use")
async def test_a_cgroup_that_was_frozen_is_not_used_again() -> None:
    async with Sandbox.create("local") as sb:
        own = f"{cgroups.parent()}$(sed -n s/^0:://p /proc/self/cgroup | sed 's,.*\\(/paddock-.*\\),\\1,')"
        await sb.exec(f"own={own}; echo $$ > {cgroups.parent()}/cgroup.procs; echo 1 > $own/cgroup.freeze", check=True)
        for _ in range(3):
            assert (await sb.exec("echo on", timeout=20)).stdout == "on\n"


@BOTH
async def test_writers_take_turns(backend: BackendSpec) -> None:
    async with Sandbox.create(backend) as sb:
        process = await sb.start("sleep 0.3; tr -d '\\0' | od -c | head -2; cat > /dev/null", stdin=True)
        large = asyncio.ensure_future(process.write(bytes(3_000_000)))
        await asyncio.sleep(0)
        await asyncio.gather(process.write("x"), large)
        await process.close_stdin()
        assert (await process.wait()).stdout.split() == ["0000000", "x", "0000001"]
        process = await sb.start("sleep 0.3; wc -c", stdin=True)
        large = asyncio.ensure_future(process.write(bytes(3_000_000)))
        await asyncio.sleep(0)
        await process.close_stdin()
        await large
        assert (await process.wait()).stdout.strip() == "3000000"


async def test_a_cancellation_is_not_lost_while_a_command_is_ended() -> None:
    async with Sandbox.create("local") as sb:
        killing = asyncio.Event()
        kill = running.CommandRun.kill

        async def slowly(run: running.CommandRun) -> None:
            killing.set()
            await asyncio.sleep(0.2)
            await kill(run)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(running.CommandRun, "kill", slowly)
            task = asyncio.ensure_future(sb.exec("sleep 100", timeout=0.1))
            await killing.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert await sb.processes() == []
