"""Sandboxes of every kind that has relays, and what runs in them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
import pytest_asyncio

import descriptors
from engines.backends import CONTAINED, contained
from paddock import ExecResult, Local, Namespaces, Process, Sandbox
from paddock.backends.supervised import relays
from paddock.driver import BackendSpec, Connection, RelayingDriver
from paddock.types.ports import RelayAddress
from relays import inside

PROGRAM = Path(inside.__file__).read_text(encoding="utf-8")
HERE = {"local": Local(), "local-frames": Local(frames=True), "namespaces": Namespaces()}
"""By descriptors, in frames, and by descriptors from another network."""


class Subject:
    """A sandbox and its driver."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.driver = cast("RelayingDriver", sandbox._core.launched.driver)

    def words(self, function: Callable[..., object], *arguments: object) -> list[str]:
        """The command that runs a function of `inside`."""
        return ["python3", "-I", "-S", "-c", PROGRAM, function.__name__, *map(str, arguments)]

    async def ask(self, function: Callable[..., object], *arguments: object) -> str:
        """What it prints."""
        result: ExecResult = await self.sandbox.exec(self.words(function, *arguments), timeout=100)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    async def start(self, function: Callable[..., object], *arguments: object) -> Process:
        """It runs on."""
        return await self.sandbox.start(self.words(function, *arguments), stdin=True)

    @asynccontextmanager
    async def serving(self, function: Callable[..., object], *arguments: object) -> AsyncIterator[RelayAddress]:
        """A server of `inside` that listens, and where."""
        async with await self.start(function, *arguments) as process:
            where = await first_line(process)
            yield RelayAddress.unix(where) if where.startswith("/") else RelayAddress.loopback(int(where))

    async def socket(self, name: str) -> str:
        """Where commands find the socket that is at /run/paddock/NAME for us."""
        return (await self.sandbox.exec(f"echo -n ${{PADDOCK_SOCKETS:-/run/paddock}}/{name}")).stdout


async def first_line(process: Process) -> str:
    """What a program prints first."""
    found = ""
    async for chunk in process:
        found += chunk.text
        if found.endswith("\n"):
            return found.strip()
    raise AssertionError((await process.wait()).stderr)


async def echo(connection: Connection) -> None:
    """A handler that says everything again."""
    while data := await connection.read():
        await connection.write(data)
    await connection.end()


async def read_all(connection: Connection) -> bytes:
    found = b""
    while data := await connection.read():
        found += data
    return found


async def until(is_so: Callable[[], bool | Awaitable[bool]], seconds: float = 30.0) -> None:
    """Wait for it."""
    import asyncio

    async with asyncio.timeout(seconds):
        while True:
            answer = is_so()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """No descriptor, and none that is counted."""
    before, used = descriptors.count(), relays.budget._used
    yield
    assert relays.budget._used == used
    if not hasattr(request.node, "callspec") or request.node.callspec.params.get("everywhere") not in CONTAINED:
        assert descriptors.back_to(before + 2)  # what is opened only once, by whichever test is the first


def _spec(request: pytest.FixtureRequest) -> BackendSpec:
    name: str = request.param
    return contained(request, name) if name in CONTAINED else cast("BackendSpec", HERE[name])


@pytest.fixture(params=[*HERE, *CONTAINED])
def everywhere(request: pytest.FixtureRequest) -> BackendSpec:
    """Every kind of backend."""
    return _spec(request)


@pytest.fixture(params=[*HERE])
def backend(request: pytest.FixtureRequest) -> BackendSpec:
    """Those that need no engine."""
    return _spec(request)


@pytest_asyncio.fixture
async def sb(everywhere: BackendSpec) -> AsyncIterator[Subject]:
    """A sandbox of every kind."""
    async with Sandbox.create(everywhere) as sandbox:
        yield Subject(sandbox)


@pytest_asyncio.fixture
async def here(backend: BackendSpec) -> AsyncIterator[Subject]:
    """One that needs no engine."""
    async with Sandbox.create(backend) as sandbox:
        yield Subject(sandbox)
