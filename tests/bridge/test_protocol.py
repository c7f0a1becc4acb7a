"""What is answered, and with which code."""

import json
from typing import Any

import pytest

from bridge.conftest import Served


def echo(text: str) -> str:
    """Say it again."""
    return text


@pytest.mark.parametrize(
    ("line", "code", "id"),
    [
        (b"{", -32700, None),
        (b"\xff\xfe", -32700, None),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": NaN}}', -32700, None),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "\\ud800"}}', -32700, None),
        (b"[]", -32600, None),
        (b"7", -32600, None),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', -32600, None),
        (b'{"id": 1, "method": "ping"}', -32600, 1),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600, 1),
        (b'{"jsonrpc": "2.0", "id": 1}', -32600, 1),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 7}', -32600, 1),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 9' + b"9" * 5000 + b', "method": "ping"}', -32700, None),
        (b'{"jsonrpc": "2.0", "id": "' + b"i" * 300 + b'", "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "no/such"}', -32601, 1),
        (b'{"jsonrpc": "2.0", "id": "a", "method": "prompts/get"}', -32601, "a"),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {}}', -32601, 1),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": [1]}', -32602, 1),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}', -32602, 1),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 7}}', -32602, 1),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "rm"}}', -32602, 1),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "file:///x"}}', -32602, 1),
    ],
)
async def test_refusals(served: Served, line: bytes, code: int, id: Any) -> None:
    await served.grant(echo)
    client = await served.client()
    await client.send(line)
    answer = await client.hear()
    assert (answer["error"]["code"], answer["id"]) == (code, id)
    assert await client.call("echo", text="still here") == ("still here", False)


async def test_an_unlisted_tool_is_refused_in_the_same_words_as_one_that_is_not_there(served: Served) -> None:
    await served.grant(echo)
    client = await served.client()
    answer = await client.ask("tools/call", name="secret", arguments={})
    assert answer["error"] == {"code": -32602, "message": "tool not found or not authorized"}
    event = await served.event("tool", "call")
    assert (event.subject, event.outcome, event.denied, event.initiator) == ("secret", "NOT_AUTHORIZED", True, "model")


async def test_what_there_is(served: Served) -> None:
    await served.grant(echo)
    client = served.dial()
    begun = await client.ask(
        "initialize", protocolVersion="2024-11-05", capabilities={}, clientInfo={"name": "x", "version": "1"}
    )
    assert begun["result"]["protocolVersion"] == "2024-11-05"
    assert begun["result"]["serverInfo"]["name"] == "paddock"
    assert begun["result"]["capabilities"]["tools"] == {"listChanged": True}
    await client.say("notifications/initialized")
    assert (await client.ask("ping"))["result"] == {}
    assert (await client.ask("resources/list"))["result"]["resources"] == []
    tools = (await client.ask("tools/list"))["result"]["tools"]
    assert [(tool["name"], tool["description"]) for tool in tools] == [("echo", "Say it again.")]
    assert tools[0]["inputSchema"]["required"] == ["text"]


@pytest.mark.parametrize(
    "method", ["notifications/initialized", "initialized", "notifications/what", "tools/list", "tools/call", "no/such"]
)
async def test_notifications_are_never_answered(served: Served, method: str) -> None:
    await served.grant(echo)
    client = await served.client()
    await client.say(method)
    await client.say(method, nothing="of use")
    for params in (b"{}", b"[1]", b"null", b"7"):
        await client.send(b'{"jsonrpc": "2.0", "method": "%s", "params": %s}' % (method.encode(), params))
    await client.say("ping", id="next")
    assert (await client.hear())["id"] == "next"
    assert await client.call("echo", text="x") == ("x", False)


async def test_blank_lines_and_line_ends_of_others(served: Served) -> None:
    client = await served.client()
    await client.send(b"", b"   ", b"\t", b"\r")
    await client.send(b'{"jsonrpc": "2.0", "id": 50, "method": "ping"}\r')
    assert (await client.hear())["id"] == 50


async def test_the_last_line_needs_no_end(served: Served) -> None:
    """And who ends their side still hears, as in a pipe."""
    await served.grant(echo)
    client = await served.client()
    call = {"name": "echo", "arguments": {"text": "last words"}}
    line = json.dumps({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": call})
    await client.connection.write(line.encode())
    await client.connection.end()
    assert (await client.hear())["result"]["content"][0]["text"] == "last words"
    assert await client.ended()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        (b"bytes too", "bytes too"),
        (None, "null"),
        ({"a": [1, 2.5, None, True]}, '{"a":[1,2.5,null,true]}'),
        ([], "[]"),
        (7, "7"),
        ("half a pair: \ud800", "half a pair: ?"),
    ],
)
async def test_results(served: Served, value: Any, text: str) -> None:
    def give() -> Any:
        return value

    await served.grant(give)
    assert await (await served.client()).call("give") == (text, False)


async def test_nothing_is_served_before_the_handshake(served: Served) -> None:
    await served.grant(echo)
    client = served.dial()
    answer = await client.ask("tools/call", name="echo", arguments={"text": "x"})
    assert answer["error"]["code"] == -32602
    assert await (await client.begin()).call("echo", text="x") == ("x", False)


async def test_ids_that_are_under_way(served: Served) -> None:
    import asyncio

    go = asyncio.Event()

    async def wait() -> str:
        await go.wait()
        return "done"

    await served.grant(wait)
    client = await served.client()
    for id in (7, 7, "7"):  # the same to the SDK
        await client.say("tools/call", id=id, name="wait", arguments={})
    assert [(await client.hear())["error"]["code"] for _ in range(2)] == [-32600, -32600]
    go.set()
    assert (await client.hear())["result"]["content"][0]["text"] == "done"
    await client.say("tools/call", id=7, name="wait", arguments={})
    assert (await client.hear())["result"]["content"][0]["text"] == "done"


async def test_answers_that_nobody_asked_for(served: Served) -> None:
    """Late, doubled or made up: we ask clients nothing."""
    client = await served.client()
    for id in (1, 1, "x"):
        await client.send(json.dumps({"jsonrpc": "2.0", "id": id, "result": {}}).encode())
        await client.send(json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": 1, "message": "x"}}).encode())
    assert (await client.ask("ping"))["result"] == {}
