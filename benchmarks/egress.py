"""A program inside that gets out through the proxy, against the same program on this host that connects directly."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from benchmarks.bench import Bench
from benchmarks.measure import Rows, compare
from paddock import Namespaces, Network, Sandbox

SIZE = 256 << 20
SERVER = """
import socket, threading
def serve(sock):
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with sock:
        while data := sock.recv(65536):
            if data[:3] == b"GET":
                sock.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\nConnection: close\\r\\n\\r\\nhello")
                return
            if data[:1] == b"x":
                sock.sendall(data)
            else:
                for _ in range(int(data) >> 16):
                    sock.sendall(bytes(65536))
                return
listening = socket.create_server(("127.0.0.1", 0), backlog=128)
def accept():
    while True:
        serve(listening.accept()[0])
for _ in range(4):
    threading.Thread(target=accept).start()
print(listening.getsockname()[1], flush=True)
"""
CLIENT = """
import os, socket, sys, time
place, proxy = sys.argv[1], os.environ.get("HTTP_PROXY", "")
def opened(tunnel):
    where = proxy.rpartition("/")[2] or place
    host, _, port = where.partition(":")
    sock = socket.create_connection((host, int(port)))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if tunnel and proxy:
        sock.sendall(f"CONNECT {place} HTTP/1.1\\r\\nHost: {place}\\r\\n\\r\\n".encode())
        assert b" 200 " in sock.recv(65536)
    return sock
def trips(count):
    with opened(True) as sock:
        started = time.perf_counter()
        for _ in range(count):
            sock.sendall(b"x" * 64)
            sock.recv(65536)
        return (time.perf_counter() - started) / count
def tunnels(count):
    started = time.perf_counter()
    for _ in range(count):
        with opened(True) as sock:
            sock.sendall(b"x" * 64)
            sock.recv(65536)
    return (time.perf_counter() - started) / count
def requests(count):
    started = time.perf_counter()
    for _ in range(count):
        with opened(False) as sock:
            sock.sendall(f"GET http://{place}/ HTTP/1.1\\r\\nHost: {place}\\r\\nConnection: close\\r\\n\\r\\n".encode())
            data = b""
            while more := sock.recv(65536):
                data += more
            assert data.endswith(b"hello"), data
    return (time.perf_counter() - started) / count
def stream(size):
    with opened(True) as sock:
        started, left = time.perf_counter(), size
        sock.sendall(b"%d" % size)
        while left:
            left -= len(sock.recv(1 << 18))
        return time.perf_counter() - started
for line in sys.stdin:
    what, count = line.split()
    print(globals()[what](int(count)), flush=True)
"""
Ask = Callable[[str, int], Awaitable[float]]


def egress(bench: Bench) -> Rows:
    """A small message there and back, a new tunnel, a request of plain HTTP, and a lot of bytes."""
    scale, size = bench.scale, min(bench.scale.stream, SIZE)
    cases = (
        ("64 bytes and back in a tunnel", "trips", scale.calls, scale.rounds),
        ("a new tunnel", "tunnels", max(scale.calls // 10, 1), scale.rounds),
        ("a request of plain HTTP", "requests", max(scale.calls // 10, 1), scale.rounds),
        (f"{size >> 20} MiB through a tunnel", "stream", size, scale.few_rounds),
    )
    with _server() as port:
        for title, what, count, rounds in cases:
            ours, direct = bench.run(_turns(f"127.0.0.1:{port}", what, count, rounds))
            yield compare(f"egress: {title}", ours, direct, against="directly")


async def _turns(place: str, what: str, count: int, rounds: int) -> tuple[list[float], list[float]]:
    ours, direct = [], []
    network = Network.allow(place, private=("127.0.0.0/8",))
    async with (
        Sandbox.create(Namespaces(), network=network) as sb,
        await sb.start(["python3", "-c", CLIENT, place], stdin=True) as process,
        _on_this_host(place) as ask,
    ):
        said = aiter(process)
        for _ in range(rounds + 1):
            await process.write(f"{what} {count}\n".encode())
            ours.append(float((await anext(said)).text))
            direct.append(await ask(what, count))
    return ours[1:], direct[1:]


@asynccontextmanager
async def _on_this_host(place: str) -> AsyncIterator[Ask]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLIENT, place, stdin=pipe, stdout=pipe, env={"PATH": "/usr/bin:/bin"}
    )
    assert process.stdin is not None
    assert process.stdout is not None

    async def ask(what: str, count: int) -> float:
        process.stdin.write(f"{what} {count}\n".encode())  # type: ignore[union-attr]
        return float(await process.stdout.readline())  # type: ignore[union-attr]

    try:
        yield ask
    finally:
        process.stdin.close()
        await process.wait()


@contextmanager
def _server() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()
