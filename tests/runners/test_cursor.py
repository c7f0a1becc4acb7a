"""Cursor's agent, against a program that speaks as it is documented to."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from paddock import AgentError, ConfigError, Sandbox
from paddock.runners import (
    Done,
    Event,
    Failed,
    Log,
    Message,
    Options,
    Program,
    Runner,
    Sessions,
    Started,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    agents,
)
from paddock.runners.agent import Inside, Launch, Task
from paddock.runners.agents.cursor import Cursor, CursorReader
from paddock.runners.messages import conversation
from paddock.types.mounts import Mount
from runners.conftest import left_running

KEY = "crsr-not-a-real-one"
PLACE = "/opt/agents/cursor"
PROGRAM = Program(
    "cursor", ("python3", f"{PLACE}/cursor_stand_in.py"), (Mount(Path(__file__).parent, PLACE),), "cursor_stand_in.py"
)


@pytest.fixture
async def sb() -> AsyncIterator[Sandbox]:
    async with Sandbox.create(mounts=PROGRAM.mounts) as sandbox:
        yield sandbox
        assert await left_running(sandbox) == []


def of(events: list[Event], *kinds: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kinds)]


def read(*lines: dict[str, Any]) -> list[Event]:
    reader = CursorReader()
    return [event for line in lines for event in reader.feed(line)]


def launched(prompt: str = "Do it.", resume: str | None = None, bridge: tuple[str, ...] = (), **options: Any) -> Launch:
    inside = Inside("/home/agent", "/workspace", ("cursor-agent",), bridge)
    return Cursor().launch(Task(conversation(prompt), Options(**options), inside, "a-session", resume))


# What its lines mean


INIT = {"type": "system", "subtype": "init", "session_id": "s", "model": "Auto", "apiKeySource": "env"}
END = {"type": "result", "subtype": "success", "is_error": False, "session_id": "s", "result": "all of it"}


def assistant(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": words}]}, **more}


def tool(call: dict[str, Any], subtype: str = "started") -> dict[str, Any]:
    return {"type": "tool_call", "subtype": subtype, "call_id": "call_1\nfc_1", "tool_call": call}


def test_pieces_and_their_repetition() -> None:
    """Each text once, whether its repetition comes before a tool, or at the end with all of it."""
    args = {"path": "a.txt"}
    events = read(
        INIT,
        {"type": "thinking", "subtype": "delta", "text": "Hm."},
        {"type": "thinking", "subtype": "completed"},
        assistant("I lo", timestamp_ms=1),
        assistant("ok.\n", timestamp_ms=2),
        assistant("I look.\n", timestamp_ms=3, model_call_id="m"),
        tool({"readToolCall": {"args": args}}),
        tool(
            {"readToolCall": {"args": args, "result": {"success": {"content": "inside", "totalLines": 1}}}}, "completed"
        ),
        assistant("Done.", timestamp_ms=4),
        assistant("Done."),
        assistant("I look.\n\nDone."),
        {**END, "usage": {"inputTokens": 7, "outputTokens": 3, "cacheReadTokens": 2}},
    )
    assert events == [
        Started("cursor", "s", "Auto"),
        Thinking("Hm."),
        Text("I lo"),
        Text("ok.\n"),
        ToolCall("call_1\nfc_1", "read", args),
        ToolResult("call_1\nfc_1", "inside"),
        Text("\nDone."),
        Usage(7, 3, 2),
        Done("Done.", "s", "Auto", Usage(7, 3, 2)),
    ]


def test_whole_messages() -> None:
    """As it speaks without pieces: the same words twice are said twice."""
    assert of(read(INIT, assistant("Ok."), tool({"x": {}}), assistant("Ok."), END), Text) == [
        Text("Ok."),
        Text("\n\nOk."),
    ]
    late = read(INIT, assistant("First.", timestamp_ms=1), assistant("Another."), END)
    assert of(late, Text) == [Text("First."), Text("\n\nAnother.")]


@pytest.mark.parametrize(
    ("call", "name", "given", "output", "failed"),
    [
        (
            {
                "shellToolCall": {
                    "args": {"command": "x"},
                    "result": {"failure": {"exitCode": 1, "stdout": "a", "stderr": "b"}},
                }
            },
            "shell",
            {"command": "x"},
            "a\nb",
            True,
        ),
        (
            {"shellToolCall": {"args": {}, "result": {"success": {"exitCode": 3, "stdout": "a"}}}},
            "shell",
            {},
            "a",
            True,
        ),
        (
            {"writeToolCall": {"args": {}, "result": {"success": {"linesCreated": 2}}}},
            "write",
            {},
            '{"linesCreated": 2}',
            False,
        ),
        ({"editToolCall": {"args": {}, "result": {"rejected": {"reason": "no"}}}}, "edit", {}, "no", True),
        (
            {
                "mcpToolCall": {
                    "args": {"name": "paddock-echo", "toolName": "echo", "args": {"text": "x"}},
                    "result": {"success": {"content": "echo: x"}},
                }
            },
            "echo",
            {"text": "x"},
            "echo: x",
            False,
        ),
        ({"function": {"name": "f", "arguments": '{"a": 1}'}}, "f", {"a": 1}, "", False),
        ({"function": {"name": "f", "arguments": "{a"}}, "f", {}, "", False),
    ],
)
def test_tools(call: dict[str, Any], name: str, given: dict[str, Any], output: str, failed: bool) -> None:
    """Also if it is told of one only when it is over."""
    for lines in ([tool(call), tool(call, "completed")], [tool(call, "completed")]):
        assert read(*lines) == [ToolCall("call_1\nfc_1", name, given), ToolResult("call_1\nfc_1", output, failed)]


def test_lines_of_any_shape() -> None:
    odd = [None, 7, "x", [], {}, True, [[1]], {"a": 1}, {"success": 1}, [{"text": 1}]]
    names = ("session_id", "model", "text", "message", "call_id", "tool_call", "usage", "result", "is_error")
    for kind in ("system", "thinking", "assistant", "tool_call", "result", "user", None):
        for subtype in ("init", "completed", "success", None):
            for value in odd:
                reader = CursorReader()
                list(reader.feed({"type": kind, "subtype": subtype, **dict.fromkeys(names, value)}))
                list(
                    reader.feed(
                        {"type": kind, "subtype": subtype, "tool_call": {"x": value}, "message": {"content": value}}
                    )
                )
                assert isinstance(reader.finish(0, ""), Failed)


# How it is started


def test_what_is_said_to_it() -> None:
    launch = launched(model="m", bridge=("/run/bridge", "/run/socket"), disallowed_tools=["Shell(rm)"], resume="c-1")
    assert json.loads(launch.files[".cursor/mcp.json"]) == {
        "mcpServers": {"paddock": {"command": "/run/bridge", "args": ["/run/socket"]}}
    }
    assert json.loads(launch.files[".cursor/cli-config.json"])["permissions"] == {"allow": [], "deny": ["Shell(rm)"]}
    assert {"--approve-mcps", "--trust", "--force"} <= set(launch.argv)
    assert ("--resume", "c-1") in zip(launch.argv, launch.argv[1:], strict=False)
    assert KEY not in str(launch)
    plan = launched(permission="plan", system="Be terse.")
    assert not {"--approve-mcps", "--force"} & set(plan.argv)
    assert plan.stdin == b"Be terse.\n\nDo it."


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"permission": "edit"}, "permission='edit'"),
        ({"max_turns": 3}, "max_turns"),
        ({"allowed_tools": ["Bash"]}, "'Bash' is no permission"),
    ],
)
def test_what_it_has_no_word_for(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Cursor().check(Options(**options))
    Cursor().check(Options(permission="plan", allowed_tools=("Shell(git)",)))


def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By either name; but not any program of that name."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    other = tmp_path / "other" / "agent"
    real = tmp_path / "share" / "cursor-agent" / "versions" / "2026.01.01" / "cursor-agent"
    for file in (other, real):
        file.parent.mkdir(parents=True)
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)
    (tmp_path / "bin").mkdir()
    link = tmp_path / "bin" / "agent"
    link.symlink_to(other)
    assert Cursor().find() is None
    link.unlink()
    link.symlink_to(real)
    found = Cursor().find()
    assert found is not None
    assert found.argv == (f"{PLACE}/cursor-agent",)
    assert found.mounts == (Mount(real.parent, PLACE),)


# Its key


async def test_its_key_is_inside_only_if_that_is_wanted() -> None:
    """Without one nothing is run; with one, its program has it, no other command does, and the sandbox says so."""
    assert "cursor" in agents()
    async with Sandbox.create(mounts=PROGRAM.mounts) as sb:
        with pytest.raises(ConfigError, match=r"inside the sandbox.*key=.*Network\.allow\('\*\.cursor\.sh'\)"):
            Runner(PROGRAM, sb)
        with pytest.raises(ConfigError, match="no key of Cursor"):
            Runner(PROGRAM, sb, key="two\nlines")
        runner = Runner(PROGRAM, sb, key=KEY)
        assert sb.isolation.secrets
        assert (await runner.execute('say Hello.\nrun test "$CURSOR_API_KEY" = ' + KEY + "\nsay Bye.")).text == "Bye."
        assert not sb.isolation.secrets
        assert "key of Cursor" in sb.isolation.secrets.by
        assert (await sb.exec('echo "$CURSOR_API_KEY"')).stdout == "\n"
        assert (
            await sb.exec(["grep", "-r", KEY, "/home/agent/.cursor/mcp.json", "/home/agent/.cursor/cli-config.json"])
        ).exit_code
        with pytest.raises(ConfigError, match="asks models by the gateway"):
            Runner("claude", sb, key=KEY)


# A whole run


async def test_a_run(sb: Sandbox) -> None:
    script = "think Let me see.\nsay Looking.\nrun echo hi; pwd\nrun false\nsay All done."
    events = [event async for event in Runner(PROGRAM, sb, key=KEY, options=Options(model="m")).stream(script)]
    assert of(events, Started)[0].model == "m"
    assert of(events, Thinking) == [Thinking("Let me see.")]
    assert "".join(event.text for event in of(events, Text)) == "Looking.\n\nAll done."
    calls, results = of(events, ToolCall), of(events, ToolResult)
    assert [call.id for call in calls] == [result.id for result in results]
    assert [(result.output, result.failed) for result in results] == [
        ("hi\n/workspace\n", False),
        ('{"exitCode": 1, "stdout": "", "stderr": ""}', True),
    ]
    end = events[-1]
    assert isinstance(end, Done)
    assert end.text == "All done."


async def test_a_conversation_goes_on(sb: Sandbox, tmp_path: Path) -> None:
    """By its own memory; in another sandbox by what was kept; and from the beginning if that is gone."""
    memory = Sessions(tmp_path)
    said = [Message("user", "say First."), Message("assistant", "First."), Message("user", "recall")]
    first = await Runner(PROGRAM, sb, key=KEY, session="c", memory=memory).execute("say First.")
    second = await Runner(PROGRAM, sb, key=KEY, session="c", memory=memory).execute(said)
    assert (second.text, second.session) == ("say First.", first.session)
    async with Sandbox.create(mounts=PROGRAM.mounts) as other:
        runner = Runner(PROGRAM, other, key=KEY, session="c", memory=memory)
        third = await runner.execute(said)
        assert (third.text, third.session) == ("say First.\nrecall", first.session)
        await other.delete("/home/agent/.cursor/chats", recursive=True)
        events = [event async for event in runner.stream(said)]
        assert [event.resumed for event in of(events, Started)] == [False]
        assert isinstance(events[-1], Done)


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        ("refuse Out of budget", "failed", "Out of budget"),
        ("say Half.\nfail Oh no", "exited", "Oh no"),
        ("say Half.\nvanish", "exited", "ended with 0"),
    ],
)
async def test_failures(script: str, kind: str, words: str, sb: Sandbox) -> None:
    with pytest.raises(AgentError, match=words) as caught:
        await Runner(PROGRAM, sb, key=KEY).execute(script)
    assert (caught.value.kind, caught.value.agent) == (kind, "cursor")


async def test_it_waits_for_somebody(sb: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an untrusted workspace makes it do."""
    launch = Cursor.launch

    def untrusting(self: Cursor, task: Task) -> Launch:
        usual = launch(self, task)
        return Launch(tuple(word for word in usual.argv if word != "--trust"), usual.stdin, usual.env, usual.files)

    monkeypatch.setattr(Cursor, "launch", untrusting)
    with pytest.raises(AgentError, match="Trust Required") as caught:
        await Runner(PROGRAM, sb, key=KEY, options=Options(patience=1)).execute("say Hello.")
    assert caught.value.kind == "stalled"


async def test_it_is_ended(sb: Sandbox) -> None:
    """By whoever wants that, or when its time is over."""
    async with Runner(PROGRAM, sb, key=KEY).stream("run touch begun; sleep 97") as run, asyncio.TaskGroup() as tasks:
        tasks.create_task(_interrupted(sb, run.interrupt))
        events = [event async for event in run]
    assert events[-1].error.kind == "interrupted"  # type: ignore[union-attr]
    with pytest.raises(AgentError) as caught:
        await Runner(PROGRAM, sb, key=KEY, options=Options(timeout=1)).execute("run sleep 98")
    assert caught.value.kind == "timeout"
    assert await left_running(sb) == []


async def _interrupted(sb: Sandbox, interrupt: Any) -> None:
    while not await sb.exists("begun"):
        await asyncio.sleep(0.05)
    interrupt()


async def test_its_key_is_told_to_nobody() -> None:
    shown = 'cat > /dev/null; echo "key $CURSOR_API_KEY"; echo "key $CURSOR_API_KEY" >&2; exit 1'
    async with Sandbox.create() as sb:
        runner = Runner(Program("cursor", ("sh", "-c", shown, "sh")), sb, key=KEY)
        events = [event async for event in runner.stream("Do it.")]
    assert KEY not in repr(events)
    assert [event.text for event in of(events, Log)] == [f"key {'*' * len(KEY)}"] * 2
    (end,) = of(events, Failed)
    assert KEY not in end.error.stderr
