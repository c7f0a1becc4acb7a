"""What Paddock adds to an agent's own start: Claude's first event in a fresh sandbox, against its program by itself."""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any
from unittest.mock import patch

from benchmarks.bench import Bench
from benchmarks.measure import Check, Rows, Step, alternate, compare
from paddock import Gateway, Namespaces, Process, Sandbox
from paddock.errors import UnavailableError
from paddock.runners import Program, Runner, Started, ToolCall, find_agent
from paddock.runners.agent import Inside, Launch, Task
from paddock.runners.messages import conversation
from paddock.runners.options import Options
from paddock.runners.registry import load
from paddock.runners.sessions import session_id
from paddock.testing import FakeModel, Shell

MOST_ADDED = 0.1
TO_INTERRUPT = 1.0
AGENT = "claude"
INSTALLED = Path(sys.prefix) / "agents"
"""Where scripts/agents.sh puts programs."""


def agents(bench: Bench) -> Rows:
    """From nothing to the agent's first event, and from starting its program to the same event of it."""
    try:
        program = _found()
    except UnavailableError as error:
        yield Check("an agent's first event", f"not measured: {error.message}", ok=True)
        return
    prepared: list[float] = []
    with FakeModel() as model:
        steps = {"ours": _ours(bench, program, model, prepared), "bare": _bare(bench, program, model)}
        taken = alternate(steps, bench.scale.few_rounds)
    yield compare("an agent's first event", taken["ours"], taken["bare"], against="its program by itself")
    added = median(ours - bare for ours, bare in zip(taken["ours"], taken["bare"], strict=True))
    words = f"a sandbox, a gateway and all add {added * 1000:.0f} ms, hold {MOST_ADDED * 1000:.0f}"
    yield Check("an agent's first event", words, added <= MOST_ADDED)
    before = median(prepared)
    words = f"{before * 1000:.0f} ms until its program is started, {min(prepared) * 1000:.0f} at best"
    yield Check("what Paddock does before", words, before <= MOST_ADDED)
    with FakeModel(lambda _: Shell("sleep 600")) as model:
        times = [bench.run(_interrupted(bench, program, model)) for _ in range(bench.scale.few_rounds)]
    words = f"{median(times) * 1000:.0f} ms, at most {max(times) * 1000:.0f}; hold {TO_INTERRUPT * 1000:.0f}"
    yield Check("an agent that is interrupted at work has ended", words, max(times) <= TO_INTERRUPT)


async def _interrupted(bench: Bench, program: Program, model: FakeModel) -> float:
    """From the interrupt, while a tool works, to the last event."""
    began = 0.0
    async with (
        Gateway(model.connector("anthropic"), ledger=bench.directory / "usage.sqlite") as gateway,
        Sandbox.create(Namespaces(), mounts=program.mounts) as sandbox,
    ):
        models = await gateway.attach(sandbox)
        async with Runner(program, sandbox, models).stream("Do it.") as run:
            async for event in run:
                if isinstance(event, ToolCall):
                    began = perf_counter()
                    run.interrupt()
        return perf_counter() - began


def _found() -> Program:
    """On this host, or where the tests have it."""
    here = os.getcwd()
    try:
        if INSTALLED.is_dir():
            os.chdir(INSTALLED)
        return find_agent(AGENT)
    finally:
        os.chdir(here)


def _ours(bench: Bench, program: Program, model: FakeModel, prepared: list[float]) -> Step:
    """A sandbox, a gateway and the agent in it; how long it took until its program was started is noted, too."""

    async def noted(sandbox: Sandbox, *words: Any, **options: Any) -> Process:
        process = await start(sandbox, *words, **options)
        started.append(perf_counter())
        return process

    start, started = Sandbox.start, [0.0]

    async def turn() -> float:
        async with Gateway(model.connector("anthropic"), ledger=bench.directory / "usage.sqlite") as gateway:
            began = perf_counter()
            async with Sandbox.create(Namespaces(), mounts=program.mounts) as sandbox:
                models = await gateway.attach(sandbox)
                async with Runner(program, sandbox, models).stream("Do it.") as run:
                    async for event in run:
                        if isinstance(event, Started):
                            prepared.append(started[-1] - began)
                            return perf_counter() - began
        raise AssertionError("it did not start")

    def step() -> float:
        with patch.object(Sandbox, "start", noted):
            return bench.run(turn())

    return step


def _bare(bench: Bench, program: Program, model: FakeModel) -> Step:
    """Its program as Paddock would start it, with a home of its own, and no sandbox."""
    homes = iter(range(1_000_000))

    def turn() -> float:
        home = bench.directory / "homes" / str(next(homes))
        home.mkdir(parents=True)
        launch = _launch(program, str(home))
        for name, content in launch.files.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(content)
        models = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_AUTH_TOKEN": model.key}
        began = perf_counter()
        with subprocess.Popen(
            launch.argv,
            cwd=home,
            env={"PATH": "/usr/bin:/bin", **launch.env, **models},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                return _until_started(process, launch, began)
            finally:
                process.kill()

    return turn


def _launch(program: Program, home: str) -> Launch:
    argv = tuple(
        word.replace(str(mount.target), str(mount.source)) for word in program.argv for mount in program.mounts
    )
    inside = Inside(home, home, argv or program.argv)
    return load(AGENT).launch(Task(conversation("Do it."), Options(), inside, session_id(None)))


def _until_started(process: "subprocess.Popen[bytes]", launch: Launch, began: float) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(launch.stdin)
    process.stdin.close()
    for line in process.stdout:
        if json.loads(line).get("subtype") == "init":
            return perf_counter() - began
    raise AssertionError("it did not start")
