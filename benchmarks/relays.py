"""Connections into a sandbox against plain ones over the loopback, to the same kind of server."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import cast

from benchmarks.bench import Bench
from benchmarks.measure import Rows, Step, alternate, compare
from paddock import Local, Namespaces, Sandbox
from paddock.driver import BackendSpec, Connection, RelayingDriver
from paddock.types.ports import RelayAddress

SIZE = 256 << 20
MESSAGE = b"x" * 64
BACKENDS: dict[str, BackendSpec] = {
    "local": Local(),
    "local, frames": Local(frames=True),
    "namespaces": Namespaces(),
}
SERVER = """
import socket, threading
def serve(sock):
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with sock:
        while data := sock.recv(65536):
            if data[:1] == b"x":
                sock.sendall(data)
            else:
                for _ in range(int(data) >> 16):
                    sock.sendall(bytes(65536))
                return
listening = socket.create_server(("127.0.0.1", 0), backlog=128)
print(listening.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()
"""
Open = Callable[[], Awaitable["_Plain | Connection"]]


class _Plain:
    """A connection as asyncio has them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.read = reader.read

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()


def relays(bench: Bench) -> Rows:
    """A small message there and back, a new connection, and a lot of bytes."""
    with _server() as port:
        opens = {title: _inside(bench, spec, port) for title, spec in BACKENDS.items()}
        opens["plain"] = lambda: _connect(port)
        yield from _round_trips(bench, opens)
        yield from _connecting(bench, opens)
        yield from _throughput(bench, opens)


def _round_trips(bench: Bench, opens: dict[str, Open]) -> Rows:
    connections = {title: bench.run(_opened(open_)) for title, open_ in opens.items()}
    steps = {title: _turn(bench, connection) for title, connection in connections.items()}
    taken = alternate(steps, bench.scale.rounds)
    bench.run(_close(connections.values()))
    for title in BACKENDS:
        yield compare(f"relay: 64 bytes and back, {title}", taken[title], taken["plain"], against="a socket")


def _connecting(bench: Bench, opens: dict[str, Open]) -> Rows:
    async def once(open_: Open) -> float:
        begin = perf_counter()
        for _ in range(bench.scale.calls // 10):
            connection = await open_()
            await connection.write(MESSAGE)
            await connection.read(len(MESSAGE))
            connection.close()
        return (perf_counter() - begin) / (bench.scale.calls // 10)

    steps: dict[str, Step] = {title: lambda open_=open_: bench.run(once(open_)) for title, open_ in opens.items()}  # type: ignore[misc]
    taken = alternate(steps, bench.scale.rounds)
    for title in BACKENDS:
        yield compare(f"relay: a new connection, {title}", taken[title], taken["plain"], against="a socket")


def _throughput(bench: Bench, opens: dict[str, Open]) -> Rows:
    size = min(bench.scale.stream, SIZE)

    async def once(open_: Open) -> float:
        connection = await open_()
        begin, left = perf_counter(), size
        await connection.write(b"%d" % size)
        while left:
            left -= len(await connection.read(65536))
        connection.close()
        return perf_counter() - begin

    steps: dict[str, Step] = {title: lambda open_=open_: bench.run(once(open_)) for title, open_ in opens.items()}  # type: ignore[misc]
    taken = alternate(steps, bench.scale.few_rounds)
    for title in BACKENDS:
        yield compare(f"relay: {size >> 20} MiB, {title}", taken[title], taken["plain"], against="a socket")


def _turn(bench: Bench, connection: "_Plain | Connection") -> Step:
    async def turn() -> float:
        begin = perf_counter()
        for _ in range(bench.scale.calls):
            await connection.write(MESSAGE)
            await connection.read(len(MESSAGE))
        return (perf_counter() - begin) / bench.scale.calls

    return lambda: bench.run(turn())


async def _close(connections: Iterable["_Plain | Connection"]) -> None:
    for connection in connections:
        connection.close()
    await asyncio.sleep(0)


async def _opened(open_: Open) -> "_Plain | Connection":
    return await open_()


def _inside(bench: Bench, spec: BackendSpec, outside: int) -> Open:
    """To the very same server, where the network is this host's; else to one that runs inside."""
    sandbox = bench.keep(spec)
    port = outside if isinstance(spec, Local) else bench.run(_started(sandbox))
    driver = cast("RelayingDriver", sandbox._core.launched.driver)
    return lambda: driver.connect(RelayAddress.loopback(port))


async def _started(sandbox: Sandbox) -> int:
    process = await sandbox.start(["python3", "-c", SERVER])
    async for chunk in process:
        return int(chunk.text)
    raise AssertionError("it did not start")


async def _connect(port: int) -> _Plain:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return _Plain(reader, writer)


@contextmanager
def _server() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()
