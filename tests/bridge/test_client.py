"""The official client through the real `paddock-bridge`, wherever a sandbox can run; and how sandboxes have bridges."""

import asyncio
import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError
from mcp_types import ToolListChangedNotification

from bridge.conftest import SERVER, official
from paddock import (
    ClosedError,
    ConfigError,
    Manager,
    McpServer,
    Memory,
    Namespaces,
    NotAuthorizedError,
    NotFoundError,
    Sandbox,
    Tool,
    UnavailableError,
    UnsupportedError,
    sync,
)
from paddock.bridge import ToolContext
from paddock.consent import begun_by
from paddock.driver import BackendSpec


def echo(text: str) -> str:
    """Say it again."""
    return text


async def who(context: ToolContext) -> list[str | None]:
    """Who asks."""
    return [context.sandbox, context.user, context.chat]


async def steps(context: ToolContext) -> str:
    """Something that takes time."""
    for step in range(3):
        context.report_progress(step, 3)
    return "done"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_official_client(everywhere: BackendSpec, mode: Any) -> None:
    """In both protocols that it speaks: with a handshake, and without."""
    async with Sandbox.create(everywhere, tools=[echo, who], labels={"user": "ann", "chat": "c"}) as sb:
        changed = asyncio.Event()

        async def on_message(message: object) -> None:
            if isinstance(message, ToolListChangedNotification):
                changed.set()

        async with official(sb, mode=mode, message_handler=on_message) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["echo", "who"]
            assert (await client.call_tool("echo", {"text": "é" * 50_000})).content[0].text == "é" * 50_000  # type: ignore[union-attr]
            told = await client.call_tool("who", {})
            assert told.content[0].text == f'["{sb.id}","ann","c"]'  # type: ignore[union-attr]
            assert (await client.list_resources()).resources == []
            with pytest.raises(MCPError, match="not found or not authorized"):
                await client.call_tool("secret", {})
            await sb.grant(steps)
            heard: list[float] = []

            async def on_progress(progress: float, total: float | None, message: str | None) -> None:
                heard.append(progress)

            assert (await client.call_tool("steps", {}, progress_callback=on_progress)).content[0].text == "done"  # type: ignore[union-attr]
            assert sorted(heard) == [0, 1, 2]
            if mode == "legacy":
                async with asyncio.timeout(30):
                    await changed.wait()
            many = (client.call_tool("echo", {"text": str(number)}) for number in range(30))
            answers = await asyncio.gather(*many)
            assert [one.content[0].text for one in answers] == [str(number) for number in range(30)]  # type: ignore[union-attr]


async def test_the_newer_protocol_hears_of_changes_too() -> None:
    async with Sandbox.create(Namespaces(), tools=[echo]) as sb, official(sb) as client:
        async with client.listen(tools_list_changed=True) as changes:
            await sb.grant(steps)
            async with asyncio.timeout(30):
                async for _ in changes:
                    break
        assert len((await client.list_tools()).tools) == 2


async def test_programs_inside_find_it(everywhere: BackendSpec) -> None:
    async with Sandbox.create(everywhere, tools=[echo]) as sb:
        done = await sb.exec('paddock-bridge "$PADDOCK_BRIDGE"', stdin=_asking("echo", "from a shell"), timeout=60)
        assert "from a shell" in done.stdout, done.stderr
        assert (await sb.exec("echo $PADDOCK_BRIDGE", env={"PADDOCK_BRIDGE": "mine"})).stdout == "mine\n"


async def test_nothing_is_there_without_a_grant() -> None:
    async with Sandbox.create(Namespaces()) as sb:
        assert not sb.tools
        looked = await sb.exec('echo "$PADDOCK_BRIDGE"; ls /run/paddock; echo $PATH')
        assert looked.stdout.startswith("\n")
        assert "bridge.sock" not in looked.stdout
        assert "/run/paddock" not in looked.stdout
        with pytest.raises(NotFoundError):
            await sb.revoke("echo")
        (grant,) = await sb.grant(echo)
        assert sb.tools == (grant,)
        assert (await sb.exec('test -S "$PADDOCK_BRIDGE" && command -v paddock-bridge')).exit_code == 0
        await sb.revoke("echo")
        assert not sb.tools
        async with official(sb) as client:
            assert (await client.list_tools()).tools == []


async def test_another_sandbox_is_out_of_reach() -> None:
    """Its socket is not there, and its own shows its own grants."""
    async with (
        Sandbox.create(Namespaces(), tools=[echo], labels={"chat": "c", "user": "ann"}) as one,
        Sandbox.create(Namespaces(), tools=[who], labels={"chat": "c", "user": "bob"}) as other,
        official(other) as client,
    ):
        assert [tool.name for tool in (await client.list_tools()).tools] == ["who"]
        assert (await client.call_tool("who", {})).content[0].text == f'["{other.id}","bob","c"]'  # type: ignore[union-attr]
        await other.revoke("who")
        assert [grant.name for grant in one.tools] == ["echo"]
        elsewhere = r"find / \( -path /usr -o -path /proc \) -prune -o -name '*.sock' -type s -print 2>/dev/null"
        found = await other.exec(elsewhere)
        assert found.stdout.split() == ["/run/paddock/bridge.sock"]


async def test_detached() -> None:
    """It stops with the process that served it, and comes again with what is granted anew."""
    sb = await Sandbox.create(Namespaces(), detached=True, tools=[echo])
    try:
        async with official(sb) as client:
            assert (await client.call_tool("echo", {"text": "x"})).content[0].text == "x"  # type: ignore[union-attr]
        await sb.close()
        async with Sandbox.connect(sb.id) as again:
            assert again.tools == ()
            gone = await again.exec(["/run/paddock/paddock-bridge", "/run/paddock/bridge.sock"])
            assert (gone.exit_code, "No such file" in gone.stderr) == (1, True)
            await again.grant(echo)
            async with official(again) as client:
                assert (await client.call_tool("echo", {"text": "y"})).content[0].text == "y"  # type: ignore[union-attr]
    finally:
        await Sandbox.remove(sb.id)


async def test_an_mcp_server_for_a_sandbox() -> None:
    server = McpServer([sys.executable, "-W", "ignore", str(SERVER)], name="m", only=["add"])
    async with Sandbox.create(Namespaces(), tools=[server, echo]) as sb, official(sb) as client:
        assert (await client.call_tool("m__add", {"a": 1, "b": 2})).content[0].text == "3"  # type: ignore[union-attr]


async def test_a_model_grants_nothing() -> None:
    async with Sandbox.create(Namespaces(), tools=[echo]) as sb:

        async def widen() -> str:
            await sb.grant(who)
            return "widened"

        await sb.grant(widen)
        async with official(sb) as client:
            result = await client.call_tool("widen", {})
            assert result.is_error
            assert "A model cannot grant tools." in result.content[0].text  # type: ignore[union-attr]
        with begun_by("model"), pytest.raises(NotAuthorizedError):
            await sb.grant(who)
        assert len(await sb.grant(who)) == 1


async def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedError):
        await Sandbox.create(Memory(), tools=[echo])
    with pytest.raises(ConfigError):
        await Sandbox.create(Namespaces(), tools=["echo"])  # type: ignore[list-item]
    async with Sandbox.create(Namespaces()) as sb:
        with pytest.raises(UnsupportedError):
            await sb.restrict("/workspace").grant(echo)
    with pytest.raises(ClosedError):
        await sb.grant(echo)
    monkeypatch.setattr("paddock.bridge.sdk.find_spec", lambda name: None)
    with pytest.raises(UnavailableError, match="paddock\\[bridge\\]"):
        await Sandbox.create(Namespaces(), tools=[echo])


async def test_a_create_whose_tools_fail_leaves_nothing(tmp_path: Path) -> None:
    workspace = tmp_path / "new"
    with pytest.raises(ConfigError, match="cannot be a tool"):
        await Sandbox.create(Namespaces(), workspace=workspace, tools=[Tool(lambda *words: "", name="x")])
    assert not workspace.exists()


async def test_tools_may_be_a_generator() -> None:
    async with Sandbox.create(Namespaces(), tools=(tool for tool in (echo, who))) as sb:
        assert [grant.name for grant in sb.tools] == ["echo", "who"]


async def test_each_grant_is_told_once() -> None:
    async with Sandbox.create("local", tools=[echo]) as sb, sb.events() as events:
        await sb.grant(Tool(echo, name="plus"))
        await sb.revoke("plus")
        with pytest.raises(NotFoundError):
            await sb.revoke("plus")
        await sb.exists("x")
        told = [await anext(events) for _ in range(4)]
        assert [(one.operation, one.subject, one.outcome) for one in told] == [
            ("grant", "plus", "ok"),
            ("revoke", "plus", "ok"),
            ("revoke", "plus", "NOT_FOUND"),
            ("exists", "/workspace/x", "ok"),
        ]


async def test_whoever_serves_has_a_bridge_of_its_own() -> None:
    """What one grants, commands of another do not see; and the end of one is none for the other."""
    sb = await Sandbox.create(Namespaces(), detached=True, tools=[echo])
    try:
        async with Sandbox.connect(sb.id) as other:
            await other.grant(who)
            for one, name in ((sb, "echo"), (other, "who")):
                async with official(one) as client:
                    assert [tool.name for tool in (await client.list_tools()).tools] == [name]
            await sb.close()
            async with official(other) as client:
                assert [tool.name for tool in (await client.list_tools()).tools] == ["who"]
    finally:
        await Sandbox.remove(sb.id)


async def test_of_a_lease(tmp_path: Path) -> None:
    """Who it is comes from the manager, whatever a request calls itself."""
    with pytest.raises(ConfigError, match="grants no tools"):
        Manager(tmp_path / "m", backend="namespaces", tools=[echo])
    async with Manager(tmp_path / "m", backend="namespaces") as manager:
        for user in ("ann", 'b"ob\\\n'):
            async with manager.get_or_create(user, "chat 7", labels={"user": "root", "chat": "0"}) as lease:
                await lease.sandbox.grant(who)
                async with official(lease.sandbox) as client:
                    told = (await client.call_tool("who", {})).content[0].text  # type: ignore[union-attr]
                assert json.loads(told)[1:] == [user, "chat 7"]


def test_without_async() -> None:
    def shout(text: str) -> str:
        return text.upper()

    with sync.Sandbox.create("namespaces", tools=[shout]) as sb:
        assert [grant.name for grant in sb.tools] == ["shout"]
        assert '"text":"HELLO"' in sb.exec('paddock-bridge "$PADDOCK_BRIDGE"', stdin=_asking("shout", "hello")).stdout
        sb.grant(echo)
        sb.revoke("shout")
        assert [grant.name for grant in sb.tools] == ["echo"]
        server = (
            "import socket; s = socket.create_server(('127.0.0.1', 8000))\nwhile True: s.accept()[0].sendall(b'hi')"
        )
        with sb.start(["python3", "-c", server]):
            sb.wait_for_port(8000)
            with sb.expose(8000) as endpoint, socket.create_connection((endpoint.host, endpoint.port), 30) as there:
                assert (endpoint.inside, there.recv(10)) == (8000, b"hi")


def _asking(tool: str, text: str) -> str:
    call = {"name": tool, "arguments": {"text": text}}
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "sh", "version": "1"}}
    messages = (
        {"id": 0, "method": "initialize", "params": begin},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/call", "params": call},
    )
    return "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
