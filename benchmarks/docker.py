"""`docker` against the engine's own client, on a private engine; and files in a container against plain ones."""

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from benchmarks import plain
from benchmarks.bench import Bench
from benchmarks.files import DATA, READ_HOLD, WRITE_HOLD
from benchmarks.measure import Check, Rows, Step, alternate, compare
from paddock import Docker, Sandbox

EXEC_HOLD = 1 / 20
START_HOLD = 1.3
IMAGE = "busybox"
SHELL = ("sh", "-c", "true")


def docker(bench: Bench) -> Rows:
    """Commands, files, and from nothing to the first command. Without an engine there is nothing to say."""
    reason = _missing()
    if reason:
        yield Check("docker", f"not measured: {reason}", True)
        return
    with _engine() as url:
        sandbox = bench.run(_made(url))
        try:
            yield from _all(bench, sandbox, url)
        finally:
            bench.run(sandbox.close())


def _all(bench: Bench, sandbox: Sandbox, url: str) -> Rows:
    yield from _exec(bench, sandbox, url)
    yield from _start(bench, url)
    yield from _files(bench, sandbox)


def _exec(bench: Bench, sandbox: Sandbox, url: str) -> Rows:
    container = f"paddock-{sandbox.id}"
    words = ("docker", "--host", url, "exec", container, *SHELL)
    taken = alternate(
        {"ours": _commands(bench, sandbox), "docker exec": lambda: bench.run(_client(words))}, bench.scale.rounds
    )
    yield compare("exec, docker", taken["ours"], taken["docker exec"], against="docker exec", hold=EXEC_HOLD)


def _start(bench: Bench, url: str) -> Rows:
    words = ("docker", "--host", url, "run", "--rm", "--network", "none", IMAGE, *SHELL)
    taken = alternate(
        {"ours": lambda: bench.run(_first(url)), "docker run": lambda: bench.run(_client(words))},
        bench.scale.rounds,
    )
    yield compare(
        "to the first command, docker", taken["ours"], taken["docker run"], against="docker run", hold=START_HOLD
    )


def _files(bench: Bench, sandbox: Sandbox) -> Rows:
    bench.run(sandbox.write("file", DATA))
    plain.create(bench.at, "file-docker", DATA)
    calls = range(bench.scale.calls)

    async def read() -> float:
        started = perf_counter()
        for _ in calls:
            await sandbox.read("file")
        return (perf_counter() - started) / len(calls)

    async def write() -> float:
        started = perf_counter()
        for number in calls:
            await sandbox.write(f"new-{number}", DATA)
        return (perf_counter() - started) / len(calls)

    def plain_read() -> float:
        started = perf_counter()
        for _ in calls:
            plain.read(bench.at, "file-docker")
        return (perf_counter() - started) / len(calls)

    def plain_write() -> float:
        started = perf_counter()
        for number in calls:
            plain.write(bench.at, f"docker-{number}", "docker.temporary", DATA)
        return (perf_counter() - started) / len(calls)

    steps: dict[str, Step] = {"read": lambda: bench.run(read()), "os read": plain_read}
    steps |= {"write": lambda: bench.run(write()), "os write": plain_write}
    taken = alternate(steps, bench.scale.rounds)
    yield compare("read, docker", taken["read"], taken["os read"], hold=READ_HOLD)
    yield compare("write, docker", taken["write"], taken["os write"], hold=WRITE_HOLD)


def _commands(bench: Bench, sandbox: Sandbox) -> Step:
    async def turn() -> float:
        calls = max(1, bench.scale.calls // 25)
        started = perf_counter()
        for _ in range(calls):
            await sandbox.exec("true")
        return (perf_counter() - started) / calls

    return lambda: bench.run(turn())


async def _made(url: str) -> Sandbox:
    return await Sandbox.create(Docker(socket=url), image=IMAGE)


async def _first(url: str) -> float:
    started = perf_counter()
    async with Sandbox.create(Docker(socket=url), image=IMAGE) as sandbox:
        await sandbox.exec("true")
        return perf_counter() - started


async def _client(words: tuple[str, ...]) -> float:
    started = perf_counter()
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe)
    _, errors = await process.communicate()
    if process.returncode:
        raise AssertionError(errors.decode())
    return perf_counter() - started


def _missing() -> str | None:
    from engines import daemon

    return daemon.missing("dockerd", "containerd", "runc", "docker", "busybox")


@contextmanager
def _engine() -> Iterator[str]:
    """The one that the tests have, too."""
    from engines import daemon, images

    with daemon.docker() as engine, tempfile.TemporaryDirectory() as directory:
        archive = Path(directory) / "image.tar"
        images.make(IMAGE, archive)
        images.load(engine.api, IMAGE, archive)
        yield engine.url


_TESTS = str(Path(__file__).resolve().parent.parent / "tests")
if _TESTS not in sys.path:
    sys.path.append(_TESTS)
