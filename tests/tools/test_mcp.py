"""`paddock mcp`: with the official client over both transports, with a real agent, and who is refused."""

import asyncio
import base64
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from typer.testing import CliRunner

from bridge.test_inspector import inspector as inspector
from paddock import ConfigError, QuotaExceededError, Sandbox
from paddock.cli import mcp as cli_mcp
from paddock.cli import streams
from paddock.cli.app import program
from paddock.review import ChangeSet
from paddock.testing import FakeModel, Say, Turn, Use, plant_link
from paddock.tools import sandbox_tools
from paddock.tools.mcp import http as mcp_http
from paddock.tools.mcp import server as mcp_server
from paddock.tools.mcp.http import Guard, listening
from paddock.tools.mcp.server import McpTools
from runners.conftest import INSTALLED
from test_cli_review import talk

PROGRAM = [sys.executable, "-m", "paddock", "mcp"]


def own_environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key.startswith(("PADDOCK_", "XDG_", "PATH", "HOME"))}


def text(result: Any) -> str:
    return str(result.content[0].text)


@asynccontextmanager
async def over_streams(*options: str) -> AsyncIterator[Client]:
    """The official client, which starts the program."""
    server = StdioServerParameters(command=PROGRAM[0], args=[*PROGRAM[1:], *options], env=own_environment())
    async with Client(stdio_client(server)) as client:
        yield client


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    (place / "app.py").write_text("def double(n):\n    return n + n + 1\n")
    (place / "check.py").write_text("from app import double\nassert double(2) == 4\nprint('passed')\n")
    return place


async def test_a_client_works(project: Path) -> None:
    """It edits a file and runs a test, under review: the project is as it was, and what changed is kept."""
    async with over_streams("--workspace", str(project), "--review") as client:
        listed = (await client.list_tools()).tools
        assert {"read_file", "edit_file", "run_command"} <= {tool.name for tool in listed}
        assert not any("push" in tool.name for tool in listed)
        failed = await client.call_tool("run_command", {"command": "python3 check.py"})
        assert "AssertionError" in text(failed)
        edit = {"path": "app.py", "old_text": " + 1", "new_text": ""}
        assert not (await client.call_tool("edit_file", edit)).is_error
        assert text(await client.call_tool("run_command", {"command": "python3 check.py"})) == "passed"
        assert (await client.call_tool("read_file", {"path": "none"})).is_error
        with pytest.raises(MCPError, match="there is no tool"):
            await client.call_tool("push", {})
    assert "+ 1" in (project / "app.py").read_text()
    listing = await asyncio.create_subprocess_exec(*PROGRAM[:-1], "review", "list", "--json", stdout=-1)
    assert str(project) in (await listing.communicate())[0].decode()


async def test_resources(memory: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_server, "PAGE", 3)
    monkeypatch.setattr(mcp_server, "LARGEST", 1000)
    await memory.write_files(
        {"a b.txt": "text\n", "d/x.bin": b"\0\1", "large.txt": "x" * 2000, "ü.md": "#", "z.py": "1"}
    )
    async with Client(McpTools(memory, sandbox_tools(memory)).server) as client:
        first = await client.list_resources()
        second = await client.list_resources(cursor=first.next_cursor)
        named = {one.name: one for one in [*first.resources, *second.resources]}
        assert set(named) == {"a b.txt", "d/x.bin", "large.txt", "ü.md", "z.py"}
        assert (named["z.py"].size, named["z.py"].mime_type) == (1, "text/x-python")
        (content,) = (await client.read_resource(named["a b.txt"].uri)).contents
        assert content.text == "text\n"  # type: ignore[union-attr]
        (binary,) = (await client.read_resource(named["d/x.bin"].uri)).contents
        assert base64.b64decode(binary.blob) == b"\0\1"  # type: ignore[union-attr]
        assert (await client.read_resource(named["ü.md"].uri)).contents
        for wrong in (
            named["large.txt"].uri,
            "sandbox:///etc/passwd",
            "file:///etc/passwd",
            "sandbox:///workspace/../../x",
            "sandbox://[/x",
        ):
            with pytest.raises(MCPError):
                await client.read_resource(wrong)


async def test_resources_do_not_lead_out(real: Sandbox) -> None:
    plant_link(real, "out", "/etc/passwd")
    await real.write("in.txt", "x")
    async with Client(McpTools(real, sandbox_tools(real)).server) as client:
        assert [one.name for one in (await client.list_resources()).resources] == ["in.txt"]
        with pytest.raises(MCPError, match="OUTSIDE"):
            await client.read_resource("sandbox:///workspace/out")


async def test_progress_and_cancelling(real: Sandbox) -> None:
    """A client hears how a command goes; one that gives up ends it, with all that it started."""
    heard = asyncio.Event()

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        if message == "begun":
            heard.set()

    async with Client(McpTools(real, sandbox_tools(real)).server) as client:
        command = {"command": "echo begun; setsid sleep 777 & sleep 777"}
        call = asyncio.create_task(client.call_tool("run_command", command, progress_callback=progress))
        async with asyncio.timeout(60):
            await heard.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            while "sleep" in (await real.exec("cat /proc/[0-9]*/comm")).stdout:
                await asyncio.sleep(0.05)
        assert text(await client.call_tool("run_command", {"command": "echo on"})) == "on"


@pytest.mark.parametrize("how", ["end", "interrupt", "terminate"])
async def test_it_ends(how: str, tmp_path: Path) -> None:
    """With its input, by Ctrl-C and by a signal: the sandbox ends with it, and its command with that."""
    process = await asyncio.create_subprocess_exec(*PROGRAM, stdin=-1, stdout=-1, stderr=-1, env=own_environment())
    assert process.stdin is not None
    assert process.stdout is not None
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    asked: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "write_file", "arguments": {"path": "a", "content": ""}}},
        {"id": 3, "method": "tools/call", "params": {"name": "run_command", "arguments": {"command": "sleep 777"}}},
    ]
    for one in asked[: 3 if how == "end" else 4]:  # who only stops asking may still wait for an answer
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **one}).encode() + b"\n")
    async with asyncio.timeout(90):
        while b'"id":2' not in await process.stdout.readline():
            pass
        if how == "end":
            process.stdin.close()
        else:
            process.send_signal(signal.SIGINT if how == "interrupt" else signal.SIGTERM)
        code = await process.wait()
    assert code == {"end": 0, "interrupt": 130, "terminate": 143}[how]
    left = [path for path in (tmp_path / "state" / "sandboxes").iterdir() if not path.name.startswith(".")]
    assert left == []


async def test_a_detached_sandbox() -> None:
    """It is used and left running. Only what was asked for is offered."""
    sb = await Sandbox.create("namespaces", detached=True)
    try:
        await sb.write("here.txt", "already")
        async with over_streams("--attach", sb.id, "--only", "read_file") as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["read_file"]
            assert text(await client.call_tool("read_file", {"path": "here.txt"})) == "already"
        assert await sb.exists("here.txt")
    finally:
        await sb.close()
        await Sandbox.remove(sb.id)


def test_somebody_who_types_it_is_told_what_it_does() -> None:
    serving = "serving MCP on standard streams, for a client to start; Ctrl-C ends it"
    assert talk(["mcp", "--backend", "memory"], (serving, "\x03"))[0] == 130
    told = " ".join(CliRunner().invoke(program(), ["mcp", "--help"]).output.split())
    assert "without writing to it; keep what changed for later." in told


def test_what_contradicts_itself() -> None:
    for options in (["--http", "web"], ["--http", "0.0.0.0:0", "--no-token"]):
        done = CliRunner().invoke(program(), ["mcp", *options])
        assert (done.exit_code, "INVALID_CONFIG" in done.output) == (125, True), done.output


@pytest.mark.parametrize(
    "option",
    [
        *(["--workspace", "."], ["--review"], ["--memory", "1G"], ["--cpu", "1"], ["--env", "A=1"], ["--label", "a=1"]),
        *(["--workdir", "/workspace"], ["--allow", "x.example"], ["--secret", "A@x.example"], ["--lifetime", "1h"]),
    ],
    ids=lambda option: str(option[0]),
)
def test_what_is_made_already_is_not_made_otherwise(option: list[str]) -> None:
    """What would be ignored is refused, and named. What is about serving it is not."""
    done = CliRunner().invoke(program(), ["mcp", "--attach", "nobody", *option])
    assert (done.exit_code, f"cannot be given with {option[0]}" in done.output) == (125, True), done.output
    fine = CliRunner().invoke(program(), ["mcp", "--attach", "nobody", "--only", "grep", "--http", "0", "--quiet"])
    assert (fine.exit_code, "NOT_FOUND" in fine.output) == (125, True), fine.output


async def test_answers_at_once_do_not_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two meet a pipe that is full: each is written as a whole. After one was cut off, nothing is."""
    reading, writing = os.pipe()
    monkeypatch.setattr(streams, "outputs", lambda: {"stdout": streams.Output(writing)})
    connection = cli_mcp._Streams()
    lines = [letter * 300_000 + b"\n" for letter in (b"a", b"b", b"c")]
    tasks = [asyncio.create_task(connection.write(line)) for line in lines]
    await asyncio.sleep(0)
    found = b""
    while len(found) < sum(map(len, lines)):
        found += await asyncio.to_thread(os.read, reading, 1 << 16)
    await asyncio.gather(*tasks)
    assert found == b"".join(lines)
    connection.abort()
    with pytest.raises(ConnectionError):
        await connection.write(b"more")
    os.close(writing)
    assert os.read(reading, 1) == b""
    os.close(reading)


async def test_what_cannot_be_kept_is_told(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A review whose work is lost does not end as if all were well; one that is kept says where."""

    async def worked() -> None:
        async with cli_mcp._offered(Sandbox.create("namespaces", workspace=project, review=True), None, True) as tools:
            await tools._sb.write("new.txt", "x")

    async def full(changes: ChangeSet, name: str | None = None) -> str:
        raise QuotaExceededError("No room is left.")

    await worked()
    assert "paddock review apply" in capsys.readouterr().err
    monkeypatch.setattr(ChangeSet, "keep", full)
    with pytest.raises(QuotaExceededError):
        await worked()
    assert "could not be kept" in capsys.readouterr().err


# HTTP


@asynccontextmanager
async def known(url: str, token: str) -> AsyncIterator[Client]:
    """The official client, with a token."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


async def test_over_http(memory: Sandbox) -> None:
    """With the token the official client works; without it, or with another Host or Origin, nobody gets anywhere."""
    tools = McpTools(memory, sandbox_tools(memory))
    async with listening(tools, "127.0.0.1", 0, "secret", ["proxy.example"]) as url:
        headers = {"Authorization": "Bearer secret"}
        async with known(url, "secret") as client:
            await client.call_tool("write_file", {"path": "a", "content": "by http"})
        assert await memory.read("a") == "by http"
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        taken = {**headers, "Accept": "application/json, text/event-stream"}
        place = url.removeprefix("http://").removesuffix("/mcp")
        cases: list[tuple[int, dict[str, str]]] = [
            (401, {"Authorization": ""}),
            (401, {"Authorization": "Bearer secre"}),
            (401, {"Authorization": "Basic secret"}),
            (421, {"Host": "evil.example"}),
            (421, {"Host": f"evil.example:{place.rpartition(':')[2]}"}),
            (403, {"Origin": "http://evil.example"}),
            (403, {"Origin": "null"}),
        ]
        async with httpx.AsyncClient() as http:
            for status, wrong in cases:
                answer = await http.post(url, json=ping, headers={**taken, **wrong})
                assert answer.status_code == status, wrong
            other = {**taken, "Origin": "https://proxy.example", "Host": "proxy.example"}
            assert (await http.post(url, json=ping, headers=other)).status_code not in (401, 403, 421)
            ours = {**taken, "Origin": f"http://{place}", "Host": place}
            assert (await http.post(url, json=ping, headers=ours)).status_code not in (401, 403, 421)
            assert (await http.get(url.removesuffix("/mcp") + "/other", headers=taken)).status_code == 404
            assert (await http.get(url.removesuffix("/mcp") + "/other")).status_code == 401


async def test_without_a_token(memory: Sandbox) -> None:
    tools = McpTools(memory, sandbox_tools(memory))
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        with pytest.raises(ConfigError):
            async with listening(tools, host, 0, None):
                pass
    async with listening(tools, "127.0.0.1", 0, None) as url, Client(streamable_http_client(url)) as client:
        assert len((await client.list_tools()).tools) == 9


async def test_the_usual_port_is_not_named(memory: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients leave it out of the Host."""
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setattr(mcp_http, "_USUAL_PORT", port)
    tools = McpTools(memory, sandbox_tools(memory))
    async with listening(tools, "127.0.0.1", port, None, ["also.example"]) as url, httpx.AsyncClient() as http:
        for host, refused in (
            ("localhost", False),
            ("127.0.0.1", False),
            ("also.example", False),
            ("evil.example", True),
        ):
            answer = await http.post(url, json=ping, headers={"Host": host})
            assert (answer.status_code == 421) == refused, host


async def test_what_a_broken_connection_is(real: Sandbox) -> None:
    """Where there are sessions it is no more than that; where there are none it cancels."""
    tools = McpTools(real, sandbox_tools(real))
    taken = {"Accept": "application/json, text/event-stream"}
    who = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    versioned = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }

    async def breaks_off(mark: str, headers: dict[str, str], **more: Any) -> None:
        params = {"name": "run_command", "arguments": {"command": f"echo > {mark}; exec sleep 98{mark}"}, **more}
        body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
        async with httpx.AsyncClient() as http:
            asking = asyncio.ensure_future(http.post(url, json=body, headers={**taken, **headers}))
            while not await real.exists(mark):
                await asyncio.sleep(0.02)
            asking.cancel()
            await asyncio.wait([asking])

    async def runs(mark: str) -> bool:
        return f"sleep 98{mark}" in (await real.exec("ps -e -o args")).stdout

    async with listening(tools, "127.0.0.1", 0, None) as url:
        async with httpx.AsyncClient() as http:
            begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": who}
            session = (await http.post(url, json=begin, headers=taken)).headers["Mcp-Session-Id"]
        await breaks_off("1", {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-06-18"})
        new = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "run_command"}
        await breaks_off("2", new, _meta=versioned)
        while await runs("2"):
            await asyncio.sleep(0.02)
        assert await runs("1")
        async with httpx.AsyncClient() as http:
            await http.delete(url, headers={**taken, "Mcp-Session-Id": session})
        while await runs("1"):
            await asyncio.sleep(0.02)


async def test_a_guard_of_everything() -> None:
    """Headers that are there twice are nobody's, and what is no request gets no answer."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "reached"})

    async def ask(*headers: tuple[bytes, bytes], kind: str = "http") -> Any:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        await guard({"type": kind, "path": "/mcp", "headers": headers}, app, send)  # type: ignore[arg-type]
        return sent and (sent[0].get("status") or sent[0]["type"])

    guard = Guard(app, "t", ["localhost:1"])
    host, token = (b"host", b"LOCALHOST:1"), (b"authorization", b"Bearer t")
    assert await ask(host, token) == "reached"
    assert await ask(host, (b"authorization", b"bearer t")) == "reached"  # the scheme's case is nobody's business
    assert await ask(host, (b"authorization", b"Bearer T")) == 401
    assert await ask(host, host, token) == 421
    assert await ask(host, token, token) == 401
    assert await ask(token) == 421
    assert await ask(host, token, kind="websocket") == []
    guard = Guard(app, "schlüssel", ["localhost:1"])
    assert await ask(host, (b"authorization", "Bearer schlüssel".encode())) == "reached"
    assert await ask(host, token) == 401


async def test_the_program_over_http(project: Path) -> None:
    """It says where it listens and the token, also when it is to be quiet, and ends by a signal."""
    words = [*PROGRAM, "-q", "--http", "0", "--workspace", str(project)]
    process = await asyncio.create_subprocess_exec(*words, stdin=-3, stdout=-1, stderr=-1, env=own_environment())
    assert process.stderr is not None
    async with asyncio.timeout(90):
        url = (await process.stderr.readline()).decode().removeprefix("listening at ").strip()
        token = (await process.stderr.readline()).decode().removeprefix("the token is ").strip()
        async with known(url, token) as client:
            assert text(await client.call_tool("glob", {"pattern": "*.py"})) == "app.py\ncheck.py"
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 143


# Programs of others


@pytest.mark.timeout(300)
async def test_the_inspector(inspector: Path, project: Path) -> None:
    options = [word for key, value in own_environment().items() for word in ("-e", f"{key}={value}")]
    server = [*PROGRAM, "--workspace", str(project)]

    async def inspect(*method: str) -> Any:
        words = [str(inspector), "--cli", *options, *server, "--method", *method]
        process = await asyncio.create_subprocess_exec(*words, stdout=-1, stderr=-1)
        said, errors = await asyncio.wait_for(process.communicate(), 100)
        assert process.returncode == 0, errors
        return json.loads(said)

    assert len((await inspect("tools/list", "--strict"))["tools"]) == 9
    called = await inspect("tools/call", "--tool-name", "read_file", "--tool-arg", "path=check.py")
    assert called["content"][0]["text"].startswith("from app")
    assert {one["name"] for one in (await inspect("resources/list"))["resources"]} == {"app.py", "check.py"}


@pytest.mark.timeout(300)
async def test_claude_edits_and_tests(project: Path, tmp_path: Path) -> None:
    """The real program, told by a fake model, mends a file with these tools and runs the test."""
    claude = next(INSTALLED.glob("node_modules/@anthropic-ai/claude-code-linux-*/claude"), None)
    if not (INSTALLED / ".installed").exists() or claude is None:
        pytest.skip("the programs of agents are not installed: scripts/agents.sh gets them")
    script: list[Turn] = [
        Use("edit_file", {"path": "app.py", "old_text": " + 1", "new_text": ""}, server="paddock"),
        Use("run_command", {"command": "python3 check.py"}, server="paddock"),
        Say("done"),
    ]
    home = tmp_path / "home"
    home.mkdir()
    server = {"command": PROGRAM[0], "args": [*PROGRAM[1:], "--workspace", str(project)], "env": own_environment()}
    config = json.dumps({"mcpServers": {"paddock": server}})
    async with FakeModel(script) as model:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": model.key,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "ENABLE_TOOL_SEARCH": "false",
            "IS_SANDBOX": "1",
        }
        words = ["-p", "mend it", "--dangerously-skip-permissions", "--strict-mcp-config", "--mcp-config", config]
        process = await asyncio.create_subprocess_exec(
            str(claude), *words, env=env, cwd=home, stdin=-3, stdout=-1, stderr=-1
        )
        said, errors = await asyncio.wait_for(process.communicate(), 200)
        assert (process.returncode, said.strip()) == (0, b"done"), errors
        assert model.complaints == []
        results = [result for asked in model.requests for result in asked.results]
        assert [result.is_error for result in results] == [False, False]
        assert results[1].text == "passed"
    assert "+ 1" not in (project / "app.py").read_text()


async def test_who_may_not_read_files_has_no_resources(memory: Sandbox) -> None:
    await memory.write("a.txt", "x")
    async with Client(McpTools(memory, sandbox_tools(memory).only("run_command")).server) as client:
        for ask in (client.list_resources(), client.read_resource("sandbox:///workspace/a.txt")):
            with pytest.raises(MCPError):
                await ask


async def test_resources_are_below_the_working_directory(real: Sandbox) -> None:
    await real.exec("echo mine > ~/notes; mkdir d; echo x > d/f; ln -s d e; ln -s ~/notes away", check=True)
    async with Client(McpTools(real, sandbox_tools(real)).server) as client:
        assert (await client.read_resource("sandbox:///workspace/e/f")).contents
        for path in ("/home/agent/notes", "/workspace/away", "/workspace/../home/agent/notes"):
            with pytest.raises(MCPError):
                await client.read_resource(f"sandbox://{path}")


async def test_who_says_nothing_keeps_no_place(memory: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_http, "_SECONDS_TO_ASK", 0.3)
    head = (
        b"POST /mcp HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer t\r\nAccept: application/json, text/event-stream\r\n"
    )
    rest = b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    async with listening(McpTools(memory, sandbox_tools(memory)), "127.0.0.1", 0, "t") as url:
        place = url.removeprefix("http://").removesuffix("/mcp")
        for said in (b"", b"POST /mcp HT", head % place.encode(), head % place.encode() + rest):
            reader, writer = await asyncio.open_connection(*place.split(":"))
            writer.write(said)
            assert b" 200 " not in await asyncio.wait_for(reader.read(), 20)
            writer.close()
        async with known(url, "t") as client:
            assert (await client.list_tools()).tools


async def test_who_was_answered_and_says_no_more_keeps_no_place(
    memory: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody needs a token to be answered with 401, and a part of a next request is no reason to wait for ever."""
    monkeypatch.setattr(mcp_http, "_SECONDS_TO_ASK", 0.3)
    async with listening(McpTools(memory, sandbox_tools(memory)), "127.0.0.1", 0, "t") as url:
        place = url.removeprefix("http://").removesuffix("/mcp")
        head = f"POST /mcp HTTP/1.1\r\nHost: {place}\r\n".encode()
        whole, cut = head + b"Content-Length: 0\r\n\r\n", head + b"Content-Length: 9\r\n\r\n"
        for first, then in ((whole, b"P"), (whole, head), (cut, b"x")):
            reader, writer = await asyncio.open_connection(*place.split(":"))
            writer.write(first)
            assert b" 401 " in await reader.readline()
            writer.write(then)
            await asyncio.wait_for(reader.read(), 20)
            writer.close()
        async with httpx.AsyncClient() as http:  # one that goes on asking is not cut off
            for _ in range(5):
                assert (await http.get(url)).status_code == 401
                await asyncio.sleep(0.1)
