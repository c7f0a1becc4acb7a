"""The process that waits to be the next command: whatever is done to it, commands run."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from paddock import ExecTimeoutError, Namespaces, Sandbox, SandboxError
from paddock.backends.local import Local
from security.mutations import uncompiled

TO_ALL_OTHERS = (
    "import os; [os.kill(int(p), {}) for p in os.listdir('/proc') if p.isdecimal() and int(p) not in (1, os.getpid())]"
)


TO_ALL_THAT_COME = """
import os, signal
print("begun", flush=True)
while True:
    for pid in range(os.getpid() + 1, os.getpid() + 40):
        try:
            os.kill(pid, signal.SIGSTOP)
        except OSError:
            pass
"""

ORDERS_IN_A_FLOOD = """
import ctypes, signal, os
libc = ctypes.CDLL(None)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
queued = 0
while queued < 200_000 and libc.sigqueue(os.getpid(), int(signal.SIGRTMIN), None) == 0:
    queued += 1
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    libc.sigqueue(1, int(number), None)
    os.kill(1, number)
print(queued)
"""


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
async def test_signals_to_all_processes_of_a_sandbox(number: signal.Signals) -> None:
    """Commands can reach it, as they can reach each other."""
    async with Sandbox.create(Namespaces()) as sb:
        for _ in range(5):
            await sb.exec(["python3", "-c", TO_ALL_OTHERS.format(int(number))])
            assert (await sb.exec("echo fine")).stdout == "fine\n"


async def test_one_who_stops_all_that_begins() -> None:
    """Then nothing may start, but the supervisor answers, and all is well when it is over."""
    async with Sandbox.create(Namespaces()) as sb:
        attacker = await sb.start(["python3", "-c", TO_ALL_THAT_COME])
        assert (await anext(aiter(attacker))).data == b"begun\n"
        for _ in range(2):
            with suppress(SandboxError):  # it may have got through
                await asyncio.wait_for(sb.exec("true", timeout=1), 60)
        assert [info.pid for info in await sb.processes()] == [attacker.pid]
        await attacker.kill()
        assert (await sb.exec("echo fine")).stdout == "fine\n"


async def test_orders_for_the_first_process() -> None:
    """None is taken from inside, also not where the kernel has no room left to say who gave it."""
    async with Sandbox.create(Namespaces()) as sb:
        assert 0 < int((await sb.exec(["python3", "-c", ORDERS_IN_A_FLOOD])).stdout) < 10_000
        assert (await sb.exec("echo fine")).stdout == "fine\n"


async def test_many_words(mode: Local) -> None:
    """They have to be copied to its stack when the program is a script without a first line."""
    async with Sandbox.create(mode) as sb:
        await sb.write("script", "echo $#", mode=0o755)
        for count in (0, 1, 1_000, 5_000, 20_000):
            result = await sb.exec(["./script", *("x" for _ in range(count))], timeout=60)
            assert result.stdout == f"{count}\n"


async def test_where_a_program_is_looked_for(mode: Local) -> None:
    """As every C library does it, on the command's own PATH."""
    async with Sandbox.create(mode) as sb:
        await sb.write("one/tool", "echo one", mode=0o644)
        await sb.write("two/tool", "echo two $1", mode=0o755)
        for path in ("two", "one:two", "nowhere:two", "one/tool:two", f"{'x' * 5000}:two", ":two"):
            assert (await sb.exec(["tool", "words"], env={"PATH": path})).stdout == "two words\n"
        assert (await sb.exec(["tool"], cwd="two", env={"PATH": ""})).stdout == "two\n"
        assert (await sb.exec(["tool"], env={"PATH": "one"})).exit_code == 126
        for name in ("tool", "x" * 300):
            assert (await sb.exec([name], env={"PATH": "nowhere"})).exit_code == 127


async def test_it_is_the_same_for_one_that_cannot_be_run(mode: Local) -> None:
    async with Sandbox.create(mode) as sb:
        for _ in range(3):
            assert (await sb.exec(["/nowhere"])).exit_code == 127
            assert (await sb.exec(["/etc"])).exit_code == 126
            assert (await sb.exec(["true"])).exit_code == 0


async def test_it_goes_with_the_sandbox(mode: Local) -> None:
    """And holds nothing open meanwhile: a pipe of an earlier command, say."""
    async with Sandbox.create(mode) as sb:
        for _ in range(20):
            process = await sb.start("cat", stdin=True)
            await process.write("x")
            await process.close_stdin()
            result = await asyncio.wait_for(process.wait(), 20)
            assert result.stdout == "x"


async def test_a_keeper_that_can_take_no_order() -> None:
    """A command bounds what its keeper may have open: one that comes after it may fail, and is never a success unrun."""
    bounded = "import os, resource; resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (4, 4))"
    async with Sandbox.create(Local(cgroup=False)) as sb:
        assert (await sb.exec(["python3", "-c", bounded])).exit_code == 0
        for _ in range(4):
            with suppress(SandboxError):
                assert (await sb.exec("exit 3")).exit_code == 3
        assert (await sb.exec("exit 4")).exit_code == 4


@pytest.mark.parametrize(
    "change",
    [
        "os.setpriority(os.PRIO_PROCESS, os.getppid(), 7)",
        "os.sched_setaffinity(os.getppid(), {max(os.sched_getaffinity(0))})",
        "resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1))",
    ],
)
async def test_what_a_command_does_to_its_keeper_is_its_own(change: str) -> None:
    """The next one inherits nothing of it."""
    look = "import os, resource; print(os.getpriority(0, 0), os.sched_getaffinity(0), resource.getrlimit(0))"
    async with Sandbox.create(Local(cgroup=False)) as sb:
        before = (await sb.exec(["python3", "-c", look])).stdout
        for _ in range(3):
            assert (await sb.exec(["python3", "-c", f"import os, resource; {change}"])).exit_code == 0
            assert (await sb.exec(["python3", "-c", look])).stdout == before


async def test_one_that_is_killed_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one under load may be, here each time: it has ended as it was to, and that is no error of starting it."""
    uncompiled("spawn.c", "ready.taken = true;")(monkeypatch)
    async with Sandbox.create(Local(cgroup=False)) as sb:
        with pytest.raises(ExecTimeoutError) as caught:
            await sb.exec(["sleep", "100"], timeout=0.1)
        assert caught.value.result.exit_code == 137
        with pytest.raises(SandboxError, match="keep stopping or killing it"):
            await sb.exec("true")


async def test_a_long_command_leaves_no_memory_behind(mode: Local) -> None:
    """Idle, a sandbox is small, whatever was done in it."""
    async with Sandbox.create(mode) as sb:
        await sb.exec("true")
        before = set(_ours())
        assert (await sb.exec(["true", *("x" * 100_000 for _ in range(15))])).exit_code == 0
        for _ in range(3):  # the last of it goes when another has run
            await sb.exec("true")
        assert before & set(_ours())
        assert sum(_memory(pid) for pid in _ours()) < 1 << 20


def _ours() -> list[int]:
    """The supervisor below this process, and what waits below that."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    first = [pid for pid in map(int, children) if b"paddock-init" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    below = [Path(f"/proc/{pid}/task/{pid}/children").read_text().split() for pid in first]
    return [*first, *(int(pid) for pids in below for pid in pids)]


def _memory(pid: int) -> int:
    """What is in memory of what it has written: its program is in the page cache, whoever runs it."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) << 10
    return 0
