"""`namespaces` against bubblewrap alone, out of a pool, and many at once."""

import asyncio
import gc
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter, sleep

from benchmarks.bench import Bench
from benchmarks.measure import Check, Rows, Step, alternate, compare
from paddock import Namespaces, Pool, Sandbox
from paddock.backends.namespaces import bwrap, order
from paddock.backends.namespaces.identity import Identity
from paddock.backends.namespaces.sources import Sources
from paddock.backends.namespaces.start import children
from paddock.driver import Plan
from paddock.sandbox.layout import lay_out
from paddock.state import sweep
from paddock.wire.binary import filter_path, supervisor_path

LIFE_HOLD = 1.5
POOL_SECONDS = 0.0003
FLEET_HOLD = 3.0
INSIDE_BYTES = 1536 << 10
HOST_BYTES = 100 << 10
END_SECONDS = 1.0
FILTERS = ("allow", "refuse", "commands")
SHELL = ("/bin/sh", "-c", "true")


def life(bench: Bench) -> Rows:
    """From nothing to the end of the first command, and everything cleaned up: against the same by bubblewrap alone."""
    with _bare(bench) as bare:
        taken = alternate({"ours": _turns(bench), "bwrap": bare}, bench.scale.rounds)
    yield compare("create, exec, close", taken["ours"], taken["bwrap"], against="one bwrap", hold=LIFE_HOLD)


def pool(bench: Bench) -> Rows:
    """Taking a sandbox that is ready."""
    times = bench.run(_acquired(bench.scale.rounds))
    words = f"{median(times) * 1e6:.0f} µs, hold {POOL_SECONDS * 1e6:.0f}"
    yield Check("acquire from a warm pool", words, median(times) <= POOL_SECONDS)


def fleet(bench: Bench) -> Rows:
    """Many sandboxes at once, with commands in all of them: against one sandbox with the same number at a time."""
    live, commands = bench.scale.fleet
    _raise_descriptors()
    alone, together, failed, cost = bench.run(_fleet(live, commands))
    yield Check(
        f"{live:,} sandboxes, {commands:,} commands, one by one and 16 at once", f"{failed} failed", failed == 0
    )
    yield compare(f"a command in {live:,} sandboxes", together, alone, against="in one", hold=FLEET_HOLD)
    yield Check("an idle sandbox, in the host's process", f"{cost >> 10} KiB", cost <= HOST_BYTES)


def end(bench: Bench) -> Rows:
    """How long something of a sandbox is there after its host was killed."""
    times = [_killed(bench.directory) for _ in range(bench.scale.few_rounds)]
    sweep()  # files and cgroups, as the next sandbox would: there is none
    words = f"{median(times) * 1e3:.0f} ms, at most {max(times) * 1e3:.0f}; hold {END_SECONDS * 1e3:.0f}"
    yield Check("gone after kill -9 of its host", words, max(times) <= END_SECONDS)


_HOST = """
import asyncio, sys
from paddock import Namespaces, Sandbox

async def main() -> None:
    async with Sandbox.create(Namespaces()) as sandbox:
        await sandbox.exec("setsid sleep 1000 & sleep 1000 & echo")
        print("ready", flush=True)
        await asyncio.sleep(1000)

asyncio.run(main())
"""


def _killed(directory: Path) -> float:
    """A program of its own makes a sandbox with processes in it, and is killed."""
    with subprocess.Popen([sys.executable, "-c", _HOST], stdout=subprocess.PIPE, cwd=directory) as host:
        assert host.stdout is not None
        host.stdout.readline()
        pids = _below(host.pid)
        started = perf_counter()
        host.kill()
        host.wait()
    while any(_is_alive(pid) for pid in pids):
        sleep(0.001)
    return perf_counter() - started


def _below(pid: int) -> list[int]:
    lists = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [found for children in lists for child in children for found in (int(child), *_below(int(child)))]


def _is_alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def idle(bench: Bench) -> Rows:
    """What a sandbox holds of memory that does nothing: its supervisor, and what waits beside it."""
    before = children(os.getpid())
    sandbox = bench.keep(Namespaces())
    bench.run(sandbox.exec("true"))
    (bubblewrap,) = set(children(os.getpid())) - set(before)
    (first,) = children(bubblewrap)
    size = _inside(first)
    yield Check("an idle sandbox, inside", f"{size >> 10} KiB", size <= INSIDE_BYTES)


def _turns(bench: Bench) -> Step:
    async def turn() -> float:
        started = perf_counter()
        async with Sandbox.create(Namespaces()) as sandbox:
            await sandbox.exec("true")
        return perf_counter() - started

    return lambda: bench.run(turn())


@contextmanager
def _bare(bench: Bench) -> Iterator[Step]:
    """One bubblewrap with the same namespaces, mounts and filters, as whoever runs this, and the same command in it."""
    private = {target: str(bench.directory / target[1:]) for target in ("/workspace", "/cache")}
    for path in private.values():
        os.makedirs(path, exist_ok=True)
    told = order.Order(Identity(os.geteuid(), os.getegid(), ours=True), by_descriptor=False)
    plan = Plan(id="bare", mounts=lay_out(None, None, None, None, ()).mounts)
    try:
        order.build(told, plan, Sources(plan), private, supervisor_path())
        yield lambda: bench.run(_one_bare([*told.words, "--die-with-parent"]))
    finally:
        told.close()


async def _one_bare(words: list[str]) -> float:
    """Started and waited for as `exec` is compared with, and what it prints is collected."""
    started = perf_counter()
    filters = [os.open(filter_path(name), os.O_RDONLY | os.O_CLOEXEC) for name in FILTERS]
    words = [bwrap.find().path, *words, *(word for fd in filters for word in ("--add-seccomp-fd", str(fd)))]
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *words, "--", *SHELL, pass_fds=filters, env={}, stdin=nothing, stdout=pipe, stderr=pipe
        )
        _, errors = await process.communicate()
    finally:
        for fd in filters:
            os.close(fd)
    if process.returncode:
        raise AssertionError(errors.decode())
    return perf_counter() - started


async def _acquired(rounds: int) -> list[float]:
    times = []
    async with Pool(size=2) as ready:
        for _ in range(rounds):
            await asyncio.sleep(0.1)  # until it is full again
            started = perf_counter()
            sandbox = await ready.acquire()
            times.append(perf_counter() - started)
            await sandbox.close()
    return times


async def _fleet(live: int, commands: int) -> tuple[list[float], list[float], int, int]:
    """Times of a command alone and among many, how many failed, and the bytes that one more sandbox costs this process."""
    async with Sandbox.create(Namespaces()) as one:
        alone, failed = await _run([one], commands // 10)
    gc.collect()
    before = _resident(os.getpid())
    sandboxes = await _many(live)
    gc.collect()
    cost = max(0, _resident(os.getpid()) - before) // live
    try:
        together, more = await _run(sandboxes, commands)
        more += await _run_at_once(sandboxes, commands)
    finally:
        for group in _groups(sandboxes):
            await asyncio.gather(*(sandbox.close() for sandbox in group))
    size = min(len(alone), len(together))
    return sorted(alone)[:size], sorted(together)[:: max(1, len(together) // size)][:size], failed + more, cost


async def _many(live: int) -> list[Sandbox]:
    made: list[Sandbox] = []
    while len(made) < live:
        made += await asyncio.gather(*(Sandbox.create(Namespaces()) for _ in range(min(8, live - len(made)))))
    return made


def _groups(sandboxes: list[Sandbox]) -> Iterator[list[Sandbox]]:
    for first in range(0, len(sandboxes), 8):
        yield sandboxes[first : first + 8]


async def _run(sandboxes: list[Sandbox], commands: int) -> tuple[list[float], int]:
    """Commands one after the other, in one sandbox after the other; each one's time, and how many failed."""
    times, failed, turn = [], 0, count()
    for _ in range(commands):
        sandbox = sandboxes[next(turn) % len(sandboxes)]
        started = perf_counter()
        result = await sandbox.exec("true")
        times.append(perf_counter() - started)
        failed += result.exit_code != 0
    return times, failed


async def _run_at_once(sandboxes: list[Sandbox], commands: int, most: int = 16) -> int:
    """The same number of commands, so many at a time; how many failed."""
    todo, failed = iter(range(commands)), 0

    async def worker() -> None:
        nonlocal failed
        for number in todo:
            failed += (await sandboxes[number % len(sandboxes)].exec("true")).exit_code != 0

    await asyncio.gather(*(worker() for _ in range(most)))
    return failed


def _inside(first: int) -> int:
    """The memory of all processes of a sandbox, from outside; what several share counts in parts."""
    namespace = os.readlink(f"/proc/{first}/ns/pid")
    total = 0
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and os.readlink(entry / "ns/pid") == namespace:
                total += _proportional(entry)
    return total


def _proportional(process: Path) -> int:
    lines = (process / "smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def _resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError("the kernel does not say")


def _raise_descriptors() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
