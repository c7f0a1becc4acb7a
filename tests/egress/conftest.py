"""Proxies without a sandbox, clients that send what they like, and servers that answer what they like."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import pytest
import pytest_asyncio

from engines.backends import contained
from paddock import Event, Namespaces, Network
from paddock.audit import EventBus
from paddock.backends.supervised.connections import DescriptorConnection
from paddock.driver import BackendSpec
from paddock.egress.attaching import Secrets
from paddock.egress.proxy import Proxy, Times

SECONDS = 30.0
LOOPBACK = ("127.0.0.0/8",)
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Client:
    """Something inside that has a connection to the proxy."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, task: "asyncio.Task[None]") -> None:
        self.reader, self.writer, self.task = reader, writer, task

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> tuple[int, bytes]:
        """The status of the next answer, and its head."""
        async with asyncio.timeout(SECONDS):
            head = await self.reader.readuntil(b"\r\n\r\n")
        return int(head.split()[1]), head

    async def answer(self) -> tuple[int, bytes, bytes]:
        """The next answer with its body, which has a length or ends with the connection."""
        status, head = await self.head()
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        if lengths:
            return status, head, await self.exactly(int(lengths[0].split(b":")[1]))
        return status, head, await self.rest()

    async def exactly(self, size: int) -> bytes:
        async with asyncio.timeout(SECONDS):
            return await self.reader.readexactly(size)

    async def rest(self) -> bytes:
        """All that comes until the end, however that comes."""
        found = b""
        async with asyncio.timeout(SECONDS):
            with suppress(ConnectionError):
                while more := await self.reader.read(65536):
                    found += more
        return found

    async def ask(self, data: bytes) -> tuple[int, bytes, bytes]:
        await self.send(data)
        return await self.answer()

    def end(self) -> None:
        self.writer.write_eof()

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


class Served:
    """A proxy that needs no sandbox. Names are looked up in `names`."""

    def __init__(self, network: Network, secrets: Secrets | None = None, authority: Any = None, **options: Any) -> None:
        self.names: dict[str, list[str]] = {}
        self.looked_up: list[str] = []
        bus = EventBus("sb-000000000001", None)
        self.told = bus.listen()
        self.proxy = Proxy(network, bus, secrets, authority, lookup=self._lookup, **options)
        self._clients: list[Client] = []

    def _lookup(self, name: str) -> list[str]:
        self.looked_up.append(name)
        if name not in self.names:
            raise OSError("unknown")
        return self.names[name]

    async def dial(self) -> Client:
        """One more connection from inside."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            theirs = socket.create_connection(listening.getsockname())
            ours, _ = listening.accept()
        loop = asyncio.get_running_loop()
        ours.setblocking(False)
        connection = DescriptorConnection(ours, loop, lambda: None)

        async def serve() -> None:
            try:
                await self.proxy.serve(connection)
            except BaseException:
                connection.abort()
                raise
            connection.close()

        task = asyncio.create_task(serve())
        reader, writer = await asyncio.open_connection(sock=theirs)
        client = Client(reader, writer, task)
        self._clients.append(client)
        return client

    async def ask(self, data: bytes) -> tuple[int, bytes, bytes]:
        """One request on a connection of its own."""
        return await (await self.dial()).ask(data)

    async def event(self, **fields: object) -> Event:
        """The next event, which has to have these fields."""
        async with asyncio.timeout(SECONDS):
            found = await self.told.__anext__()
        assert {name: getattr(found, name) for name in fields} == fields
        return found

    async def drop(self, client: Client) -> None:
        """One that is done with."""
        self._clients.remove(client)
        await client.close()

    async def close(self) -> None:
        for client in self._clients:
            client.task.cancel()
            await client.close()
        await asyncio.gather(*(client.task for client in self._clients), return_exceptions=True)


class Upstream:
    """A server on the loopback that talks as it is told, and what it heard."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self.heard = b""
        self.errors: list[Exception] = []
        self.count = 0
        self.port = 0
        self.tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.count += 1
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            await self._talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        except Exception as error:  # noqa: BLE001 - for the test to look at
            self.errors.append(error)
        finally:
            self.tasks.discard(task)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


@asynccontextmanager
async def upstream(talk: Talk | None = None, *, ssl: Any = None) -> AsyncIterator[Upstream]:
    """One that runs; without a talk it answers every request with what it heard."""
    one = Upstream(talk or (lambda reader, writer: echo(one, reader, writer)))
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0, ssl=ssl)
    one.port = server.sockets[0].getsockname()[1]
    try:
        yield one
    finally:
        server.close()
        for task in list(one.tasks):
            task.cancel()
        await asyncio.gather(*one.tasks, return_exceptions=True)
        await server.wait_closed()


async def request(reader: asyncio.StreamReader) -> bytes:
    """One request with its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = {line.partition(b":")[0].lower(): line.partition(b":")[2].strip() for line in head.split(b"\r\n")[1:]}
    if lines.get(b"transfer-encoding") == b"chunked":
        return head + await reader.readuntil(b"0\r\n\r\n")
    return head + await reader.readexactly(int(lines.get(b"content-length", b"0")))


async def echo(one: Upstream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Each request is the answer to itself."""
    while True:
        heard = await request(reader)
        one.heard += heard
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(heard) + heard)
        await writer.drain()


async def parrot(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Every byte comes back."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


Make = Callable[..., Served]


@pytest_asyncio.fixture
async def serve() -> AsyncIterator[Make]:
    """Makes proxies that end with the test. `names` are what resolves to where."""
    made: list[Served] = []

    def make(
        *hosts: str, private: tuple[str, ...] = LOOPBACK, names: Mapping[str, str] | None = None, **more: Any
    ) -> Served:
        times = more.pop("times", Times(head=SECONDS, connect=SECONDS, idle=SECONDS))
        network = more.pop("network", None) or Network.allow(*hosts, private=private)
        one = Served(network, times=times, **more)
        one.names = {name: [address] for name, address in (names or {"up.test": "127.0.0.1"}).items()}
        made.append(one)
        return one

    yield make
    for one in made:
        await one.close()


async def turns_during(work: Awaitable[object]) -> int:
    """How often others had a turn meanwhile."""
    task, turns = asyncio.ensure_future(work), 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    await task
    return turns


def get(host: str, path: str = "/", *lines: str, method: str = "GET") -> bytes:
    """A request in the form for proxies."""
    more = "".join(f"{line}\r\n" for line in lines)
    return f"{method} http://{host}{path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode("latin-1")


def connect(host: str) -> bytes:
    return f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("latin-1")


def socks(name: bytes, port: int, *, kind: int = 3, command: int = 1) -> bytes:
    """A greeting and a request in one."""
    length = bytes([len(name)]) if kind == 3 else b""
    return b"\5\1\0" + bytes([5, command, 0, kind]) + length + name + port.to_bytes(2, "big")


@pytest.fixture(params=["namespaces", "docker"])
def walled(request: pytest.FixtureRequest) -> BackendSpec:
    """Every backend that has a network."""
    return contained(request, "docker") if request.param == "docker" else cast("BackendSpec", Namespaces())
