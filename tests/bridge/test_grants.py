"""What is granted, to whom, and on which terms."""

import asyncio
import contextlib
import json
import threading
import time
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import pytest
from mcp_types import CallToolResult

from bridge.conftest import Served
from paddock import ApprovalRequest, BridgeError, ConfigError, ExistsError, McpServer, NotFoundError, OutsideError, Tool
from paddock.bridge import Caller, ToolContext
from paddock.bridge.grants import as_grantable
from paddock.consent import initiator


def echo(text: str) -> str:
    """Say it again."""
    return text


async def test_schemas(served: Served) -> None:
    def find(where: str, kind: Literal["file", "dir"] = "file", depth: int | None = None, *, all: bool = False) -> str:
        """Find things.

        Everywhere.
        """
        return f"{where} {kind} {depth} {all}"

    await served.grant(find)
    (grant,) = served.bridge.grants
    assert grant.description == "Find things.\n\nEverywhere."
    properties = grant.schema["properties"]
    assert grant.schema["required"] == ["where"]
    assert properties["kind"]["enum"] == ["file", "dir"]
    assert properties["all"] == {"default": False, "title": "All", "type": "boolean"}
    client = await served.client()
    assert await client.call("find", where="/", depth=2, all=True) == ("/ file 2 True", False)


async def test_arguments_that_do_not_fit_are_a_failure_to_read(served: Served) -> None:
    called = []

    def count(number: int) -> str:
        called.append(number)
        return "ok"

    await served.grant(count)
    client = await served.client()
    words, failed = await client.call("count", number="a secret word")
    assert failed
    assert "number" in words
    assert "secret" not in words
    assert await client.call("count") == ("The arguments do not fit.\nnumber: Field required", True)
    assert not called
    assert await client.call("count", number=3) == ("ok", False)


async def test_parameters_without_a_hint_may_be_anything(served: Served) -> None:
    def kinds(a, b=1):  # type: ignore[no-untyped-def]
        return f"{type(a).__name__} {type(b).__name__}"

    await served.grant(kinds)
    (grant,) = served.bridge.grants
    assert not any("type" in told for told in grant.schema["properties"].values())
    assert grant.schema["required"] == ["a"]
    client = await served.client()
    assert await client.call("kinds", a={"x": [1]}) == ("dict int", False)
    assert await client.call("kinds", a=2.5, b="text") == ("float str", False)


async def test_arguments_that_there_are_not(served: Served) -> None:
    await served.grant(echo)
    client = await served.client()
    words, failed = await client.call("echo", text="a", txet="b")
    assert (failed, words) == (True, "The arguments do not fit.\nThere is no txet. There is: text.")
    assert served.bridge.grants[0].schema["additionalProperties"] is False


async def test_what_a_tool_says_is_all_that_is_said(served: Served) -> None:
    def fail(hint: str | None = None) -> str:
        raise BridgeError("There is no such city.", hint=hint)

    await served.grant(fail)
    client = await served.client()
    assert await client.call("fail") == ("BRIDGE_ERROR: There is no such city.", True)
    assert await client.call("fail", hint="Try Rome.") == ("BRIDGE_ERROR: There is no such city. Try Rome.", True)


@pytest.mark.parametrize("kind", ["sync", "async", "partial", "object"])
async def test_kinds_of_functions(served: Served, kind: str) -> None:
    threads = []

    def plain(x: int) -> int:
        threads.append(threading.current_thread())
        return x + 1

    async def on_the_loop(x: int) -> int:
        threads.append(threading.current_thread())
        return x + 1

    class Callable:
        async def __call__(self, x: int) -> int:
            threads.append(threading.current_thread())
            return x + 1

    given: Any = {"sync": plain, "async": on_the_loop, "partial": partial(on_the_loop), "object": Callable()}[kind]
    await served.grant(Tool(given, name="add"))
    assert await (await served.client()).call("add", x=1) == ("2", False)
    assert (threads[0] is threading.main_thread()) == (kind != "sync")


@pytest.mark.parametrize("bad", [7, "text", None, object()])
async def test_what_is_no_tool(bad: Any) -> None:
    with pytest.raises(ConfigError):
        as_grantable(bad)


def test_a_server_shows_none_of_its_tokens() -> None:
    """Wherever it is printed, by a traceback or a log."""
    program = McpServer(["server"], name="mine", env={"TOKEN": "hush"})
    address = McpServer("https://example.com/mcp", headers={"Authorization": "Bearer hush"})
    assert "hush" not in f"{program!r}{address!r}"
    assert "mine" in repr(program)
    assert "example.com" in repr(address)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: Tool(lambda x: x),
        lambda: Tool(echo, name="no spaces"),
        lambda: Tool(echo, name="x" * 129),
        lambda: Tool(echo, timeout=0),
        lambda: Tool(echo, timeout=float("inf")),
        lambda: Tool(echo, max_output=0),
        lambda: Tool(echo, consent="maybe"),  # type: ignore[arg-type]
    ],
)
def test_terms_that_are_none(bad: Any) -> None:
    with pytest.raises(ConfigError):
        bad()


async def test_functions_that_no_schema_describes(served: Served) -> None:
    def many(*words: str) -> str:
        return ""

    def any_of(**words: str) -> str:
        return ""

    def only(words: str, /) -> str:
        return ""

    def odd(what: threading.Thread) -> str:
        return ""

    for function in (many, any_of, only, odd):
        with pytest.raises(ConfigError, match="cannot be a tool"):
            await served.grant(function)
    assert served.bridge.grants == ()


async def test_all_or_nothing(served: Served) -> None:
    with pytest.raises(ExistsError):
        await served.grant(echo, Tool(echo))
    assert not served.bridge.grants
    await served.grant(echo, Tool(echo, name="again"))
    assert [grant.name for grant in served.bridge.grants] == ["again", "echo"]


async def test_granting_again_takes_the_old_ones_place(served: Served) -> None:
    await served.grant(echo)
    await served.grant(Tool(lambda: "another", name="echo"))
    assert await (await served.client()).call("echo") == ("another", False)


async def test_failures_say_little_unless_they_are_meant_to_be_read(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    def crash() -> str:
        raise ValueError("/home/ann/.ssh/id_rsa")

    async def leave() -> str:
        raise SystemExit(3)

    def explain() -> str:
        raise OutsideError("That is not reachable.", path="/etc")

    def own() -> str:
        raise BridgeError("The door is shut.", hint="Knock.")

    await served.grant(crash, leave, explain, own)
    client = await served.client()
    assert await client.call("crash") == ("FAILED: the tool failed (ValueError). The host's log has more.", True)
    assert "id_rsa" in caplog.text
    assert (await client.call("leave"))[1]
    assert await client.call("own") == ("BRIDGE_ERROR: The door is shut. Knock.", True)
    words, failed = await client.call("explain")
    assert (words.startswith("OUTSIDE: That is not reachable."), failed) == (True, True)


class Odd(BaseException):
    """What no tool should raise."""


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("kind", [Odd, SystemExit, GeneratorExit, asyncio.CancelledError, StopIteration])
async def test_whatever_is_raised_is_that_calls_alone(
    served: Served, kind: type[BaseException], is_async: bool
) -> None:
    async def later() -> str:
        raise kind

    def now() -> str:
        raise kind

    go = asyncio.Event()

    async def wait() -> str:
        await go.wait()
        return "done"

    await served.grant(Tool(later if is_async else now, name="bad"), wait)
    client = await served.client()
    await client.say("tools/call", id="waits", name="wait", arguments={})
    words, failed = await client.call("bad")
    assert (words.startswith("FAILED: the tool failed ("), failed) == (True, True)
    assert (await served.event("tool", "call", subject="bad")).outcome == "FAILED"
    go.set()
    assert (await client.hear())["result"]["content"][0]["text"] == "done"


async def test_an_interrupt_of_a_thread_is_none_of_the_programs(served: Served) -> None:
    def interrupt() -> str:
        raise KeyboardInterrupt

    await served.grant(interrupt, echo)
    client = await served.client()
    assert (await client.call("interrupt"))[1]
    assert await client.call("echo", text="x") == ("x", False)


@pytest.mark.parametrize(
    "given",
    [
        {"content": [], "structured_content": {"x": object()}},
        {"content": [], "structured_content": {"x": "\ud800"}},
        {"content": [{"type": "text", "text": "x", "_meta": {"x": "\ud800"}}]},
        {"content": [], "_meta": {"x": "\ud800"}},
    ],
)
async def test_what_cannot_be_passed_on_is_a_failure(served: Served, given: dict[str, Any]) -> None:
    def odd() -> Any:
        return CallToolResult(**given)

    await served.grant(odd)
    assert (await (await served.client()).call("odd"))[1]
    assert (await served.event("tool", "call")).outcome == "FAILED"


@pytest.mark.parametrize(
    "given",
    [
        {"content": [{"type": "text", "text": "x", "_meta": {"x": "y" * 1000}}]},
        {"content": [{"type": "text", "text": "x"}], "_meta": {"x": "y" * 1000}},
        {"content": [{"type": "text", "text": ""}] * 10_000},
    ],
)
async def test_nothing_gets_past_an_output_limit(served: Served, given: dict[str, Any]) -> None:
    def odd() -> Any:
        return CallToolResult(**given)

    await served.grant(Tool(odd, max_output=500))
    answer = await (await served.client()).ask("tools/call", name="odd", arguments={})
    assert answer["result"]["content"][-1]["text"].startswith("[cut off: ")
    assert len(json.dumps(answer)) < 100_000


async def test_who_asks_is_known_by_the_connection() -> None:
    """Two sandboxes of the same chat id; whatever a message says."""

    def who(context: ToolContext, user: str = "", chat: str = "") -> list[str | None]:
        return [context.sandbox, context.user, context.chat, context.tool, context.call]

    sandboxes = [Served(Caller("sb-1", "ann", "c")), Served(Caller("sb-2", "bob", "c"))]
    for one in sandboxes:
        await one.grant(who)
    clients = [await one.client() for one in sandboxes]
    assert "context" not in str((await clients[0].ask("tools/list"))["result"])
    lies = {"user": "root", "chat": "other"}
    said = [await client.call("who", **lies) for client in clients]
    assert said[0][0] == '["sb-1","ann","c","who","c1.1"]'
    assert said[1][0] == '["sb-2","bob","c","who","c1.1"]'
    meta = {"_meta": {"user": "root", "sandbox": "sb-2"}}
    again = await clients[0].ask("tools/call", name="who", arguments={}, **meta)
    assert again["result"]["content"][0]["text"] == '["sb-1","ann","c","who","c1.2"]'
    for lie in ({"context": {"user": "root"}}, {"sandbox": "sb-2"}):
        assert (await clients[0].call("who", **lie))[1]
    for one in sandboxes:
        await one.bridge.close()


async def test_grants_are_one_sandboxes_own() -> None:
    one, other = Served(Caller("sb-1")), Served(Caller("sb-2"))
    await one.grant(echo)
    assert (await (await other.client()).ask("tools/list"))["result"]["tools"] == []
    assert "error" in await (await other.client()).ask("tools/call", name="echo", arguments={"text": "x"})
    assert await (await one.client()).call("echo", text="x") == ("x", False)
    await one.bridge.close()
    await other.bridge.close()


async def test_everything_is_begun_by_a_model(served: Served) -> None:
    async def here() -> str:
        return await asyncio.create_task(_later())

    async def _later() -> str:
        return initiator()

    await served.grant(here, Tool(initiator, name="in_a_thread"))
    client = await served.client()
    assert [await client.call(name) for name in ("here", "in_a_thread")] == [("model", False)] * 2
    assert initiator() == "host"


async def test_changes_are_announced(served: Served) -> None:
    await served.grant(echo)
    client, quiet = await served.client(), served.dial()
    await served.grant(Tool(echo, name="more"))
    assert await client.hear() == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    assert len((await client.ask("tools/list"))["result"]["tools"]) == 2
    await served.bridge.revoke("more")
    assert (await client.hear())["method"] == "notifications/tools/list_changed"
    assert "error" in await client.ask("tools/call", name="more", arguments={"text": "x"})
    assert await client.call("echo", text="x") == ("x", False)
    assert (await quiet.ask("ping"))["result"] == {}  # who has not begun is told nothing
    with pytest.raises(NotFoundError):
        await served.bridge.revoke("more")


async def test_revoked_while_it_runs(served: Served) -> None:
    running, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        running.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return "never"

    await served.grant(wait, echo)
    client = await served.client()
    await client.say("tools/call", id=9, name="wait", arguments={})
    await running.wait()
    await served.bridge.revoke("wait")
    while (answer := await client.hear()).get("id") != 9:
        pass
    assert answer["result"]["isError"]
    assert answer["result"]["content"][0]["text"] == "NOT_AUTHORIZED: the tool was revoked."
    assert ended.is_set()
    assert (await served.event("tool", "call", subject="wait")).denied
    assert await client.call("echo", text="x") == ("x", False)


async def test_one_that_will_not_stop_is_revoked_all_the_same(served: Served) -> None:
    async def stubborn() -> str:
        for _ in range(14):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.5)
        return "done"

    await served.grant(stubborn)
    client = await served.client()
    await client.say("tools/call", id="call", name="stubborn", arguments={})
    await asyncio.sleep(0.2)
    await served.bridge.revoke("stubborn")
    async with asyncio.timeout(5):
        while (answer := await client.hear()).get("id") != "call":
            pass
    assert answer["result"]["content"][0]["text"] == "NOT_AUTHORIZED: the tool was revoked."


async def test_a_time_limit(served: Served) -> None:
    ended = []

    async def wait(seconds: float) -> str:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            ended.append(seconds)
            raise
        return "in time"

    def hang(seconds: float) -> str:
        time.sleep(seconds)
        return "in time"

    await served.grant(Tool(wait, timeout=1), Tool(hang, timeout=1))
    client = await served.client()
    for name in ("wait", "hang"):
        assert await client.call(name, seconds=0) == ("in time", False)
        words = "TIMEOUT: the tool took longer than 1 seconds."
        assert await client.call(name, seconds=3) == (words, True)
        assert (await served.event("tool", "call", subject=name, outcome="TIMEOUT")).duration >= 1
    assert ended == [3]


async def test_an_output_limit(served: Served) -> None:
    def much(size: int, letter: str = "x") -> str:
        return letter * size

    await served.grant(Tool(much, max_output=100))
    client = await served.client()
    assert await client.call("much", size=100) == ("x" * 100, False)
    answer = await client.ask("tools/call", name="much", arguments={"size": 101})
    assert [one["text"] for one in answer["result"]["content"]] == ["x" * 100, "[cut off: 100 of 101 bytes]"]
    answer = await client.ask("tools/call", name="much", arguments={"size": 51, "letter": "é"})
    assert [one["text"] for one in answer["result"]["content"]] == ["é" * 50, "[cut off: 100 of 102 bytes]"]
    assert not answer["result"]["isError"]


@dataclass
class Person:
    """Somebody who is asked."""

    answer: bool
    asked: list[ApprovalRequest]

    async def __call__(self, request: ApprovalRequest) -> bool:
        self.asked.append(request)
        return self.answer


@pytest.mark.parametrize("answer", [True, False])
async def test_somebody_is_asked(answer: bool) -> None:
    person = Person(answer, [])
    served = Served(Caller("sb-1"), person)
    await served.grant(Tool(echo, consent="ask"), Tool(echo, name="free"))
    client = await served.client()
    words, failed = await client.call("echo", text="x")
    assert (failed, words == "x") == (not answer, answer)
    (request,) = person.asked
    assert (request.action, request.subject, request.initiator, request.sandbox) == ("tool", "echo", "model", "sb-1")
    await client.call("echo", text="y")
    assert person.asked[0].digest != person.asked[1].digest
    assert await client.call("free", text="x") == ("x", False)
    assert len(person.asked) == 2
    assert person.asked[0].summary == 'A model calls echo with {"text": "x"}'
    await client.call("echo", text="x" * 10_000)
    assert person.asked.pop().summary.endswith("x … and 6012 characters more that are not shown")
    outcome = "ok" if answer else "NOT_AUTHORIZED"
    assert (await served.event("approval", "tool")).outcome == outcome
    await served.bridge.close()


@pytest.mark.parametrize(("policy", "agreed"), [(None, False), ("deny-all", False), ("approve-all", True)])
async def test_nobody_to_ask(policy: Any, agreed: bool) -> None:
    served = Served(Caller("sb-1"), policy)
    await served.grant(Tool(echo, consent="ask"))
    words, failed = await (await served.client()).call("echo", text="x")
    assert failed is not agreed
    assert words.startswith("x" if agreed else "NOT_AUTHORIZED")
    await served.bridge.close()


async def test_progress_and_logs(served: Served) -> None:
    def work(context: ToolContext) -> str:
        for step in range(3):
            context.report_progress(step, 3, f"step {step}")
        context.report_progress(float("nan"))
        context.log("a detail", "debug")
        context.log("careful", "warning")
        return "done"

    await served.grant(work)
    client = await served.client()
    meta = {"_meta": {"progressToken": "mine"}}
    await client.say("tools/call", id=9, name="work", arguments={}, **meta)
    heard = [await client.hear() for _ in range(5)]
    assert [message["params"] for message in heard[:3]] == [
        {"progressToken": "mine", "progress": step, "total": 3, "message": f"step {step}"} for step in range(3)
    ]
    assert heard[3]["params"] == {"level": "warning", "logger": "tool", "data": "careful"}
    assert heard[4]["id"] == 9
    assert "error" not in await client.ask("logging/setLevel", level="error")
    await client.say("tools/call", id=10, name="work", arguments={})
    assert (await client.hear())["id"] == 10  # who gave no token and wants no warnings hears the result


async def test_cancelling(served: Served) -> None:
    running, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        running.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return "never"

    await served.grant(wait, echo)
    client = await served.client()
    await client.say("tools/call", id=9, name="wait", arguments={})
    await running.wait()
    await client.say("notifications/cancelled", requestId=9)
    async with asyncio.timeout(30):
        await ended.wait()
    assert await client.call("echo", text="x") == ("x", False)  # and no answer came before it
    assert (await served.event("tool", "call", subject="wait")).outcome == "CANCELLED"


async def test_events_have_sizes_and_no_contents(served: Served) -> None:
    await served.grant(echo)
    client = await served.client()
    await client.call("echo", text="a secret")
    event = await served.event("tool", "call")
    assert (event.subject, event.outcome, event.target) == ("echo", "ok", "c1.1")
    assert event.size == len('{"text": "a secret"}') + len("a secret")
    assert event.duration > 0
    assert "secret" not in str(event)
    await client.connection.end()
    closed = await served.event("connection", "bridge")
    assert (closed.subject, closed.outcome, closed.count) == ("c1", "ok", 3)
    assert (closed.size or 0) > 100
