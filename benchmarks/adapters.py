"""Adapters against the same call on the sandbox itself.

What an adapter adds is held. What a framework does around its adapter is its own, and is measured beside it.
"""

import io
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.bench import Bench
from benchmarks.files import DATA
from benchmarks.measure import Rows, Step, alternate, compare
from paddock import Namespaces, Sandbox, sync

HOLD = 1.1
COMMAND = ["sh", "-c", "true"]
BACKEND = Namespaces()

Call = Callable[[], Awaitable[Any]]


def adapters(bench: Bench) -> Rows:
    """Each framework's calls; commands are few, because they take long beside anything that is added."""
    sandbox = bench.keep(BACKEND)
    bench.run(sandbox.write("file", DATA))
    yield from _inspect(bench, sandbox)
    yield from _openai(bench, sandbox)
    yield from _pydantic(bench, sandbox)
    with sync.Sandbox.create(BACKEND) as blocking:
        blocking.write("file", DATA)
        yield from _fsspec(bench, blocking)
        yield from _deepagents(bench, blocking)
        yield from _smolagents(bench, blocking)


def _inspect(bench: Bench, sandbox: Sandbox) -> Rows:
    """It has its files looked at before they are written, so that both calls are on the other side too."""
    from paddock.adapters.inspect_ai import PaddockSandboxEnvironment

    theirs = PaddockSandboxEnvironment(sandbox)

    async def looked_at_and_written() -> None:
        await sandbox.stat("file")
        await sandbox.write("file", DATA)

    async def written() -> None:
        await theirs.write_file("file", DATA)

    yield from _both(bench, "exec by Inspect", lambda: theirs.exec(COMMAND), lambda: sandbox.exec(COMMAND))
    yield from _both(bench, "read by Inspect", lambda: theirs.read_file("file"), lambda: sandbox.read("file"))
    yield from _both(bench, "write by Inspect, against stat and write", written, looked_at_and_written)
    yield from _both(bench, "write by Inspect, against write", written, lambda: sandbox.write("file", DATA), hold=None)


def _openai(bench: Bench, sandbox: Sandbox) -> Rows:
    """What the SDK asks of a session, and the same as users call it, with what the SDK does around that."""
    from agents.sandbox.manifest import Manifest

    from paddock.adapters.openai_agents import PaddockSandboxClient

    async def started() -> Any:
        session = await PaddockSandboxClient().create(manifest=Manifest())
        inner: Any = session._inner
        inner._sandbox = sandbox
        return session

    session, path = bench.run(started()), Path("file")
    calls: dict[str, tuple[Call, Call, Call]] = {
        "exec": (
            lambda: session._inner._exec_internal(*COMMAND),
            lambda: session.exec(*COMMAND, shell=False),
            lambda: sandbox.exec(COMMAND),
        ),
        "read": (
            lambda: session._inner.read(path),
            lambda: session.read(path),
            lambda: sandbox.read_bytes("file"),
        ),
        "write": (
            lambda: session._inner.write(path, io.BytesIO(DATA)),
            lambda: session.write(path, io.BytesIO(DATA)),
            lambda: sandbox.write("file", DATA),
        ),
    }
    for name, (theirs, around, ours) in calls.items():
        yield from _both(bench, f"{name} by OpenAI", theirs, ours)
        yield from _both(bench, f"{name} by OpenAI, with the SDK around it", around, ours, hold=None)


def _pydantic(bench: Bench, sandbox: Sandbox) -> Rows:
    from paddock.adapters.pydantic_ai import PaddockToolset
    from paddock.tools import sandbox_tools

    tools = sandbox_tools(sandbox)
    toolset: Any = PaddockToolset(tools)
    arguments = {"path": "file"}
    yield from _both(
        bench,
        "a tool by Pydantic AI",
        lambda: toolset.call_tool("read_file", arguments, None, None),
        lambda: tools.call("read_file", arguments),
    )


def _fsspec(bench: Bench, sandbox: sync.Sandbox) -> Rows:
    from paddock.adapters.fsspec import PaddockFileSystem

    fs, path = PaddockFileSystem(sandbox), "/workspace/file"
    calls = {
        "read by fsspec": (lambda: fs.cat_file(path), lambda: sandbox.read_bytes(path)),
        "write by fsspec": (lambda: fs.pipe_file(path, DATA), lambda: sandbox.write(path, DATA)),
        "info by fsspec": (lambda: fs.info(path), lambda: sandbox.stat(path)),
    }
    for case, (theirs, ours) in calls.items():
        yield from _blocking(bench, case, theirs, ours)


def _deepagents(bench: Bench, sandbox: sync.Sandbox) -> Rows:
    from paddock.adapters.deepagents import PaddockBackend

    backend, path = PaddockBackend(sandbox), "/workspace/file"
    calls: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "exec by deep agents": (lambda: backend.execute("true"), lambda: sandbox.exec("true")),
        "read by deep agents": (lambda: backend.read(path), lambda: sandbox.read_bytes(path)),
    }
    for case, (theirs, ours) in calls.items():
        yield from _blocking(bench, case, theirs, ours)


def _smolagents(bench: Bench, sandbox: sync.Sandbox) -> Rows:
    from paddock.adapters.smolagents import PaddockExecutor

    executor = PaddockExecutor(sandbox)
    try:
        with sync.PythonSession(sandbox) as session:
            yield from _blocking(bench, "code by smolagents", lambda: executor("6 * 7"), lambda: session.run("6 * 7"))
    finally:
        executor.cleanup()


def _both(bench: Bench, case: str, theirs: Call, ours: Call, *, hold: float | None = HOLD) -> Rows:
    count = max(bench.scale.calls // (5 if "exec" in case else 1), 2)

    def turn(call: Call) -> Step:
        async def calls() -> float:
            started = perf_counter()
            for _ in range(count):
                await call()
            return (perf_counter() - started) / count

        return lambda: bench.run(calls())

    taken = alternate({"theirs": turn(theirs), "ours": turn(ours)}, bench.scale.rounds)
    yield compare(case, taken["theirs"], taken["ours"], against="the sandbox", hold=hold)


def _blocking(bench: Bench, case: str, theirs: Callable[[], object], ours: Callable[[], object]) -> Rows:
    count = max(bench.scale.calls // (5 if "exec" in case else 1), 2)

    def turn(call: Callable[[], object]) -> Step:
        def calls() -> float:
            started = perf_counter()
            for _ in range(count):
                call()
            return (perf_counter() - started) / count

        return calls

    taken = alternate({"theirs": turn(theirs), "ours": turn(ours)}, bench.scale.rounds)
    yield compare(case, taken["theirs"], taken["ours"], against="the sandbox", hold=HOLD)
