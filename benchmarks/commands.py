"""Commands of a sandbox against the same by asyncio and by plain pipes."""

import asyncio
import os
import resource
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter

from benchmarks.bench import Bench
from benchmarks.measure import Check, Rows, Step, alternate, compare
from paddock import Local, Namespaces, Sandbox
from paddock.driver import BackendSpec

EXEC_HOLD = 1.0
STREAM_HOLD = 1 / 0.7
FLAT_BYTES = 64 << 20
IDLE_BYTES = 1536 << 10
AT_ONCE = 100
SHELL = ("/bin/sh", "-c", "true")

LOCAL = {
    "local": Local(),
    "local, no cgroups": Local(cgroup=False),
    "local, frames": Local(frames=True),
}
BACKENDS: dict[str, BackendSpec] = {**LOCAL, "namespaces": Namespaces()}
HELD = ("local", "local, no cgroups", "namespaces")

Action = Callable[[], Awaitable[object]]


def exec_(bench: Bench) -> Rows:
    """`exec("true")` in a sandbox that runs."""
    sandboxes = {title: _sandbox(bench, title) for title in BACKENDS}
    steps = {title: _turns(bench, lambda sb=sb: sb.exec("true")) for title, sb in sandboxes.items()}  # type: ignore[misc]
    steps["asyncio"] = _turns(bench, _plain)
    taken = alternate(steps, bench.scale.rounds)
    for title in sandboxes:
        hold = EXEC_HOLD if title in HELD else None
        yield compare(f'exec("true"), {title}', taken[title], taken["asyncio"], against="asyncio", hold=hold)


def concurrent(bench: Bench) -> Rows:
    """Many at once."""
    sandboxes = {title: _sandbox(bench, title) for title in BACKENDS}
    steps = {title: _turns(bench, lambda sb=sb: _many(lambda: sb.exec("true")), 1) for title, sb in sandboxes.items()}  # type: ignore[misc]
    steps["asyncio"] = _turns(bench, lambda: _many(_plain), 1)
    taken = alternate(steps, bench.scale.few_rounds)
    for title in sandboxes:
        yield compare(f"{AT_ONCE} exec at once, {title}", taken[title], taken["asyncio"], against="asyncio")


def stream(bench: Bench) -> Rows:
    """A lot of output, read as it comes: from a program that writes much at once, and from one that writes little."""
    size = bench.scale.stream
    sandboxes = {title: _sandbox(bench, title) for title in BACKENDS}
    for words, held in ((_large_writes(size), True), (_small_writes(size), False)):
        steps = {title: _stream_turns(bench, sandbox, words, size) for title, sandbox in sandboxes.items()}
        steps["pipe"] = lambda words=words: _plain_stream(words)  # type: ignore[misc]
        before = _peak()
        taken = alternate(steps, bench.scale.few_rounds)
        grown = _peak() - before
        case = f"stream {size >> 20} MiB from {words[0]}"
        for title in BACKENDS:
            hold = STREAM_HOLD if held and title in HELD else None
            yield compare(f"{case}, {title}", taken[title], taken["pipe"], against="a pipe", hold=hold)
        yield Check(f"{case}: memory stays flat", f"{grown >> 20} MiB more at its peak", grown < FLAT_BYTES)


def _large_writes(size: int) -> list[str]:
    return ["dd", "if=/dev/zero", "bs=64k", f"count={size >> 16}", "status=none"]


def _small_writes(size: int) -> list[str]:
    return ["head", "-c", str(size), "/dev/zero"]


def start(bench: Bench) -> Rows:
    """From nothing to the end of the first command, and everything cleaned up."""
    steps = {title: _turns(bench, lambda title=title: _life(title), 5) for title in LOCAL}  # type: ignore[misc]
    steps["asyncio"] = _turns(bench, _plain, 5)
    taken = alternate(steps, bench.scale.rounds)
    for title in LOCAL:
        yield compare(f"create, exec, close, {title}", taken[title], taken["asyncio"], against="one asyncio exec")


def idle(bench: Bench) -> Rows:
    """What a sandbox costs that does nothing: the supervisor's own memory."""
    for title in LOCAL:
        sandbox = _sandbox(bench, title)
        pid = bench.run(_supervisor(sandbox))
        size = _resident(pid)
        yield Check(f"idle, {title}", f"{size >> 10} KiB in the supervisor", size <= IDLE_BYTES)


def _sandbox(bench: Bench, title: str) -> Sandbox:
    return bench.keep(BACKENDS[title])


def _turns(bench: Bench, action: Action, calls: int | None = None) -> Step:
    async def turn() -> float:
        count = calls or max(1, bench.scale.calls // 10)
        started = perf_counter()
        for _ in range(count):
            await action()
        return (perf_counter() - started) / count

    return lambda: bench.run(turn())


async def _plain() -> None:
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*SHELL, stdin=nothing, stdout=pipe, stderr=pipe)
    await process.communicate()


async def _many(action: Action) -> None:
    await asyncio.gather(*(action() for _ in range(AT_ONCE)))


def _stream_turns(bench: Bench, sandbox: Sandbox, words: list[str], size: int) -> Step:
    async def turn() -> float:
        started = perf_counter()
        seen = 0
        async with await sandbox.start(words) as process:
            async for chunk in process:
                seen += len(chunk.data)
        if seen != size:
            raise AssertionError("output was lost")
        return perf_counter() - started

    return lambda: bench.run(turn())


def _plain_stream(words: list[str]) -> float:
    started = perf_counter()
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while os.read(process.stdout.fileno(), 64 << 10):
            pass
    return perf_counter() - started


async def _life(title: str) -> None:
    async with Sandbox.create(BACKENDS[title]) as sandbox:
        await sandbox.exec("true")


async def _supervisor(sandbox: Sandbox) -> int:
    """The pid of the supervisor: the parent of a command, or of the keeper between them."""
    words = await sandbox.exec("echo $PPID; sed -n 's/^PPid:\\s*//p' /proc/$PPID/status")
    parent, above = map(int, words.stdout.split())
    return parent if above == os.getpid() else above


def _resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError("the kernel does not say")


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
