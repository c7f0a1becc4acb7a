"""Clients that do harm, and others at the same bridge that notice nothing."""

import asyncio
import contextlib
import json
import os
import random
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from bridge.conftest import Served, official
from bridge.test_parser import changed
from paddock import ClosedError, Namespaces, Sandbox, SandboxError, ToolContext
from paddock.bridge import bridge as bridges
from paddock.bridge import share, telling, transport
from relays import inside

ROUNDS = 2000 if "PADDOCK_SOAK" in os.environ else 300


def asking(tool: str, **arguments: object) -> bytes:
    """A whole conversation, with one call."""
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"id": 0, "method": "initialize", "params": begin},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}},
    ]
    return b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages)


ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
NEWER: list[dict[str, Any]] = [
    {"id": 0, "method": "server/discover", "params": {"_meta": ENVELOPE}},
    {"id": "1", "method": "tools/list", "params": {"_meta": ENVELOPE}},
    {"id": 2, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "x"}, "_meta": ENVELOPE}},
    {
        "id": 3,
        "method": "subscriptions/listen",
        "params": {"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE},
    },
    {"method": "notifications/cancelled", "params": {"requestId": 3}},
]
CONVERSATIONS = (
    asking("echo", text="x"),
    asking("echo", text="x") + b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}\n',
    b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in NEWER),
)
PROGRAM = Path(inside.__file__).read_text(encoding="utf-8")


def echo(text: str) -> str:
    """Say it again."""
    return text


def much() -> str:
    """A lot."""
    return "x" * 200_000


async def fine(served: Served) -> None:
    """Somebody else is served as ever."""
    async with asyncio.timeout(20):
        assert await (await served.client()).call("echo", text="x") == ("x", False)


async def test_one_that_never_reads(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "SECONDS_TO_TAKE", 1.0)
    await served.grant(echo, much)
    deaf = await served.client()
    sending = asyncio.create_task(_ask_for_ever(deaf.connection.write))
    await fine(served)
    event = await served.event("connection", "bridge", subject="c1")
    assert event.outcome == "TIMEOUT"
    assert (event.count or 0) < 200  # it was asked no more when it took no answers
    sending.cancel()
    await fine(served)


async def _ask_for_ever(write: "object") -> None:
    with contextlib.suppress(ConnectionError):
        for id in range(100_000):
            call = {"name": "much", "arguments": {}}
            line = json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call})
            await write(line.encode() + b"\n")  # type: ignore[operator]


async def test_one_that_reads_slowly_gets_whole_lines(served: Served) -> None:
    """Whoever waits for it may give up, but not in the middle of one."""

    async def tell(context: ToolContext) -> str:
        for step in range(40):
            context.report_progress(step, 40, "x" * 4000)
        return "y" * 100_000

    await served.grant(tell)
    client = await served.client()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(telling, "_SECONDS", 0.2)
        await client.say("tools/call", id="slow", name="tell", arguments={}, _meta={"progressToken": 1})
        await asyncio.sleep(1)
        while (answer := await client.hear()).get("id") != "slow":
            assert answer["method"] == "notifications/progress"
    assert len(answer["result"]["content"][0]["text"]) == 100_000


async def test_many_that_never_read(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may leave some answers lying, and all together not many times that."""
    monkeypatch.setattr(share, "MOST_UNTAKEN", 4 << 20)
    await served.grant(echo, much)
    sending = []
    for _ in range(10):
        deaf = await served.client()
        sending.append(asyncio.create_task(_ask_for_ever(deaf.connection.write)))
    await served.event("connection", "bridge", outcome="LIMIT_REACHED")
    assert served.bridge._share.untaken <= 4 << 20
    await fine(served)
    for task in sending:
        task.cancel()


async def test_large_requests_that_are_under_way(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share, "MOST_ASKED", 1 << 20)
    go = asyncio.Event()

    async def wait(text: str) -> str:
        await go.wait()
        return text[:1]

    await served.grant(wait, echo)
    clients = [await served.client() for _ in range(2)]
    for client in clients:
        for number in range(2):
            await client.say("tools/call", id=f"large{number}", name="wait", arguments={"text": "x" * 300_000})
    answer = await clients[1].hear()
    assert (answer["error"]["code"], answer["id"]) == (-32000, "large1")
    await fine(served)  # what is small is never too much
    go.set()
    for client, id in ((clients[0], "large0"), (clients[0], "large1"), (clients[1], "large0")):
        assert (await client.hear())["id"] == id
    assert await clients[1].call("wait", text="y" * 300_000) == ("y", False)
    await clients[0].say("tools/call", id="last", name="wait", arguments={"text": "x" * 300_000})
    for client in clients:
        await client.connection.end()
        assert await client.ended()
    assert served.bridge._share.asked == served.bridge._share.untaken == 0


def test_what_a_message_weighs() -> None:
    for unit in (b"[],", b'{"":1},', b"1,", b'"abcdefgh",'):
        line = b"[" + unit * 10_000 + b"0]"
        tracemalloc.start()
        found = json.loads(line)
        kept = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert found
        assert kept < 3 * share.weight(line) + 10_000


async def test_a_sandboxs_clients_share_its_turns() -> None:
    """However many they are, others have theirs in between."""
    shared, count = share.Share(), 0

    async def take() -> None:
        nonlocal count
        while True:
            await shared.turn()
            count += 1

    taking = [asyncio.create_task(take()) for _ in range(50)]
    most = 0
    for _ in range(20):
        before = count
        await asyncio.sleep(0)
        most = max(most, count - before)
    assert 0 < most <= 16
    assert count > 50
    for task in taking:
        task.cancel()
    await asyncio.wait(taking)
    await asyncio.wait_for(shared.turn(), 1)  # those who gave up are in nobody's way


async def test_what_takes_long_is_followed_by_a_rest() -> None:
    shared = share.Share()
    with shared.working():
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass
    started = time.monotonic()
    await shared.turn()
    assert time.monotonic() - started >= 0.09
    started = time.monotonic()
    for _ in range(1000):
        await shared.turn()
    assert time.monotonic() - started < 1


async def test_a_line_without_end(served: Served) -> None:
    await served.grant(echo)
    client = await served.client()
    assert await _poured(client.connection.write) < 2 << 20
    answer = await client.hear()
    assert (answer["error"]["code"], answer["id"]) == (-32600, None)
    assert await client.ended()
    assert (await served.event("connection", "bridge")).outcome == "TOO_LARGE"
    await fine(served)


async def _poured(write: "object") -> int:
    """How much of a gibibyte was taken."""
    for sent in range(1 << 14):
        try:
            await write(b"x" * (64 << 10))  # type: ignore[operator]
        except BrokenPipeError:
            return sent << 16
    return 1 << 30


async def test_a_line_may_be_as_long_as_was_said() -> None:
    from paddock.bridge import Caller

    served = Served(Caller("sb-1"), max_line=4096)
    await served.grant(echo)
    client = await served.client()
    assert await client.call("echo", text="x" * 3900) == ("x" * 3900, False)
    await client.connection.write(b"x" * 4097)
    assert (await client.hear())["error"]["message"] == "the line is too long"
    await served.bridge.close()


async def test_deep(served: Served) -> None:
    await served.grant(echo)
    client = await served.client()
    for line in (b"[" * 100_000, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000):
        await client.send(line)
        assert (await client.hear())["error"]["code"] == -32700
    assert await client.call("echo", text="x") == ("x", False)


async def test_a_flood(served: Served) -> None:
    """Of requests, notifications, blank lines and rubbish, by somebody who reads; and by one who does not."""
    await served.grant(echo)
    flooding: list[asyncio.Task[Any]] = []
    for line in (b"\n", b'{"jsonrpc":"2.0","method":"x"}\n', b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', b"{\n"):
        client = await served.client()
        flooding.append(asyncio.create_task(_flood(client.connection.write, line)))
        flooding.append(asyncio.create_task(client.ended()))
    for _ in range(5):
        await fine(served)
    for task in flooding:
        task.cancel()


async def _flood(write: "object", line: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        for _ in range(10_000):
            await write(line * 1000)  # type: ignore[operator]


async def test_too_many_requests_at_once(served: Served) -> None:
    go = asyncio.Event()

    async def wait() -> str:
        await go.wait()
        return "done"

    await served.grant(wait, echo)
    client = await served.client()
    for id in range(transport.MOST_REQUESTS + 5):
        await client.say("tools/call", id=1000 + id, name="wait", arguments={})
    refused = [await client.hear() for _ in range(5)]
    assert {answer["error"]["code"] for answer in refused} == {-32000}
    await fine(served)
    go.set()
    answers = [await client.hear() for _ in range(transport.MOST_REQUESTS)]
    assert all(answer["result"]["content"][0]["text"] == "done" for answer in answers)


async def test_too_many_connections(served: Served) -> None:
    await served.grant(echo)
    held = [await served.client() for _ in range(bridges.MOST_CONNECTIONS)]
    assert await served.dial().ended()
    event = await served.event("connection", "bridge", outcome="LIMIT_REACHED")
    assert event.subject == f"c{bridges.MOST_CONNECTIONS + 1}"
    assert await held[7].call("echo", text="x") == ("x", False)
    await held[0].connection.end()
    assert await held[0].ended()
    await fine(served)


async def test_one_that_vanishes(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "SECONDS_TO_ANSWER", 1.0)
    started, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return "never"

    await served.grant(wait, echo)
    client = await served.client()
    await client.say("tools/call", id=9, name="wait", arguments={})
    await started.wait()
    await client.connection.end()
    await client.connection._incoming.end()
    await fine(served)
    async with asyncio.timeout(transport.SECONDS_TO_ANSWER + 10):
        await ended.wait()


def words(function: object, *arguments: object) -> list[str]:
    """A program of `relays.inside`."""
    return ["python3", "-I", "-S", "-c", PROGRAM, function.__name__, *map(str, arguments)]  # type: ignore[attr-defined]


async def test_from_inside_a_sandbox() -> None:
    """Descriptors that are sent are closed; rubbish, silence and a storm of connections trouble nobody."""
    async with Sandbox.create(Namespaces(), tools=[echo]) as sb, official(sb) as client:
        path = "/run/paddock/bridge.sock"
        said = await sb.exec(words(inside.rights, path, 20), timeout=60)
        assert (said.exit_code, said.stdout.split()[1]) == (0, "0"), said.stderr
        async with await sb.start(words(inside.push, path), stdin=True):
            for seed in range(3):
                assert (await sb.exec(words(inside.garbage, path, seed), timeout=60)).exit_code == 0
            assert (await sb.exec(words(inside.vanish, path, 300), timeout=60)).exit_code == 0
            assert (await client.call_tool("echo", {"text": "x"})).content[0].text == "x"  # type: ignore[union-attr]


async def test_more_connections_than_there_may_be_from_inside() -> None:
    async with Sandbox.create(Namespaces(), tools=[echo]) as sb, official(sb) as client:
        events = sb.events()
        async with await sb.start(words(inside.hold, "/run/paddock/bridge.sock", 200), stdin=True):
            assert (await client.call_tool("echo", {"text": "x"})).content[0].text == "x"  # type: ignore[union-attr]
            async with asyncio.timeout(30):
                while (await anext(events)).outcome != "LIMIT_REACHED":
                    pass
        await events.aclose()


async def test_changed_conversations(served: Served) -> None:
    """A whole conversation with bytes changed, in pieces of any size: no connection fails, and nobody else notices."""
    await served.grant(echo)
    source = random.Random(11)
    for _ in range(ROUNDS):
        client = served.dial()
        conversation = changed(source, source.choice(CONVERSATIONS))
        with contextlib.suppress(ConnectionError):
            while conversation:
                size = source.randrange(1, 400)
                await client.connection.write(conversation[:size])
                conversation = conversation[size:]
            await client.connection.end()
        assert await client.ended()
        event = await served.event("connection", "bridge")
        assert event.outcome == "ok"
    await fine(served)


async def test_a_tool_that_closes_its_own_sandbox() -> None:
    async with Sandbox.create(Namespaces()) as sb:

        async def close() -> str:
            await sb.close()
            return "closed"

        await sb.grant(close)
        said = asking("close")
        with contextlib.suppress(SandboxError):
            async with asyncio.timeout(30):
                await sb.exec('paddock-bridge "$PADDOCK_BRIDGE"', stdin=said)
        with pytest.raises(ClosedError):
            await sb.exec("true")
