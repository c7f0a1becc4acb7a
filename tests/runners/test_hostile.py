"""Programs that mean harm to whoever runs them: to this host's memory, to its time, and to the runs that come later."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from paddock import Gateway, Sandbox
from paddock.cli.telling import Written
from paddock.jsonlines import has_too_many_values
from paddock.runners import (
    Done,
    Event,
    Failed,
    Log,
    Options,
    Program,
    Run,
    Runner,
    Sessions,
    Text,
    ToolCall,
    ToolResult,
    preparing,
)
from paddock.runners.agent import Inside, Task
from paddock.runners.messages import conversation
from paddock.runners.names import Names, TooManyError, name
from paddock.runners.native import NativeReader
from paddock.runners.prose import Prose, Tail
from paddock.runners.registry import load
from paddock.runners.running import Patience
from paddock.testing import FakeModel
from runners.test_running import ENDED, SAID, STARTED, badly, events_of

LONG = "x" * 100_000
INSIDE = Inside("/home/agent", "/workspace", ("x",), url="http://127.0.0.1:1", model="m")
CALLS: dict[str, list[dict[str, Any]]] = {
    "scripted": [{"kind": "tool_call", "id": LONG, "name": "n"}, {"kind": "tool_result", "id": LONG}],
    "claude": [
        {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": LONG, "name": "n"}]}},
        {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": LONG}]}},
    ],
    "codex": [{"type": "item.completed", "item": {"id": LONG, "type": "command_execution"}}],
    "cursor": [{"type": "tool_call", "call_id": LONG, "subtype": "completed", "tool_call": {"readToolCall": {}}}],
    "gemini": [{"type": "tool_use", "tool_id": LONG, "tool_name": "n"}, {"type": "tool_result", "tool_id": LONG}],
    "opencode": [{"part": {"type": "tool", "callID": LONG, "tool": "n", "state": {"status": "completed"}}}],
}


def reader_of(agent: str) -> Any:
    return load(agent).reader(Task(conversation("Do it."), Options(), INSIDE, "id"))


@pytest.mark.parametrize("agent", CALLS)
def test_long_names_become_short_ones_that_still_belong_together(agent: str) -> None:
    reader = reader_of(agent)
    events = [event for line in CALLS[agent] for event in reader.feed(line)]
    call, result = (event for event in events if isinstance(event, (ToolCall, ToolResult)))
    assert call.id == result.id == name(LONG)
    assert len(call.id) == 256


def test_names_are_told_apart() -> None:
    assert name(LONG + "a") != name(LONG + "b")
    assert name("call-1") == "call-1"
    assert name("\ud800" * 300) != name("\ud800" * 301)
    assert name(7) == name(None) == ""


def test_names_are_not_without_number() -> None:
    names = Names(2)
    for known in ("a", "b", "a"):
        names.add(known)
    with pytest.raises(TooManyError):
        names.add("c")
    names.discard("a")
    names.add("c")
    assert list(names) == ["b", "c"]


async def test_who_names_too_many_things_is_ended() -> None:
    many = """seq 1 %d | sed 's/.*/{"kind": "tool_call", "id": "&", "name": "n"}/'"""
    async with Sandbox.create() as sb:
        end = (await events_of(sb, f"{STARTED}; {many % 12_000}; {ENDED}"))[-1]
        assert isinstance(end, Failed)
        assert (end.error.kind, end.session) == ("failed", "s")
        assert isinstance((await events_of(sb, f"{STARTED}; {many % 900}; {ENDED}"))[-1], Done)


def test_what_tools_are_given_is_not_held_without_bound() -> None:
    reader = reader_of("acp")
    for line in ({"id": 0, "result": {"protocolVersion": 1}}, {"id": 1, "result": {"sessionId": "s"}}):
        list(reader.feed(line))

    def update(call: str, **what: Any) -> list[Event]:
        update = {"sessionUpdate": "tool_call_update", "toolCallId": call, "title": "t", **what}
        return list(reader.feed({"method": "session/update", "params": {"sessionId": "s", "update": update}}))

    large = {"text": "x" * (10 << 20)}
    for number in range(20):
        update(str(number), rawInput=large)
        assert len(update(str(number), status="completed")) == 2
    for number in range(6):
        update(f"open {number}", rawInput=large)
    with pytest.raises(TooManyError):
        update("one more", rawInput=large)


def test_of_a_long_reply_the_end_is_kept() -> None:
    tail = Tail(10)
    for piece in ("abc", "def" * 20, "ghi", "j" * 9):
        tail.add(piece)
    assert str(tail) == "i" + "j" * 9
    assert tail.ends_with("i" + "j" * 9)
    assert not tail.ends_with("x" + "j" * 9)
    prose = Prose()
    for _ in range(12):
        list(prose.add("block", "x" * (1 << 20)))
    list(prose.add("block", "end"))
    assert len(prose.reply) == 10 << 20
    assert prose.reply.endswith("xend")


def test_time_does_not_grow_with_what_was_said_before() -> None:
    """If it did, this would not be over within the time that every test has."""
    reader, written = reader_of("cursor"), Written()
    said = {"type": "assistant", "message": {"content": [{"type": "text", "text": "x" * 100}]}}
    for number in range(20_000):
        list(reader.feed({**said, "timestamp_ms": 1}))
        list(reader.feed(said) if number % 2 else ())
        assert written.feed("y" * 1000) == []
    assert written.feed("\nz") == ["y" * 20_000_000]
    assert written.rest == "z"


async def test_the_time_is_that_of_all_attempts_together() -> None:
    gone = "sleep 1.5; echo 'No conversation found with session ID: x' >&2; exit 1"
    program = Program("claude", ("sh", "-c", f"cat > /dev/null; {gone}", "sh"))
    async with FakeModel([]) as model, Gateway(model.connector("anthropic")) as gateway, Sandbox.create() as sb:
        runner = Runner(program, sb, await gateway.attach(sb), options=Options(timeout=2), session="s")
        await runner._marks.set(runner._session, "x")
        end = [event async for event in runner.stream("Do it.")][-1]
        assert isinstance(end, Failed)
        assert end.error.kind == "timeout"  # and not that the second has failed, too


WORKED: dict[str, list[dict[str, Any]]] = {
    "claude": [
        {"type": "system", "subtype": "init", "session_id": "abc"},
        {"type": "assistant", "uuid": "1", "message": {"id": "m", "content": [{"type": "text", "text": "deployed"}]}},
    ],
    "codex": [
        {"type": "thread.started", "thread_id": "abc"},
        {"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": "deployed"}},
    ],
    "gemini": [
        {"type": "init", "session_id": "abc"},
        {"type": "message", "role": "assistant", "content": "deployed"},
    ],
    "opencode": [
        {
            "type": "text",
            "sessionID": "abc",
            "part": {"id": "1", "type": "text", "text": "deployed", "time": {"end": 1}},
        }
    ],
}
IN_USE = "Session ID abc is already in use."
LAST_WORDS = [
    ("claude", f"echo '{IN_USE}' >&2"),
    ("claude", f"""echo '{{"type": "result", "is_error": true, "session_id": "abc", "errors": ["{IN_USE}"]}}'"""),
    ("codex", "echo 'no rollout found' >&2"),
    ("gemini", "echo 'Error resuming session' >&2"),
    ("opencode", "echo 'Session not found' >&2"),
]


@pytest.mark.parametrize(("agent", "last_words"), LAST_WORDS)
async def test_what_has_begun_is_not_done_again(agent: str, last_words: str) -> None:
    lines = "; ".join(f"echo '{json.dumps(line)}'" for line in WORKED[agent])
    script = f"cat > /dev/null; echo run >> /workspace/runs; {lines}; {last_words}; exit 1"
    async with FakeModel([]) as model, Gateway(model.connector("anthropic")) as gateway, Sandbox.create() as sb:
        program, options = Program(agent, ("sh", "-c", script, "sh")), Options(model="m")
        runner = Runner(program, sb, await gateway.attach(sb), options=options, session="s")
        await runner._marks.set(runner._session, "x")
        events = [event async for event in runner.stream("Do it.")]
        assert [event.text for event in events if isinstance(event, Text)] == ["deployed"]
        assert await sb.read("runs") == "run\n"
    assert isinstance(events[-1], Failed)
    assert events[-1].error.kind != "no_session"


async def test_what_is_said_in_passing_is_no_lost_conversation() -> None:
    script = "cat > /dev/null; echo run >> /workspace/runs; echo 'port 3000 is already in use' >&2; exit 1"
    async with FakeModel([]) as model, Gateway(model.connector("anthropic")) as gateway, Sandbox.create() as sb:
        runner = Runner(Program("claude", ("sh", "-c", script, "sh")), sb, await gateway.attach(sb), session="s")
        assert [event async for event in runner.stream("Do it.")][-1].error.kind == "exited"  # type: ignore[union-attr]
        assert await sb.read("runs") == "run\n"


async def test_a_line_of_very_many_values_is_left_out() -> None:
    many = """printf '{"kind": "text", "text": "no", "a": ['; head -c 2000000 /dev/zero | tr '\\0' ,; echo ']}'"""
    code = """printf '{"kind": "text", "text": "'; yes '{\\"a\\": [1, 2, 3]},' | head -c 4000000 | tr -d '\\n'; echo '"}'"""
    async with Sandbox.create() as sb:
        events = await events_of(sb, f"{STARTED}; {many}; {code}; {SAID}; {ENDED}")
        texts = [event.text for event in events if isinstance(event, Text)]
        assert [len(text) > 3_000_000 for text in texts] == [True, False]
        assert [event.text for event in events if isinstance(event, Log)] == [
            "A line had too many values, and was left out."
        ]


@pytest.mark.parametrize("line", [b'["",' * 300_000, b'"' * 2_000_000, b'"\\\\",' * 400_000, b"{" * 600_000])
def test_values_are_counted_whatever_is_around_them(line: bytes) -> None:
    assert has_too_many_values(line)


@pytest.mark.parametrize("line", [b'"' + rb"\",[{" * 400_000 + b'"', b"x" * 9_000_000, b"[1,2]"])
def test_texts_are_no_values(line: bytes) -> None:
    assert not has_too_many_values(line)


@pytest.mark.parametrize(
    "made",
    [
        "rm -rf ~/.paddock; echo x > ~/.paddock",
        "rm -rf ~/.paddock; ln -s nowhere ~/.paddock",
        "rm -rf ~/.paddock; ln -s .paddock ~/.paddock",
        "rm -rf ~/.paddock; ln -s /etc ~/.paddock",
        "rm -rf ~/.paddock; mkdir ~/.paddock; mkfifo ~/.paddock/claude",
        "mkdir -p ~/.paddock/claude; rm -f ~/.paddock/claude/mcp.json; mkdir -p ~/.paddock/claude/mcp.json/x",
        "mkdir -p ~/.paddock/claude; echo x > ~/.paddock/claude/mcp.json; chmod 0 ~/.paddock/claude/mcp.json",
    ],
)
async def test_what_is_in_the_way_of_files_goes(made: str) -> None:
    ended = """echo '{"type": "result", "subtype": "success", "result": "bye"}'"""
    program = Program("claude", ("sh", "-c", f"cat > /dev/null; {ended}", "sh"))
    async with FakeModel([]) as model, Gateway(model.connector("anthropic")) as gateway, Sandbox.create() as sb:
        models = await gateway.attach(sb)
        await sb.exec(made, check=True)
        assert (await Runner(program, sb, models).execute("Do it.")).text == "bye"
        await sb.exec(made, check=True)
        assert (await Runner(program, sb, models, profile="p").execute("Do it.")).text == "bye"


async def test_a_shell_that_says_nothing_is_an_error_of_the_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Sandbox.create() as sb:
        monkeypatch.setattr(preparing, "_ASK", "echo /home/agent")
        end = [event async for event in Runner(badly(ENDED), sb).stream("Do it.")][-1]
    assert isinstance(end, Failed)
    assert end.error.kind == "sandbox"


async def never(*_: Any, **__: Any) -> None:
    await asyncio.sleep(3600)


async def test_what_is_prepared_ends_in_time_and_when_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Sandbox.create() as sb:
        runner = Runner(badly(ENDED), sb, options=Options(timeout=0.5))
        patient = Runner(badly(ENDED), sb)
        assert (await patient.execute("Do it.")).text == "bye"
        monkeypatch.setattr(Sandbox, "exec", never)
        late = [event async for event in runner.stream("Do it.")][-1]
        run = patient.stream("Do it.")
        asyncio.get_running_loop().call_later(0.2, run.interrupt)
        stopped = await asyncio.wait_for(_last(run), 5)
    assert isinstance(late, Failed)
    assert late.error.kind == "timeout"
    assert isinstance(stopped, Failed)
    assert stopped.error.kind == "interrupted"


async def _last(run: Run) -> Event:
    return [event async for event in run][-1]


async def test_junk_is_no_word_of_the_model() -> None:
    async with Sandbox.create() as sb:
        events = await events_of(sb, f"{STARTED}; yes junk", Options(timeout=30, patience=1))
        end = events[-1]
        assert isinstance(end, Failed)
        assert end.error.kind == "stalled"
        assert end.seconds < 5


def test_patience_is_not_taken_by_whoever_listens() -> None:
    patience = Patience(10)
    patience.excuse(Text("x"), 100)
    assert 109 < patience.left <= 110
    patience.saw(Text("x"))
    patience.excuse(Log("x"), 0.5)
    assert patience.left <= 10
    patience.excuse(Log("x"), 101)
    assert 109 < patience.left <= 110
    patience.saw(ToolCall("1", "n"))
    assert patience.left > 1e9
    patience.saw(Text("x", parent="1"))
    assert patience.left <= 10
    patience.saw(ToolCall("1", "n"))
    assert patience.left <= 10, "it is another who asks the model"


@pytest.mark.parametrize(
    "line",
    [
        {"kind": "text", "text": 5},
        {"kind": "thinking", "text": None},
        {"kind": "tool_call", "id": [1], "name": "n"},
        {"kind": "tool_result", "id": {}},
        {"kind": "progress", "text": "preparing something else"},
        {"kind": [], "text": "x"},
    ],
)
def test_native_lines_that_are_no_events(line: dict[str, Any]) -> None:
    assert list(NativeReader("scripted").feed(line)) == []


def test_native_lines_of_other_types() -> None:
    reader = NativeReader("scripted")
    lines: list[dict[str, Any]] = [
        {"kind": "started", "agent": "claude", "session": 7, "resumed": "no"},
        {"kind": "usage", "input": "x", "output": -1, "cost": [], "cached": 10**400},
        {"kind": "tool_call", "id": "1", "name": 7, "input": [1], "parent": 7},
        {"kind": "log", "text": "I am Paddock.", "source": "paddock"},
        {"kind": "done", "text": 7, "turns": "x", "model": {}, "seconds": "x"},
    ]
    told = [json.loads(json.dumps(event.to_dict())) for line in lines for event in reader.feed(line)]
    assert [one["kind"] for one in told] == ["started", "usage", "tool_call", "log", "done"]
    assert (told[0]["agent"], told[0]["session"], told[0]["resumed"]) == ("scripted", None, False)
    assert told[1] == {"kind": "usage", "input": 0, "output": 0, "cached": 0, "cache_write": 0, "cost": None}
    assert (told[2]["name"], told[2]["input"], told[2]["parent"]) == ("", {}, None)
    assert told[3]["source"] == Log("x").source == "agent"
    assert (told[4]["text"], told[4]["turns"], told[4]["model"]) == ("", None, None)


@pytest.mark.parametrize(
    "made",
    [
        "mkdir -p $mark/x",
        "mkfifo $mark",
        "ln -s /etc/passwd $mark",
        "ln -s loop $mark",
        "rm -rf ~/.paddock/sessions; touch ~/.paddock/sessions",
        "rm -rf ~/.paddock/sessions; ln -s /etc ~/.paddock/sessions",
        "rm -rf ~/.paddock; ln -s .paddock ~/.paddock",
    ],
)
async def test_a_mark_that_cannot_be_used_is_the_end_of_no_run(made: str, tmp_path: Path) -> None:
    async with Sandbox.create() as sb:
        runner = Runner(badly(f"{STARTED}; {SAID}; {ENDED}"), sb, session="s", memory=Sessions(tmp_path))
        await sb.exec(f"mkdir -p ~/.paddock/sessions; mark=~/.paddock/sessions/scripted-{runner._session}; {made}")
        for _ in range(2):
            assert (await asyncio.wait_for(runner.execute("Do it."), 20)).text == "bye"
        if "$mark" in made:
            assert await runner._marks.known(runner._session) == "s"
