"""Bridges without a sandbox, clients that write lines, and the official client through the real `paddock-bridge`."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
import pytest_asyncio
from mcp import Client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from engines.backends import contained
from paddock import Event, Local, Namespaces, Process, Sandbox
from paddock.audit import EventBus
from paddock.bridge import Caller, Grantable
from paddock.bridge.bridge import Bridge
from paddock.bridge.grants import as_grantable
from paddock.consent import Consent, Policy
from paddock.driver import BackendSpec, Handler

SERVER = Path(__file__).with_name("server.py")
SECONDS = 30.0


class Pipe:
    """One way of a connection in memory; whoever writes waits while too much is not read."""

    def __init__(self, most: int = 64 << 10) -> None:
        self._data = bytearray()
        self._most = most
        self._ended = False
        self._changed = asyncio.Condition()

    async def read(self, size: int) -> bytes:
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self._data) or self._ended)
            found = bytes(self._data[:size])
            del self._data[:size]
            self._changed.notify_all()
            return found

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            async with self._changed:
                await self._changed.wait_for(lambda: len(self._data) < self._most or self._ended)
                if self._ended:
                    raise BrokenPipeError(32, "gone")
                room = self._most - len(self._data)
                self._data += view[:room]
                view = view[room:]
                self._changed.notify_all()

    async def end(self) -> None:
        async with self._changed:
            self._ended = True
            self._changed.notify_all()


class End:
    """One end of a connection, as a driver would hand it over."""

    def __init__(self, incoming: Pipe, outgoing: Pipe) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._cutting: set[asyncio.Task[None]] = set()

    async def read(self, size: int = 65_536) -> bytes:
        return await self._incoming.read(size)

    async def write(self, data: bytes) -> None:
        await self._outgoing.write(data)

    async def end(self) -> None:
        await self._outgoing.end()

    def close(self) -> None:
        pass

    def abort(self) -> None:
        for pipe in (self._incoming, self._outgoing):
            self._cutting.add(asyncio.create_task(pipe.end()))


class Lines:
    """A client that writes what it likes."""

    def __init__(self, connection: End) -> None:
        self.connection = connection
        self._data = b""
        self._id = 0

    async def send(self, *lines: bytes) -> None:
        await self.connection.write(b"".join(line + b"\n" for line in lines))

    async def say(self, method: str, id: object = None, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, **({} if id is None else {"id": id})}
        await self.send(json.dumps(message | ({"params": params} if params else {})).encode())

    async def hear(self) -> dict[str, Any]:
        """The next message."""
        async with asyncio.timeout(SECONDS):
            while b"\n" not in self._data:
                more = await self.connection.read()
                if not more:
                    raise EOFError
                self._data += more
        line, _, self._data = self._data.partition(b"\n")
        return cast("dict[str, Any]", json.loads(line))

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a request; what comes before it is passed over."""
        self._id += 1
        await self.say(method, id=self._id, **params)
        while (found := await self.hear()).get("id") != self._id:
            pass
        return found

    async def call(self, tool: str, **arguments: Any) -> tuple[str, bool]:
        """The text of a tool's result, and whether it is a failure."""
        result = (await self.ask("tools/call", name=tool, arguments=arguments))["result"]
        return result["content"][0]["text"], result["isError"]

    async def begin(self) -> "Lines":
        """The handshake."""
        client = {"name": "lines", "version": "1"}
        await self.ask("initialize", protocolVersion="2024-11-05", capabilities={}, clientInfo=client)
        await self.say("notifications/initialized")
        return self

    async def ended(self) -> bool:
        """Whether it was hung up on."""
        try:
            while True:
                await self.hear()
        except EOFError:
            return True


class Served:
    """A bridge that needs no sandbox."""

    def __init__(self, caller: Caller, policy: Policy = None, **options: int) -> None:
        bus = EventBus(caller.sandbox, None)
        self.told = bus.listen()
        self.bridge = Bridge(caller, Consent(policy, bus, caller.sandbox), bus, self._listen, **options)
        self._tasks: set[asyncio.Task[None]] = set()

    async def _listen(self, handler: Handler) -> "Served":
        return self

    address = cast("Any", None)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=SECONDS)

    async def grant(self, *tools: Grantable) -> None:
        await self.bridge.grant([as_grantable(tool) for tool in tools])

    def dial(self, most: int = 64 << 10) -> Lines:
        """A client that has said nothing yet."""
        there, back = Pipe(most), Pipe(most)

        async def serve() -> None:
            try:
                await self.bridge.serve(End(there, back))
            finally:
                await there.end()
                await back.end()

        task = asyncio.create_task(serve())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return Lines(End(back, there))

    async def client(self) -> Lines:
        """One that has begun."""
        return await self.dial().begin()

    async def event(self, kind: str, operation: str, **fields: object) -> Event:
        """The next event of this kind, which has to have these fields."""
        async with asyncio.timeout(SECONDS):
            while True:
                found = await self.told.__anext__()
                same = all(getattr(found, name) == value for name, value in fields.items())
                if (found.kind, found.operation) == (kind, operation) and same:
                    return found


@pytest_asyncio.fixture
async def served() -> AsyncIterator[Served]:
    one = Served(Caller("sb-000000000001", "ann", "chat"))
    yield one
    await one.bridge.close()


@asynccontextmanager
async def through(sandbox: Sandbox) -> AsyncIterator[Any]:
    """A transport of the SDK over `paddock-bridge`, which runs in the sandbox."""
    command = 'exec paddock-bridge "$PADDOCK_BRIDGE"'
    async with await sandbox.start(["sh", "-c", command], stdin=True) as process:
        inward, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, outward = anyio.create_memory_object_stream[SessionMessage](0)
        async with inward, read, write, outward, anyio.create_task_group() as group:
            group.start_soon(_pump_in, process, inward)
            group.start_soon(_pump_out, process, outward)
            yield read, write
            group.cancel_scope.cancel()


async def _pump_in(process: Process, into: Any) -> None:
    data = b""
    async with into:
        async for chunk in process:
            assert chunk.stream == "stdout", chunk.text
            *lines, data = (data + chunk.data).split(b"\n")
            for line in lines:
                await into.send(SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False)))


async def _pump_out(process: Process, out: Any) -> None:
    async for item in out:
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        await process.write(text.encode() + b"\n")


def official(sandbox: Sandbox, **options: Any) -> Client:
    """The official client, in a program's place inside."""
    return Client(through(sandbox), **options)


HERE = {"local": Local(), "local-frames": Local(frames=True), "namespaces": Namespaces()}


@pytest.fixture(params=[*HERE, "docker", "gvisor"])
def everywhere(request: pytest.FixtureRequest) -> BackendSpec:
    """Every backend that has tools."""
    name: str = request.param
    return contained(request, name) if name not in HERE else cast("BackendSpec", HERE[name])


@pytest.fixture(autouse=True)
def _quiet_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the SDK logs of hostile clients is no news."""
    monkeypatch.setattr(logging.getLogger("mcp"), "disabled", True)
    monkeypatch.setattr(logging.getLogger("mcp"), "propagate", False)
