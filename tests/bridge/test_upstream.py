"""Tools of other MCP servers: programs that the host starts, and URLs."""

import asyncio
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from bridge.conftest import SERVER, Served
from paddock import BridgeError, ClosedError, ConfigError, ExistsError, McpServer, Tool
from paddock.bridge.bridge import preview
from paddock.bridge.upstream import Upstream

ALL = {"add", "environment", "steps", "sleep", "large", "fail", "become"}


def program(*more: str) -> list[str]:
    return [sys.executable, "-W", "ignore", str(SERVER), *more]


def names(served: Served) -> set[str]:
    return {grant.name for grant in served.bridge.grants}


async def test_a_program(served: Served) -> None:
    await served.grant(McpServer(program()))
    assert names(served) == {f"server__{name}" for name in ALL}
    assert {grant.server for grant in served.bridge.grants} == {"server"}
    client = await served.client()
    assert await client.call("server__add", a=1, b=2) == ("3", False)
    listed = {tool["name"]: tool for tool in (await client.ask("tools/list"))["result"]["tools"]}
    assert listed["server__add"]["description"] == "Two numbers in one."
    words, failed = await client.call("server__fail")
    assert (failed, "secret" in words) == (True, False)
    assert (await client.ask("tools/call", name="add", arguments={"a": 1, "b": 2}))["error"]["code"] == -32602


async def test_names_and_filters(served: Served) -> None:
    await served.grant(McpServer(program(), name="m", only=["add", "large"], rename={"large": "much"}))
    assert names(served) == {"m__add", "much"}
    await served.grant(McpServer(program(), name="n", exclude=["add", "become"]))
    assert names(served) == {"m__add", "much"} | {f"n__{name}" for name in ALL - {"add", "become"}}
    client = await served.client()
    assert await client.call("much", size=3) == ("xxx", False)
    assert "error" in await client.ask("tools/call", name="n__add", arguments={"a": 1, "b": 2})
    await served.bridge.revoke("n")
    assert names(served) == {"m__add", "much"}
    with pytest.raises(ExistsError):
        await served.grant(McpServer(program(), name="k", only=["add"], rename={"add": "much"}))
    assert names(served) == {"m__add", "much"}


@pytest.mark.parametrize("terms", [{"only": ["ad"]}, {"exclude": ["ad"]}, {"rename": {"ad": "plus"}}])
async def test_names_that_it_has_not(served: Served, terms: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'m' has no tool 'ad'.*add, become, environment"):
        await served.grant(McpServer(program(str(tmp_path)), name="m", **terms))
    assert (names(served), _running(tmp_path)) == (set(), 0)


async def test_several_at_once(served: Served, tmp_path: Path) -> None:
    first, second = (McpServer(program(str(tmp_path)), name=name, only=["add"]) for name in ("m", "n"))
    for _ in range(2):  # and again, in the place of those that are there
        await served.grant(first, second)
        client = await served.client()
        assert [await client.call(f"{name}__add", a=1, b=2) for name in ("m", "n")] == [("3", False)] * 2
        assert _running(tmp_path) == 2
    twin = McpServer(program(str(tmp_path)), name="k", only=["large"])
    with pytest.raises(ExistsError):
        await served.grant(McpServer(program(str(tmp_path)), name="k", only=["add"]), twin)
    assert _running(tmp_path) == 2
    await served.bridge.revoke("m")
    assert (await client.call("n__add", a=1, b=2), _running(tmp_path)) == (("3", False), 1)


async def test_what_a_program_is_given(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "x")
    await served.grant(McpServer(program(), name="m", env={"TOKEN": "t"}, only=["environment"]))
    words, _ = await (await served.client()).call("m__environment")
    assert "SECRET_OF_THE_HOST" not in words
    assert '"TOKEN": "t"' in words


async def test_no_shell(served: Served, tmp_path: Path) -> None:
    with pytest.raises(BridgeError):
        await served.grant(McpServer([f"touch {tmp_path}/x; true"], name="m"))
    with pytest.raises(BridgeError, match="'m' cannot be used"):
        await served.grant(McpServer(["/bin/false"], name="m"))
    assert list(tmp_path.iterdir()) == []
    assert names(served) == set()


@pytest.mark.parametrize(
    "words",
    [
        {"server": []},
        {"server": "ftp://x"},
        {"server": "server.py"},
        {"server": ["x"], "name": "two__parts"},
        {"server": ["x"], "name": ""} | {"server": ["..."]},
        {"server": ["x"], "only": "add"},
        {"server": ["x"], "rename": {"a": "no spaces"}},
    ],
)
def test_servers_that_are_none(words: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        McpServer(**words)  # type: ignore[arg-type]


def test_names_of_servers() -> None:
    assert McpServer(["python3", "-u", "/x/my__server.v2.py", "--port"]).called == "my_server"
    assert McpServer(["/usr/bin/weather-mcp"]).called == "weather-mcp"
    assert McpServer("https://mcp.example.org/sse").called == "mcp"
    assert McpServer("http://127.0.0.1:8000/mcp").called == "localhost"
    assert McpServer("http://[::1]:8000/mcp").called == "localhost"
    assert McpServer("http://10.1.2.3/mcp").called == "10_1_2_3"
    assert McpServer("http://[fd00::1]/mcp").called == "fd00_1"


async def test_progress_and_logs_pass_through(served: Served) -> None:
    await served.grant(McpServer(program(), name="m"))
    client = await served.client()
    meta = {"_meta": {"progressToken": 5}}
    await client.say("tools/call", id=9, name="m__steps", arguments={"count": 2}, **meta)
    heard: list[Any] = []
    while not heard or heard[-1].get("id") != 9:
        heard.append(await client.hear())
    progress = [one["params"]["message"] for one in heard if one.get("method") == "notifications/progress"]
    logs = [one["params"]["data"] for one in heard if one.get("method") == "notifications/message"]
    assert (progress, logs) == (["step 1", "step 2"], ["log 1", "log 2"])
    assert heard[-1]["result"]["content"][0]["text"] == "done"


async def test_cancelling_passes_through(served: Served, tmp_path: Path) -> None:
    left = tmp_path / "left"
    await served.grant(McpServer(program(str(left)), name="m", timeout=60))
    client = await served.client()
    await client.say("tools/call", id=9, name="m__sleep", arguments={"seconds": 60})
    await client.call("m__add", a=1, b=1)  # by now it runs
    await client.say("notifications/cancelled", requestId=9)
    async with asyncio.timeout(30):
        while not left.exists():
            await asyncio.sleep(0.01)
    assert await client.call("m__add", a=1, b=1) == ("2", False)


async def test_limits(served: Served) -> None:
    await served.grant(McpServer(program(), name="m", timeout=1, max_output=1000))
    client = await served.client()
    assert (await client.call("m__sleep", seconds=20))[0].startswith("TIMEOUT")
    answer = await client.ask("tools/call", name="m__large", arguments={"size": 5000})
    assert answer["result"]["content"][0]["text"] == "x" * 1000
    assert answer["result"]["content"][1]["text"].startswith("[cut off: 1000 of ")
    assert "structuredContent" not in answer["result"]
    answer = await client.ask("tools/call", name="m__large", arguments={"size": 5})
    assert answer["result"]["content"][0]["text"] == "xxxxx"


@pytest.mark.parametrize("announced", [True, False])
async def test_a_description_that_changed(served: Served, announced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the server says so, or it is found out."""
    server = McpServer(program(), name="m")
    await served.grant(server)
    client, other = await served.client(), await served.client()
    assert await client.call("m__add", a=5, b=2) == ("7", False)
    await client.call("m__become", announced=announced)
    if not announced:
        monkeypatch.setattr("paddock.bridge.upstream._FRESH", 0.0)
    async with asyncio.timeout(30):
        while "error" not in (answer := await client.ask("tools/call", name="m__add", arguments={"a": 5, "b": 2})):
            await asyncio.sleep(0.01)
    assert answer["error"]["message"] == "tool not found or not authorized"
    listed = (await client.ask("tools/list"))["result"]["tools"]
    assert {tool["name"] for tool in listed} == {f"m__{name}" for name in ALL - {"add"}}
    assert "IGNORE" not in str(listed)
    assert (await other.hear())["method"] == "notifications/tools/list_changed"
    event = await served.event("tool", "changed")
    assert (event.subject, event.denied) == ("m__add", True)
    assert (await client.ask("tools/call", name="m__newcomer", arguments={}))["error"]["code"] == -32602
    assert await client.call("m__large", size=1) == ("x", False)


async def test_granted_anew(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same server, with other words: it is what was granted last that counts."""
    monkeypatch.setattr("paddock.bridge.upstream._FRESH", 0.0)
    server = McpServer(program(), name="m")
    await served.grant(server)
    client = await served.client()
    await client.call("m__become")
    assert "error" in await client.ask("tools/call", name="m__add", arguments={"a": 5, "b": 2})
    await served.grant(server)
    assert await client.call("m__add", a=5, b=2) == ("7", False)


async def test_a_server_that_ends(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.bridge.upstream._FRESH", 1e9)
    await served.grant(McpServer([*program()], name="m"), Tool(os.getpid, name="mine"))
    client = await served.client()
    upstream: Upstream = served.bridge._table._servers["m"]
    upstream._stop.set()
    assert upstream._task is not None
    await asyncio.wait([upstream._task])
    words, failed = await client.call("m__add", a=1, b=2)
    assert (failed, "has ended" in words) == (True, True)
    assert await client.call("mine") == (str(os.getpid()), False)


async def test_programs_end_with_the_bridge(served: Served, tmp_path: Path) -> None:
    await served.grant(McpServer(program(str(tmp_path)), name="m"))
    assert _running(tmp_path) == 1
    await served.bridge.close()
    assert _running(tmp_path) == 0


async def test_a_grant_that_is_given_up_leaves_nothing(served: Served, tmp_path: Path) -> None:
    """While a server starts, and while the one before it in its place is ended."""
    server, ending = McpServer(program(str(tmp_path)), name="m"), asyncio.Event()

    async def close(upstream: Upstream) -> None:
        ending.set()
        await asyncio.sleep(60)

    for pause in (0.0, 0.3):
        granting = asyncio.create_task(served.grant(server))
        await asyncio.sleep(pause)
        granting.cancel()
        await asyncio.wait([granting])
    await served.grant(server)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Upstream, "close", close)
        granting = asyncio.create_task(served.grant(server))
        await ending.wait()
        granting.cancel()
        await asyncio.wait([granting])
    await served.bridge.close()
    async with asyncio.timeout(10):
        while _running(tmp_path):
            await asyncio.sleep(0.05)


async def test_one_that_never_comes_is_not_waited_for(served: Served, tmp_path: Path) -> None:
    granting = asyncio.create_task(served.grant(McpServer(["sleep", "1000"], cwd=tmp_path), McpServer(program())))
    await asyncio.sleep(0.5)
    async with asyncio.timeout(10):
        await served.bridge.close()
    with pytest.raises(ClosedError):
        await granting


async def test_a_server_that_is_killed(served: Served, tmp_path: Path) -> None:
    """A call that is under way hears of it as well as one that comes later; what it had started is gone."""
    await served.grant(McpServer([*parent(tmp_path), *program(str(tmp_path))], name="m"))
    client = await served.client()
    assert await client.call("m__add", a=1, b=2) == ("3", False)
    assert _running(tmp_path) == 2
    await client.say("tools/call", id=9, name="m__sleep", arguments={"seconds": 60})
    await client.call("m__add", a=1, b=1)  # by now it runs
    os.kill(_pids(tmp_path)["server.py"], signal.SIGKILL)
    answer = await client.hear()
    words = "BRIDGE_ERROR: The MCP server 'm' has ended. The host has to grant it again."
    assert (answer["id"], answer["result"]["content"][0]["text"]) == (9, words)
    assert await client.call("m__add", a=1, b=2) == (words, True)
    async with asyncio.timeout(10):
        while _running(tmp_path):
            await asyncio.sleep(0.01)


async def test_what_a_server_started_ends_with_it(served: Served, tmp_path: Path) -> None:
    """Also when the server goes at once, as it is asked to."""
    await served.grant(McpServer([*parent(tmp_path), *program(str(tmp_path))], name="m"))
    assert _running(tmp_path) == 2
    await served.bridge.close()
    assert _running(tmp_path) == 0


async def test_a_server_ends_with_a_program_that_is_killed(tmp_path: Path) -> None:
    """It does not even look at its input."""
    deaf = [sys.executable, "-c", DEAF, str(tmp_path)]
    script = f"""
import asyncio
from paddock import McpServer
from paddock.bridge.upstream import Upstream
asyncio.run(Upstream(McpServer({deaf!r}, name="m")).start())
"""
    granting = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    async with asyncio.timeout(60):
        while not _running(tmp_path):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.5)  # by now it is what it became
        granting.kill()
        await granting.wait()
        while _running(tmp_path):
            await asyncio.sleep(0.01)


async def test_giving_up_on_one_that_does_not_answer_takes_no_time(served: Served, tmp_path: Path) -> None:
    deaf = McpServer([sys.executable, "-c", DEAF, str(tmp_path)], name="m")
    granting = asyncio.create_task(served.grant(deaf))
    while not _running(tmp_path):
        await asyncio.sleep(0.01)
    await asyncio.sleep(1)
    started = time.monotonic()
    granting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await granting
    assert time.monotonic() - started < 1.5
    assert _running(tmp_path) == 0


async def test_nor_on_a_url_that_does_not(served: Served) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        granting = asyncio.create_task(served.grant(McpServer(f"http://127.0.0.1:{silent.getsockname()[1]}/")))
        await asyncio.sleep(1)
        started = time.monotonic()
        granting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await granting
        assert time.monotonic() - started < 1.5


async def test_as_long_as_is_said_and_no_longer(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paddock.bridge.upstream._SECONDS_TO_START", 1.0)
    started = time.monotonic()
    with pytest.raises(BridgeError, match=r"did not answer for 1 seconds\. It said: I hear nothing"):
        await served.grant(McpServer([sys.executable, "-c", DEAF, str(tmp_path)], name="m"))
    assert 1.0 <= time.monotonic() - started < 3.0
    assert _running(tmp_path) == 0


async def test_what_a_program_says_itself(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    """The last of it is in the error, and all of it in the log, as far as that is reasonable."""
    caplog.set_level(logging.INFO, "paddock.bridge")
    failing = "import sys; print('first', file=sys.stderr); sys.exit('no module \x1b[31m named x')"
    with pytest.raises(BridgeError) as caught:
        await served.grant(McpServer([sys.executable, "-c", failing], name="m"))
    assert "its program ended with exit code 1. It said: first | no module \\x1b[31m named x" in str(caught.value)
    assert "the MCP server m: first" in caplog.messages
    caplog.clear()
    flood = "import sys; [print('x' * 5000, file=sys.stderr) for _ in range(5000)]"
    with pytest.raises(BridgeError):
        await served.grant(McpServer([sys.executable, "-c", flood], name="m"))
    said = [message for message in caplog.messages if message.startswith("the MCP server m")]
    assert len(said) == 201
    assert max(map(len, said)) < 600
    with pytest.raises(BridgeError, match="there is no such program"):
        await served.grant(McpServer(["no-such-program-at-all"], name="m"))


PARENT = """
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", sys.argv[1]])
os.execv(sys.argv[2], sys.argv[2:])
"""
DEAF = """
import sys, time
print("I hear nothing", file=sys.stderr, flush=True)
time.sleep(1000)
"""


def parent(mark: Path) -> list[str]:
    """A server that starts something, which keeps its pipes open."""
    return [sys.executable, "-c", PARENT, str(mark)]


def _pids(mark: Path) -> dict[str, int]:
    """The numbers of the processes with this mark, by the script that they run."""
    found = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                words = (directory / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if os.fsencode(mark) in words:
                found[next((Path(os.fsdecode(w)).name for w in words if w.endswith(b".py")), "")] = int(directory.name)
    return found


LIAR = """
import json, sys
asked = 0
for line in sys.stdin:
    said = json.loads(line)
    if "id" not in said:
        continue
    if said["method"] == "initialize":
        info = {"name": "liar", "version": "1"}
        result = {"protocolVersion": said["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    elif said["method"] == "tools/list":
        asked += 1
        if asked > 1 and sys.argv[1] == "silent":
            continue
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("a", "b", "c")]
        is_lie = sys.argv[1] == "lies" or (asked > 1 and sys.argv[1] == "lies later")
        result = {"tools": [{"name": 5}] if is_lie else tools}
    else:
        result = {"content": [{"type": "text", "text": "", "_meta": {"x": "y" * 5000}}] * 2}
    print(json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": result}), flush=True)
"""


def liar(how: str, **terms: Any) -> McpServer:
    return McpServer([sys.executable, "-c", LIAR, how], name="liar", **terms)


async def test_one_that_does_not_speak_the_protocol(served: Served) -> None:
    with pytest.raises(BridgeError, match="'liar' cannot be used: what it answers is not MCP"):
        await served.grant(liar("lies"))
    assert names(served) == set()


@pytest.mark.parametrize("how", ["silent", "lies later"])
async def test_one_that_does_not_say_what_it_has_holds_up_nobody(
    served: Served, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paddock.bridge.upstream._SECONDS_TO_LIST", 1.0)
    await served.grant(Tool(os.getpid, name="mine"), liar(how))
    served.bridge._table._servers["liar"]._looked = 0.0
    client, started = await served.client(), time.monotonic()
    for _ in range(3):
        answer = await client.ask("tools/list")
        assert {tool["name"] for tool in answer["result"]["tools"]} == {"mine", "liar__a", "liar__b", "liar__c"}
    assert time.monotonic() - started < 2.5  # one wait for all of its tools, and for all who ask
    assert await client.call("mine") == (str(os.getpid()), False)


async def test_what_is_said_besides_counts_too(served: Served) -> None:
    await served.grant(liar("no", max_output=1000))
    answer = await (await served.client()).ask("tools/call", name="liar__a", arguments={})
    assert len(json.dumps(answer)) < 1500
    assert answer["result"]["content"][-1]["text"].startswith("[cut off: 0 of 10")


async def test_a_preview_leaves_nothing(tmp_path: Path) -> None:
    grants = await preview([McpServer(program(str(tmp_path)), name="m", only=["add"])])
    assert [grant.name for grant in grants] == ["m__add"]
    assert _running(tmp_path) == 0


def _running(mark: Path) -> int:
    found = 0
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                found += os.fsencode(mark) in (directory / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
    return found


@pytest_asyncio.fixture
async def url() -> AsyncIterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = program("--port", str(port))
    process = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.DEVNULL)
    try:
        async with asyncio.timeout(60):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.05)
                    continue
                writer.close()
                break
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        await process.wait()


async def test_a_url(served: Served, url: str) -> None:
    await served.grant(McpServer(url, name="web", headers={"Authorization": "Bearer token"}, only=["add", "steps"]))
    client = await served.client()
    assert await client.call("web__add", a=1, b=2) == ("3", False)
    meta = {"_meta": {"progressToken": 5}}
    await client.say("tools/call", id=9, name="web__steps", arguments={"count": 1}, **meta)
    heard: list[Any] = []
    while not heard or heard[-1].get("id") != 9:
        heard.append(await client.hear())
    assert "step 1" in str(heard)
    with pytest.raises(BridgeError):
        await served.grant(McpServer(url.replace("/mcp", "/nothing"), name="gone"))
