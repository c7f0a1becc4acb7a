"""Commands that take all there is, never end, or will not go: they are bounded, and nobody else is held up."""

import asyncio
import os
import resource
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import pytest

from paddock import (
    ConfigError,
    ExecResult,
    ExecTimeoutError,
    Limits,
    Sandbox,
    SandboxDiedError,
    SandboxError,
    UnavailableError,
)
from security import inside
from security.suite import Backend, Suite, ask, words_of
from supervisor.marks import Mark, state, until

BOMB = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
DAEMONS = """
import os, signal, subprocess, sys, time
for n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)
def apart(work):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0: work()
        os._exit(0)
def stop(): os.kill(os.getpid(), signal.SIGSTOP); time.sleep(100)
apart(lambda: time.sleep(100))
apart(stop)
subprocess.Popen(["setsid", "sleep", "100"])
if os.fork() == 0: stop()
print("ready", flush=True)
time.sleep(100)
"""
MANY_HOGS = "for i in 1 2 3 4 5 6; do ((head -c 20M /dev/zero; sleep 1) | tail > /dev/null || echo killed) & done; wait"
"""None of them takes much; `tail` keeps a line that has no end."""
MIB = 1 << 20


@asynccontextmanager
async def beside(backend: Backend) -> AsyncIterator[None]:
    """Another sandbox, whose commands and files go on working for the length of the block."""
    async with Sandbox.create(backend) as other:
        rounds, over = 0, asyncio.Event()

        async def work() -> None:
            nonlocal rounds
            while not over.is_set():
                await other.write("f", str(rounds))
                assert (await other.exec("cat f; true", timeout=60)).stdout == str(rounds)
                rounds += 1

        working = asyncio.ensure_future(work())
        try:
            yield
        finally:
            over.set()
            await working
        assert rounds > 0


@contextmanager
def few_descriptors(few: int) -> Iterator[None]:
    """This process may have so many open, and no more."""
    old = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, old)


async def memory_is_held(backend: Backend) -> None:
    """What a test needs that is about memory as a whole; where it is not there, the run says so."""
    if not await holds_memory(backend):
        pytest.skip("no cgroup here holds memory")


async def holds_memory(backend: Backend) -> bool:
    """Whether the sum of all processes can be held here. For root it can; else asking is an error, and not a promise."""
    try:
        async with Sandbox.create(backend, limits=Limits(memory="64m")):
            return True
    except UnavailableError:
        assert os.geteuid() != 0
        return False


async def daemons(sb: Sandbox, mark: Mark) -> None:
    """Wait until the four of them are there, two stopped."""
    assert await until(lambda: len(mark.pids()) >= 5)
    assert await until(lambda: [state(pid) for pid in mark.pids()].count("T") >= 2)


class ResourcesSecurity(Suite):
    """Storms, hogs, floods, and what outlives its caller."""

    async def test_a_fork_bomb(self, backend: Backend) -> None:
        mark = Mark()
        async with Sandbox.create(backend, limits=Limits(pids=50)) as sb:
            async with beside(backend):
                with pytest.raises(ExecTimeoutError):
                    await sb.exec(["python3", "-I", "-S", "-c", BOMB], env=mark.env, timeout=1)
            assert mark.gone()
            assert (await sb.exec("echo fine")).stdout == "fine\n"

    async def test_processes_are_counted(self, backend: Backend) -> None:
        async with Sandbox.create(backend, limits=Limits(pids=30)) as sb:
            count, word = await ask(sb, inside.fork_until_refused, 100)
            assert (15 < int(str(count)) < 30, word) == (True, "EAGAIN")
            with pytest.raises(ConfigError):
                Limits(pids=0)

    async def test_limits_of_each_process(self, backend: Backend) -> None:
        async with Sandbox.create(backend, limits=Limits(pids=77, open_files=99, file_size="1m")) as sb:
            found = await ask(sb, inside.limits)
            assert (found["RLIMIT_CORE"], found["RLIMIT_NOFILE"], found["RLIMIT_FSIZE"]) == (0, 99, MIB)
            assert (await sb.exec("head -c 2000000 /dev/zero > large; stat -c %s large")).stdout.strip() == str(MIB)
            assert (await sb.exec("head -c 1000000 /dev/zero > fits; stat -c %s fits")).stdout.strip() == "1000000"
            assert (await sb.exec("ulimit -c unlimited; ulimit -n 9999; ulimit -f unlimited")).exit_code != 0

    async def test_what_nothing_runs_with(self, backend: Backend) -> None:
        """It is said of the value, and not of the host; the least that is taken is enough."""
        for limits in (Limits(open_files=15), Limits(cpu=0.0009), Limits(pids=15)):
            with pytest.raises(ConfigError, match="at least"):
                await Sandbox.create(backend, limits=limits)
        async with Sandbox.create(backend, limits=Limits(open_files=16)) as sb:
            assert (await sb.exec("echo one | cat; python3 -c 'print(2)' < /dev/null | cat")).stdout == "one\n2\n"

    async def test_descriptors_on_their_way(self, backend: Backend) -> None:
        """The kernel counts them for each user of the host, in all sandboxes together, and refuses whoever sends the next."""
        with few_descriptors(512):
            async with Sandbox.create(backend) as sb, Sandbox.create(backend) as other:
                process = await sb.start(words_of(inside.send_descriptors, 2000))
                assert int((await anext(aiter(process))).text.split()[0]) > 1000
                for number in range(20):
                    assert (await other.exec("cat; echo err >&2", stdin=str(number))).stdout == str(number)
                assert (await other.exec("(sleep 0.3; echo a; echo b > said) & echo c")).stdout == "c\n"
                assert (await other.exec("while [ ! -e said ]; do sleep 0.1; done; cat said")).stdout == "b\n"
                assert (await sb.exec("echo fine")).stdout == "fine\n"
                await process.kill()

    async def test_defaults_hold_too(self, sb: Sandbox) -> None:
        found = await ask(sb, inside.limits)
        assert (found["RLIMIT_CORE"], found["RLIMIT_NOFILE"]) == (0, 4096)
        count, word = await ask(sb, inside.fork_until_refused, 1100)
        assert (500 < int(str(count)) < 1024, word) == (True, "EAGAIN")

    async def test_a_memory_hog(self, backend: Backend) -> None:
        await memory_is_held(backend)
        async with Sandbox.create(backend, limits=Limits(memory="64m")) as sb, beside(backend):
            result = await _take(sb, 300)
            assert (result.exit_code, result.limit) == (137, "memory")
            assert "killed" in (await sb.exec(MANY_HOGS)).stdout
            assert (await _take(sb, 20)).stdout == '"ok"\n'

    async def test_full_places_in_memory_leave_room(self, backend: Backend) -> None:
        """Nothing that can be put into them ends the sandbox, if no larger size was asked for."""
        await memory_is_held(backend)
        async with Sandbox.create(backend, limits=Limits(memory="64m")) as sb, beside(backend):
            for place in ("/tmp", "/dev/shm", "$HOME"):
                result = await sb.exec(f"head -c 300M /dev/zero > {place}/f")
                assert (result.exit_code, result.limit) == (1, None)
            assert (await sb.exec("echo fine")).stdout == "fine\n"

    async def test_memory_by_shared_files(self, backend: Backend) -> None:
        """What is put into /dev/shm or /tmp is memory as well: it counts, even if the whole sandbox ends of it."""
        await memory_is_held(backend)
        async with Sandbox.create(backend, limits=Limits(memory="64m", tmp="60m")) as sb, beside(backend):
            await sb.exec("head -c 40M /dev/zero > /tmp/f", check=True)
            try:
                result = await sb.exec("head -c 300M /dev/zero > /dev/shm/f")
                outcome = "memory" if result.exit_code != 0 and result.limit == "memory" else repr(result)
            except SandboxDiedError:
                outcome = "died"
            assert outcome in ("memory", "died")

    async def test_the_best_that_can_be_had(self, backend: Backend) -> None:
        """Without a cgroup each process is held by itself, and `isolation` says that this is all."""
        async with Sandbox.create(backend, limits=Limits(memory="64m", best_effort=True)) as sb:
            assert bool(sb.isolation.limits["memory"]) == await holds_memory(backend)
            assert (await _take(sb, 300)).stdout != '"ok"\n'
            assert (await _take(sb, 20)).stdout == '"ok"\n'

    async def test_endless_output(self, backend: Backend) -> None:
        async with Sandbox.create(backend) as sb, beside(backend):
            with pytest.raises(ExecTimeoutError) as caught:
                await sb.exec("yes", timeout=0.5, max_output=1000)
            result = caught.value.result
            assert (len(result.stdout_bytes), result.truncated) == (1000, True)
            with pytest.raises(ExecTimeoutError):
                await sb.exec("yes >&2 & yes", timeout=0.5, max_output=1000)
            assert (await sb.exec("yes | head -2")).stdout == "y\ny\n"

    async def test_one_line_of_a_gibibyte(self, sb: Sandbox) -> None:
        result = await sb.exec("head -c 1G /dev/zero | tr '\\0' x; echo end >&2", max_output=1 * MIB)
        assert (result.exit_code, len(result.stdout_bytes), result.truncated) == (0, MIB, True)
        assert result.stderr == "end\n"

    async def test_endless_input(self, sb: Sandbox) -> None:
        async def endless() -> AsyncIterator[bytes]:
            while True:
                yield b"x" * 65536

        assert (await sb.exec("head -c 5", stdin=endless())).stdout == "xxxxx"
        assert (await sb.exec(["true"], stdin=endless())).exit_code == 0
        with pytest.raises(ExecTimeoutError):
            await sb.exec(["sleep", "100"], stdin=endless(), timeout=0.5)
        assert (await sb.exec(["wc", "-c"], stdin=bytes(3 * MIB))).stdout.strip() == str(3 * MIB)

    async def test_sizes_of_terminals(self, sb: Sandbox) -> None:
        process = await sb.start("while read x; do stty size; done", pty=True)
        for wrong in ((0, 5), (5, 0), (-1, 5), (65536, 5), (5, 1 << 40)):
            with pytest.raises(ConfigError):
                await process.resize(*wrong)
        await process.resize(65535, 65535)
        await process.write("x\n")
        async for chunk in process:
            if "65535 65535" in chunk.text:
                break
        await process.kill()

    @pytest.mark.parametrize("end", ["timeout", "cancel", "kill", "close"])
    async def test_daemons_and_stopped_processes(self, backend: Backend, end: str) -> None:
        """Nothing of a command outlives the end of it: not what left its session, not what ignores signals or is stopped."""
        mark = Mark()
        async with Sandbox.create(backend) as sb:
            words = ["python3", "-I", "-S", "-c", DAEMONS]
            if end in ("timeout", "cancel"):
                task = asyncio.ensure_future(sb.exec(words, env=mark.env, timeout=3 if end == "timeout" else 100))
                await daemons(sb, mark)
                if end == "cancel":
                    task.cancel()
                with pytest.raises((ExecTimeoutError, asyncio.CancelledError)):
                    await task
            else:
                process = await sb.start(words, env=mark.env)
                await daemons(sb, mark)
                await (process.kill() if end == "kill" else sb.close())
            assert mark.gone()
            if end != "close":
                assert (await sb.exec("echo fine")).stdout == "fine\n"

    async def test_what_a_command_leaves_lives_on(self, sb: Sandbox) -> None:
        """The twin: one that ended by itself may leave a server running, until the sandbox ends."""
        mark = Mark()
        await sb.exec("setsid sleep 100 & sleep 100 & true", env=mark.env)
        assert await until(lambda: len(mark.pids()) == 2)
        await sb.close()
        assert mark.gone()

    @pytest.mark.alone
    async def test_spinning_processors(self, backend: Backend) -> None:
        """Twice as many busy loops as there are processors: calls are still answered, here and elsewhere."""
        async with Sandbox.create(backend) as sb, beside(backend):
            spinning = [await sb.start(["sh", "-c", "while :; do :; done"]) for _ in range(2 * (os.cpu_count() or 1))]
            async with asyncio.timeout(60):
                for _ in range(5):
                    assert (await sb.exec("echo here")).stdout == "here\n"
                    await sb.write("f", "x")
                    assert len(await sb.processes()) == len(spinning)
                for process in spinning:
                    await process.kill()
            assert await sb.processes() == []

    async def test_commands_that_stop_each_other(self, sb: Sandbox) -> None:
        """A command can stop or kill its neighbours, and not the one who ends them all."""
        victim = await sb.start(["sleep", "100"])
        await sb.exec("kill -STOP -1; true", timeout=30)
        await victim.kill()
        with suppress(SandboxError):
            await sb.exec(["sh", "-c", "kill -9 -1"], timeout=30)
        assert (await sb.exec("echo fine", timeout=30)).stdout == "fine\n"

    async def test_signals_that_a_command_ignores(self, sb: Sandbox) -> None:
        process = await sb.start("trap '' TERM INT HUP; echo ready; sleep 100; sleep 100")
        async for _ in process:
            await process.signal(signal.SIGTERM)
            break
        assert process.exit_code is None
        await process.kill()
        assert process.exit_code == 137


async def _take(sb: Sandbox, mebibytes: int) -> ExecResult:
    return await sb.exec(words_of(inside.take_memory, mebibytes * MIB))
