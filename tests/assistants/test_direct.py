"""Assistants without an agent: the model is asked by the same gateway, and tools run on the host."""

import asyncio
import json
from pathlib import Path

import pytest

from assistants.conftest import EXAMPLES, Staged
from paddock import Allowance, Gateway
from paddock.assistants import Assistants, Upload
from paddock.assistants.assistant import Assistant
from paddock.gateway.translate import Wire
from paddock.runners import Done, Failed, Started, Text, Thinking, ToolCall, ToolResult, Usage
from paddock.testing import Fail, FakeModel, Say, Think, Tokens, Use, Wait

TOOLS = """
    from paddock import BridgeError

    async def add(a: int, b: int) -> int:
        "Adds."
        return a + b

    def broken() -> str:
        "Fails."
        raise BridgeError("out of order")
"""
PROMPTS = """
    system: You help {{user}} on {{date}}.
    examples:
      - {user: ping, assistant: pong}
"""
FILES = {"assistant_yml": "tools: [tools.py:add, tools.py:broken]", "tools_py": TOOLS, "prompts_yml": PROMPTS}


@pytest.mark.parametrize("wire", ["anthropic", "chat", "responses"])
async def test_the_model_is_asked_and_the_host_runs_tools(staged: Staged, wire: Wire) -> None:
    script = [
        [Think("hm"), Say("Let me see.", pieces=2), Use("add", {"a": 2, "b": 3}), Tokens(10, 5)],
        [Say("It is 5."), Tokens(20, 7)],
    ]
    hooks = "async def create(ctx, messages):\n    assert ctx.sandbox is None\n"
    async with staged(script, connector={"wire": wire}, a=dict(FILES, hooks_py=hooks)) as stage:
        assert await stage.done("what is 2 + 3?") == "It is 5."
        assert stage.of(Started) == [Started("direct", model="fake-model")]
        assert [(call.name, dict(call.input)) for call in stage.of(ToolCall)] == [("add", {"a": 2, "b": 3})]
        assert [(result.output, result.failed) for result in stage.of(ToolResult)] == [("5", False)]
        assert "".join(event.text for event in stage.of(Text)) == "Let me see.\n\nIt is 5."
        if wire != "responses":
            assert "".join(event.text for event in stage.of(Thinking)) == "hm"
        done = stage.events[-1]
        assert isinstance(done, Done)
        assert (done.usage.input, done.usage.output, done.turns) == (30, 12, 2)
        assert sum(stage.of(Usage), Usage()) == done.usage
        asked = json.dumps(stage.model.requests[0].body)
        assert "You help ann on 20" in asked
        assert asked.index("ping") < asked.index("pong") < asked.index("what is 2 + 3?")
        assert await stage.done("and now?") == "It is 5."
        assert "what is 2 + 3?" in json.dumps(stage.model.requests[-1].body)
        assert await stage.manager.list() == []


async def test_three_tries(staged: Staged) -> None:
    """A tool that fails is told to the model; the third time in a row is the last. One that works in between begins anew."""
    again = [Use("broken"), Use("broken"), Use("add", {"a": 1, "b": 1}), Use("broken"), Use("broken"), Say("well")]
    async with staged(again, a=FILES) as stage:
        assert await stage.done("go") == "well"
    async with staged([Use("broken")] * 3 + [Say("never said")], a=FILES) as stage:
        error = await stage.failed("go", chat="2")
        assert (error.kind, len(stage.model.requests)) == ("tools", 3)
        assert "out of order" in str(error)
        assert [result.failed for result in stage.of(ToolResult)] == [True] * 3
        assert await stage.service.messages("a", user="ann", chat="2") == []


async def test_arguments_that_do_not_fit_are_told(staged: Staged) -> None:
    script = [Use("add", {"a": "x", "b": 1}), Use("add", {"a": 1, "b": 1}), Say("2")]
    async with staged(script, a=FILES) as stage:
        assert await stage.done("go") == "2"
        first, second = stage.of(ToolResult)
        assert "do not fit" in first.output
        assert (first.failed, second.output) == (True, "2")


async def test_turns_have_a_bound(staged: Staged) -> None:
    yml = "tools: [tools.py:add]\nsandbox: {arguments: {max_turns: 2}}"
    script = [Use("add", {"a": 1, "b": 1})] * 3
    async with staged(script, a=dict(FILES, assistant_yml=yml)) as stage:
        assert (await stage.failed("go")).kind == "max_turns"


async def test_a_provider_that_fails(staged: Staged) -> None:
    async with staged([Fail(401, "wrong key"), [Say("half"), Fail(529)]], a=FILES) as stage:
        error = await stage.failed("go")
        assert (error.kind, error.status) == ("api", 401)
        assert "wrong key" in str(error)
        assert (await stage.failed("go")).kind == "api"
        assert await stage.put_away()


async def test_time_and_interrupts(staged: Staged) -> None:
    yml = "sandbox: {timeout: 0.3s}"
    async with staged([[Say("so"), Wait(30), Say("late")]], a={"assistant_yml": yml}, b={}) as stage:
        assert (await stage.failed("go")).kind == "timeout"
        run = stage.service.request("b", "go", user="ann", chat="1")
        async for event in run:
            if isinstance(event, Text):
                run.interrupt()
        assert isinstance(event, Failed)
        assert event.error.kind == "interrupted"
        task = asyncio.ensure_future(stage.service.execute("b", "go", user="ann", chat="1"))
        while len(stage.model.requests) < 3:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_it_is_counted_like_everything_else(tmp_path: Path) -> None:
    """Who has used up an allowance is refused, and another user is not."""
    one = Assistant("one", str(tmp_path))
    async with FakeModel([Say("hi")]) as model:
        connector = model.connector(model="fake-model")
        ledger = tmp_path / "usage.sqlite"
        async with Gateway(connector, per_user=Allowance(requests=1), ledger=ledger) as gateway:
            async with Assistants(one, gateway=gateway) as service:
                assert (await service.execute("one", "hi", user="ann", chat="1")).text == "hi"
                run = service.request("one", "hi", user="ann", chat="2")
                last = [event async for event in run][-1]
                assert isinstance(last, Failed)
                assert (last.error.kind, last.error.status) == ("api", 429)
                assert (await service.execute("one", "hi", user="bob", chat="1")).text == "hi"
            totals = await gateway._ledger.totals("chat")
            assert {(total.group, total.requests) for total in totals} == {("1", 2)}


async def test_pictures_and_texts_go_to_the_model(staged: Staged) -> None:
    async with staged(a={}) as stage:
        content = [
            {"type": "text", "text": "look"},
            Upload("a.png", b"png", "image/png").part,
            Upload("a.md", b"# text", "text/markdown").part,
            Upload("a.bin", b"bin").part,
        ]
        await stage.done([{"role": "user", "content": content}])
        (message,) = stage.model.requests[0].body["messages"]
        kinds = [block["type"] for block in message["content"]]
        assert kinds == ["text", "image", "text", "text"]
        assert "# text" in message["content"][2]["text"]
        assert message["content"][3]["text"] == "[Attachment: a.bin (application/octet-stream, 3 B)]"


async def test_a_server_of_its_own(staged: Staged) -> None:
    """An MCP server is a program in the assistant's folder; it gets its variables, and ends with the request."""
    yml = "mcp: {tickets: {command: [python3, echo_server.py], env: {GREETING: $ENV.HOME}}}"
    server = (EXAMPLES / "full" / "echo_server.py").read_text()
    script = [Use("tickets__echo", {"text": "x"}), Say("ok")]
    async with staged(script, a={"assistant_yml": yml, "echo_server_py": server}) as stage:
        assert await stage.done("go") == "ok"
        (result,) = stage.of(ToolResult)
        assert result.output == f"x (from {Path.home()})"


async def test_skills_are_read_by_a_tool(staged: Staged) -> None:
    skill = "---\nname: style\ndescription: How we write.\n---\n\nShort sentences.\n"
    script = [Use("read_skill", {"name": "style"}), Use("read_skill", {"name": "none"}), Say("ok")]
    async with staged(script, a={"skills__style__SKILL_md": skill}) as stage:
        assert await stage.done("go") == "ok"
        first, second = stage.of(ToolResult)
        assert (first.output, first.failed) == (skill, False)
        assert ("no skill 'none'" in second.output, second.failed) == (True, True)
        assert "How we write." in json.dumps(stage.model.requests[0].body["system"])
