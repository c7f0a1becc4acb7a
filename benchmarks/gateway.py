"""The first byte of a model's answer, from inside a sandbox through the gateway, against the provider's own."""

import asyncio
import subprocess
import sys
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.bench import Bench
from benchmarks.measure import Check, Rows, compare
from paddock import Connector, Gateway, Namespaces, Sandbox

MOST_ADDED = 0.002
_PROVIDER = """
import asyncio, sys
async def serve(reader, writer):
    while not reader.at_eof():
        try:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
        except asyncio.IncompleteReadError:
            return
        length = int(head.lower().split(b"content-length:")[1].split(b"\\r\\n")[0])
        await reader.readexactly(length)
        said = b'data: {"type":"message_start","message":{"usage":{"input_tokens":9}}}\\n\\n'
        head = b"HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(said)
        writer.write(head + said)
        await writer.drain()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
asyncio.run(main())
"""
_CLIENT = """
import http.client, json, os, sys, time
at, token = sys.argv[1], sys.argv[2]
connection = http.client.HTTPConnection(at)
turn = {"role": "user", "content": "word " * 8000}
body = json.dumps({"model": "m", "max_tokens": 99, "stream": True, "messages": [turn]}).encode()
for line in sys.stdin:
    count, took = int(line), 0.0
    for _ in range(count):
        started = time.perf_counter()
        connection.request("POST", "/v1/messages", body, {"x-api-key": token})
        answer = connection.getresponse()
        assert answer.read(1) == b"d"
        took += time.perf_counter() - started
        answer.read()
    print(took / count, flush=True)
"""


def gateway(bench: Bench) -> Rows:
    """A request of 40 KB, about what Claude sends, passed on as it is."""
    through, direct = _turns(bench.scale.rounds, max(bench.scale.calls // 4, 2))
    yield compare("the first byte through the gateway", through, direct, against="the provider's own")
    added = median(one - other for one, other in zip(through, direct, strict=True))
    words = f"the gateway adds {added * 1000:.2f} ms to the first byte of an answer"
    yield Check("the first byte through the gateway", words, added <= MOST_ADDED)


def _turns(rounds: int, calls: int) -> tuple[list[float], list[float]]:
    provider = subprocess.Popen(
        [sys.executable, "-c", _PROVIDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert provider.stdout is not None
        at = f"127.0.0.1:{provider.stdout.readline().strip()}"
        return asyncio.run(_measured(at, rounds, calls))
    finally:
        provider.communicate()


async def _measured(at: str, rounds: int, calls: int) -> tuple[list[float], list[float]]:
    connector = Connector("benchmark", f"http://{at}", lambda: "key", wire="anthropic", provider="anthropic")
    through, direct = [], []
    with TemporaryDirectory() as directory:
        async with (
            Gateway([connector], ledger=f"{directory}/usage.sqlite") as models,
            Sandbox.create("local") as outside,
            Sandbox.create(Namespaces()) as inside,
        ):
            attached = await models.attach(inside)
            words = ["python3", "-c", _CLIENT]
            async with (
                await inside.start([*words, attached.url.removeprefix("http://"), attached.token], stdin=True) as one,
                await outside.start([*words, at, "none"], stdin=True) as other,
            ):
                said, heard = aiter(one), aiter(other)
                for _ in range(rounds + 1):
                    await one.write(f"{calls}\n".encode())
                    through.append(float((await anext(said)).text))
                    await other.write(f"{calls}\n".encode())
                    direct.append(float((await anext(heard)).text))
    return through[1:], direct[1:]
