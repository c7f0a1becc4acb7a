"""Programs that mean harm to whoever runs them: to this host's memory, to its time, and to the runs that come later."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from paddock import Gateway, Sandbox
from paddock.cli.telling import Written
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
