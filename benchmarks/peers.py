"""`python -m benchmarks.peers PLACE`: one small command, and a sandbox for one, beside what others offer, in one run.

`scripts/peers.sh` has installed those of them at PLACE that are no part of the tests. A table and a picture are written
into the docs, so that they are of one run: what is left of a bar is time, what is right of it says what keeps the command in.
"""

import asyncio
import json
import logging
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.docker import IMAGE, _engine, _missing
from benchmarks.measure import Step, alternate
from paddock import Docker, Namespaces, Sandbox
from paddock.driver import BackendSpec

ROUNDS = 9
CALLS = 5
COMMAND = ["sh", "-c", "true"]
DOCS = Path(__file__).parent.parent / "docs"
MARKS = ("<!-- written by benchmarks/peers.py -->\n", "<!-- until here -->\n")
_SWE_REX = """
import asyncio, sys, time
from swerex.runtime.abstract import Command
from swerex.runtime.local import LocalRuntime
async def main():
    runtime = LocalRuntime()
    for line in sys.stdin:
        started = time.perf_counter()
        for _ in range(int(line)):
            await runtime.execute(Command(command=["sh", "-c", "true"]))
        print((time.perf_counter() - started) / int(line), flush=True)
asyncio.run(main())
"""


@dataclass(frozen=True, slots=True)
class Peer:
    """One way to run a command."""

    name: str
    isolates: str
    """What keeps the command in."""
    command: Step
    """A command where a sandbox is there, or everything needed for one if there is no such thing."""
    life: Step | None = None
    """A sandbox from nothing, one command in it, and its end."""


@dataclass(frozen=True, slots=True)
class Line:
    """What was measured of one."""

    name: str
    isolates: str
    command: float
    life: float | None


def main() -> int:
    """Measure, print, and write down."""
    place, load = Path(sys.argv[1]).resolve(), os.getloadavg()[0]
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="peers-") as here, ExitStack() as stack:
        os.environ["PADDOCK_STATE"] = f"{here}/state"
        runner = stack.enter_context(asyncio.Runner())
        lines = measured([*_all(place, runner, stack)])
    print(table(lines))
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "peers.json").write_text(json.dumps([asdict(line) for line in lines], indent=2) + "\n")
    (DOCS / "peers.svg").write_text(picture(lines))
    page = DOCS / "performance.md"
    page.write_text(between(page.read_text(), f"{table(lines)}\n\n{circumstances(load)}\n"))
    return 0


def between(page: str, words: str) -> str:
    """The page with these words in their place."""
    before, begin, rest = page.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not begin or not end:
        raise ValueError(f"the page has no {MARKS[0].strip()} or no {MARKS[1].strip()}")
    return f"{before}{begin}\n{words}\n{end}{after}"


def circumstances(load: float) -> str:
    """What else was going on, which is what times depend on."""
    return f"Medians of {ROUNDS} rounds on {os.cpu_count()} processors; their load before it began was {load:.1f}."


def measured(peers: list[Peer]) -> list[Line]:
    """All of them by turns, so that what else this machine does hits them alike."""
    commands = alternate({peer.name: peer.command for peer in peers}, ROUNDS)
    lives = alternate({peer.name: peer.life for peer in peers if peer.life is not None}, ROUNDS)
    found = (
        Line(peer.name, peer.isolates, median(commands[peer.name]), median(lives[peer.name]) if peer.life else None)
        for peer in peers
    )
    return sorted(found, key=lambda line: line.command)


def table(lines: list[Line]) -> str:
    """As it stands in docs/performance.md."""
    rows = [
        f"| {line.name} | {_shown(line.command)} | {'' if line.life is None else _shown(line.life)} | {line.isolates} |"
        for line in lines
    ]
    return "\n".join(
        ["| What | A command | With a sandbox of its own | What keeps it in |", "| --- | --- | --- | --- |", *rows]
    )


def picture(lines: list[Line]) -> str:
    """Bars, each ten times as long as a third of the width more."""
    least = min(line.command for line in lines)
    bars = []
    for number, line in enumerate(lines):
        top, length = 24 * number + 8, 20 + 130 * _tens(line.command / least)
        colour = "#2a7f62" if line.name.startswith("Paddock") else "#b0b6bb"
        bars.append(
            f'<text x="214" y="{top + 13}" text-anchor="end">{line.name}</text>'
            f'<rect x="220" y="{top}" width="{length:.0f}" height="17" fill="{colour}"/>'
            f'<text x="{226 + length:.0f}" y="{top + 13}">{_shown(line.command)}: {line.isolates}</text>'
        )
    height = 24 * len(lines) + 12
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="980" height="{height}" '
        f'font-family="sans-serif" font-size="12" role="img">'
        "<title>The time of one small command, on a logarithmic scale</title>" + "".join(bars) + "</svg>\n"
    )


def _tens(ratio: float) -> float:
    return math.log10(max(ratio, 1.0))


def _shown(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms" if seconds < 0.1 else f"{seconds * 1000:.0f} ms"


def _all(place: Path, runner: asyncio.Runner, stack: ExitStack) -> Iterator[Peer]:
    yield Peer("a plain subprocess", "nothing", _repeated(runner, _plain))
    yield _ours(runner, stack, Namespaces(), "namespaces", "namespaces, seccomp, no network, limits")
    yield from _frameworks(runner, stack)
    yield from _swe_rex(place, stack)
    yield from _srt(place)
    if reason := _missing():
        print(f"docker is not measured: {reason}", file=sys.stderr)
        return
    url = stack.enter_context(_engine())
    ours = Docker(socket=url.removeprefix("unix://"))
    yield _ours(runner, stack, ours, "docker", "a container, no network, limits", image=IMAGE)
    yield from _docker(url, stack)


def _ours(
    runner: asyncio.Runner, stack: ExitStack, backend: BackendSpec, name: str, isolates: str, **options: Any
) -> Peer:
    sandbox = runner.run(_made(backend, **options))
    stack.callback(lambda: runner.run(sandbox.close()))

    async def life() -> None:
        async with Sandbox.create(backend, **options) as another:
            await another.exec(COMMAND)

    return Peer(f"Paddock, {name}", isolates, _repeated(runner, lambda: sandbox.exec(COMMAND)), _once(runner, life))


async def _made(backend: BackendSpec, **options: Any) -> Sandbox:
    return await Sandbox.create(backend, **options)


def _frameworks(runner: asyncio.Runner, stack: ExitStack) -> Iterator[Peer]:
    """What frameworks come with to run commands on this machine."""
    from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient
    from deepagents.backends import LocalShellBackend
    from inspect_ai.util._sandbox.local import LocalSandboxEnvironment

    client = UnixLocalSandboxClient()

    async def begun() -> Any:
        session = await client.create()
        await session.start()
        return session

    session = runner.run(begun())
    stack.callback(lambda: runner.run(client.delete(session)))
    yield Peer(
        "OpenAI Agents, unix_local", "nothing on Linux", _repeated(runner, lambda: session.exec(*COMMAND, shell=False))
    )
    environment = LocalSandboxEnvironment()
    stack.callback(environment.directory.cleanup)
    yield Peer("Inspect, local", "nothing", _repeated(runner, lambda: environment.exec(COMMAND)))
    shell = LocalShellBackend(virtual_mode=False)
    yield Peer("deep agents, LocalShell", "nothing", lambda: _timed(lambda: shell.execute("true")))


def _swe_rex(place: Path, stack: ExitStack) -> Iterator[Peer]:
    python = place / "bin" / "python"
    try:
        subprocess.run([python, "-c", "import swerex.runtime.local"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        print("SWE-ReX is not measured: it is not installed", file=sys.stderr)
        return
    process = stack.enter_context(
        subprocess.Popen(
            [python, "-c", _SWE_REX],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    )

    def turn() -> float:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{CALLS}\n")
        process.stdin.flush()
        return float(process.stdout.readline())

    stack.callback(lambda: process.stdin and process.stdin.close())
    yield Peer("SWE-ReX, local", "nothing", turn)


def _srt(place: Path) -> Iterator[Peer]:
    """It has no sandbox that stays: each command has one of its own. It needs ripgrep and socat beside Node.js."""
    words = [str(place / "node_modules" / ".bin" / "srt"), *COMMAND]
    try:
        subprocess.run(words, check=True, capture_output=True, text=True)
    except OSError:
        print("srt is not measured: it is not installed", file=sys.stderr)
        return
    except subprocess.CalledProcessError as error:
        print(f"srt is not measured: {error.stderr.strip()}", file=sys.stderr)
        return
    yield Peer("srt", "bubblewrap, seccomp, a proxy", lambda: _program(words), lambda: _program(words))


def _docker(url: str, stack: ExitStack) -> Iterator[Peer]:
    client = ["docker", "--host", url]
    container = subprocess.run(
        [*client, "run", "--detach", "--network", "none", IMAGE, "sleep", "100000"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    stack.callback(lambda: subprocess.run([*client, "rm", "--force", container], check=False, capture_output=True))
    run = [*client, "run", "--rm", "--network", "none", IMAGE, *COMMAND]
    yield Peer(
        "docker exec, docker run",
        "a container",
        lambda: _program([*client, "exec", container, *COMMAND]),
        lambda: _program(run),
    )


async def _plain() -> None:
    process = await asyncio.create_subprocess_exec(*COMMAND)
    await process.wait()


def _program(words: list[str]) -> float:
    return _timed(lambda: subprocess.run(words, check=True, capture_output=True), 1)


def _timed(call: Callable[[], object], count: int = CALLS) -> float:
    started = perf_counter()
    for _ in range(count):
        call()
    return (perf_counter() - started) / count


def _repeated(runner: asyncio.Runner, call: Callable[[], Awaitable[Any]]) -> Step:
    async def calls() -> float:
        started = perf_counter()
        for _ in range(CALLS):
            await call()
        return (perf_counter() - started) / CALLS

    return lambda: runner.run(calls())


def _once(runner: asyncio.Runner, call: Callable[[], Awaitable[Any]]) -> Step:
    async def once() -> float:
        started = perf_counter()
        await call()
        return perf_counter() - started

    return lambda: runner.run(once())


if __name__ == "__main__":
    sys.exit(main())
