"""A tool call from inside a sandbox, through `paddock-bridge`, against the same call by the SDK in one process."""

import asyncio
from statistics import median
from time import perf_counter

from mcp import Client
from mcp.server.mcpserver import MCPServer

from benchmarks.bench import Bench
from benchmarks.measure import Check, Rows, compare
from paddock import Namespaces, Sandbox

MOST_ADDED = 0.001
_CLIENT = """
import json, os, subprocess, sys, time
bridge = subprocess.Popen(["paddock-bridge", os.environ["PADDOCK_BRIDGE"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def ask(id, method, **params):
    line = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    bridge.stdin.write(line.encode() + b"\\n")
    bridge.stdin.flush()
    return bridge.stdout.readline()
client = {"name": "benchmark", "version": "1"}
ask(0, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
bridge.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\\n')
for line in sys.stdin:
    count = int(line)
    started = time.perf_counter()
    for id in range(count):
        answer = ask(id, "tools/call", name="echo", arguments={"text": "hello"})
    took = (time.perf_counter() - started) / count
    assert b'"text":"hello"' in answer, answer
    print(took, flush=True)
"""


async def echo(text: str) -> str:
    """Say it again."""
    return text


def bridge(bench: Bench) -> Rows:
    """What a call costs besides the handler, which here does nothing."""
    through, within, plain = asyncio.run(_turns(bench.scale.rounds, bench.scale.calls))
    yield compare("a tool call through the bridge", through, within, against="the SDK in one process")
    added = median(one - other for one, other in zip(through, plain, strict=True))
    words = f"a call through the bridge adds {added * 1000:.2f} ms to the handler's own time"
    yield Check("a tool call through the bridge", words, added <= MOST_ADDED)


async def _turns(rounds: int, calls: int) -> tuple[list[float], list[float], list[float]]:
    server = MCPServer("benchmark")
    server.tool()(echo)
    through, within, plain = [], [], []
    async with (
        Sandbox.create(Namespaces(), tools=[echo]) as sb,
        Client(server, mode="legacy") as client,
        await sb.start(["python3", "-c", _CLIENT], stdin=True) as process,
    ):
        said = aiter(process)
        for _ in range(rounds + 1):
            await process.write(f"{calls}\n".encode())
            through.append(float((await anext(said)).text))
            within.append(await _timed(lambda: client.call_tool("echo", {"text": "hello"}), calls))
            plain.append(await _timed(lambda: echo("hello"), calls))
    return through[1:], within[1:], plain[1:]


async def _timed(call: "object", calls: int) -> float:
    started = perf_counter()
    for _ in range(calls):
        await call()  # type: ignore[operator]
    return (perf_counter() - started) / calls
