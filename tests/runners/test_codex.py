"""Codex: what its lines mean, and what only it has."""

import json
import math
import tomllib
from pathlib import Path
from typing import Any

import pytest

from paddock import ConfigError, Gateway, Sandbox
from paddock.runners import (
    Done,
    Event,
    Failed,
    Log,
    Options,
    Program,
    Runner,
    Started,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from paddock.runners.agent import Inside, Task
from paddock.runners.agents.codex import Codex, CodexReader
from paddock.runners.messages import conversation
from paddock.skills import load_skills
from paddock.testing import FakeModel, Say, Shell
from runners.conftest import Staged
from skills.making import skill

TRANSCRIPTS = Path(__file__).parent / "transcripts"
UNKNOWN = Log(
    "Model metadata for `fake-model` not found. "
    "Defaulting to fallback metadata; this can degrade performance and cause issues."
)


def read(*lines: dict[str, Any]) -> list[Event]:
    reader = CodexReader()
    return [event for line in lines for event in reader.feed(line)]


def recorded(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (TRANSCRIPTS / f"codex_{name}.jsonl").read_text().splitlines()]


# What was recorded


def test_text() -> None:
    session = "01a1e0ab-3db0-7320-8bfb-e755962e8d30"
    assert read(*recorded("text")) == [
        Started("codex", session),
        UNKNOWN,
        Text("Hello from the fake model."),
        Usage(100, 20),
        Done("Hello from the fake model.", session, None, Usage(100, 20)),
    ]


def test_a_command() -> None:
    said = (
        "DONE tool said: Chunk ID: 5dcb39\nWall time: 0.0000 seconds\nProcess exited with code 0\n"
        "Original token count: 1\nOutput:\nhi\n"
    )
    session = "01a1e0ab-3ed4-7fa0-9e44-d9d5ea0fa84c"
    assert read(*recorded("bash")) == [
        Started("codex", session),
        UNKNOWN,
        ToolCall("item_1", "command_execution", {"command": "/bin/bash -lc 'echo hi > out.txt; cat out.txt'"}),
        ToolResult("item_1", "hi\n"),
        Text(said),
        Usage(200, 40),
        Done(said.strip(), session, None, Usage(200, 40)),
    ]


def test_a_tool_of_a_server() -> None:
    assert read(*recorded("mcp"))[2:4] == [
        ToolCall("item_1", "mcp__tiny__echo", {"text": "yo"}),
        ToolResult("item_1", "tiny echo: yo"),
    ]


def test_patches_failures_thoughts_and_agents_within() -> None:
    spawned = {
        "tool": "spawn_agent",
        "sender_thread_id": "01a1ec2f-3ced-74c1-9b0c-ca7a911a934a",
        "receiver_thread_ids": [],
        "prompt": "SUBTASK",
    }
    events = read(*recorded("tools"))
    assert events[2:-2] == [
        ToolCall("item_1", "file_change", {"changes": [{"path": "/workspace/new.txt", "kind": "add"}]}),
        ToolResult("item_1", "add /workspace/new.txt"),
        ToolCall("item_2", "command_execution", {"command": "/bin/bash -lc false"}),
        ToolResult("item_2", "", failed=True),
        Thinking("thinking"),
        ToolCall("item_4", "spawn_agent", spawned),
        ToolResult("item_4"),
        Text("all"),
    ]
    assert isinstance(events[-1], Done)
    assert events[-1].text == "all"


def test_a_conversation_that_goes_on_counts_its_own_part() -> None:
    """The program counts from the beginning; its notes, which are read before, say how far it was."""
    before = {"total_token_usage": {"input_tokens": 100, "output_tokens": 20}}
    note = {"type": "event_msg", "payload": {"type": "token_count", "info": before}}
    events = read(note, *recorded("resume"))
    assert isinstance(events[-1], Done)
    assert events[-1].usage == sum((event for event in events if isinstance(event, Usage)), Usage()) == Usage(100, 20)


@pytest.mark.parametrize(("name", "status"), [("400", 400), ("401", 401)])
def test_errors_of_the_model(name: str, status: int) -> None:
    *before, end = read(*recorded(name))
    assert isinstance(end, Failed)
    assert (end.error.kind, end.error.status) == ("api", status)
    assert all(isinstance(event, (Started, Log)) for event in before)


# What was not


@pytest.mark.parametrize(
    ("words", "kind", "status"),
    [
        ("exceeded retry limit, last status: 429 Too Many Requests", "api", 429),
        ("unexpected status 529 <unknown status code>: overloaded, url: http://x", "api", 529),
        ("stream disconnected before completion: Transport error", "api", None),
        ("Selected model is at capacity. Please try a different model.", "api", None),
        ("the conversation is too long", "failed", None),
    ],
)
def test_other_errors(words: str, kind: str, status: int | None) -> None:
    (end,) = read({"type": "turn.failed", "error": {"message": words}})
    assert isinstance(end, Failed)
    assert (end.error.kind, end.error.status) == (kind, status)


def test_tokens_that_the_provider_had_are_no_input() -> None:
    usage = {"input_tokens": 100, "cached_input_tokens": 30, "cache_write_input_tokens": 10, "output_tokens": 20}
    assert read({"type": "turn.completed", "usage": usage})[0] == Usage(60, 20, 30, 10)


def test_a_plan_is_no_tool_that_is_waited_for() -> None:
    plan = {"id": "item_1", "type": "todo_list", "items": [{"text": "look", "completed": False}]}
    events = read(*({"type": f"item.{what}", "item": plan} for what in ("started", "updated", "completed")))
    assert [type(event) for event in events] == [ToolCall, ToolResult] * 2
    assert len({event.id for event in events if isinstance(event, ToolCall)}) == 2


def test_an_end_without_a_result() -> None:
    assert CodexReader().finish(1, "Error: no rollout found for thread id x").error.kind == "no_session"
    assert CodexReader().finish(2, "unexpected argument").error.kind == "exited"
    reader = CodexReader()
    assert list(reader.feed({"type": "error", "message": "Reconnecting... 1/2 (unexpected status 401 x)"})) == [
        Log("Reconnecting... 1/2 (unexpected status 401 x)")
    ]
    assert reader.finish(1, "").error.status == 401


def task(options: Options) -> Task:
    inside = Inside("/home/agent", "/workspace", ("codex",), ("bridge", "so\x7fcket"), "http://127.0.0.1:1", "m")
    return Task(conversation("Do it."), options, inside, "id")


def test_its_configuration() -> None:
    """Whatever the words are, they are nothing but words."""
    words = 'a "quoted"\n[model_providers.evil]\n\\u0041 \x7f \x00 😀 ü'
    config = tomllib.loads(Codex().launch(task(Options(system=words))).files[".codex/config.toml"])
    assert config["developer_instructions"] == words
    assert config["mcp_servers"]["paddock"]["args"] == ["so\x7fcket"]
    assert list(config["model_providers"]) == ["paddock"]
    assert (config["model"], config["sandbox_mode"]) == ("m", "danger-full-access")


@pytest.mark.parametrize(
    "given",
    [
        {"permission": "edit"},
        {"permission": "plan"},
        {"max_turns": 3},
        {"allowed_tools": ["x"]},
        {"disallowed_tools": ["x"]},
    ],
)
def test_what_it_has_no_word_for(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"no word for {next(iter(given))}="):
        Codex().check(Options.of(given))
    Codex().check(Options(system="Be kind.", model="large"))


def test_whoever_may_take_for_ever() -> None:
    config = tomllib.loads(Codex().launch(task(Options(timeout=math.inf))).files[".codex/config.toml"])
    assert config["mcp_servers"]["paddock"]["tool_timeout_sec"] == 2_000_000


@pytest.mark.parametrize(
    "made",
    [
        "mkfifo AGENTS.md",
        "ln -s /dev/zero AGENTS.md",
        "echo x > AGENTS.md; mkdir -p ~/.codex; mkfifo ~/.codex/AGENTS.md",
        "echo x > AGENTS.md; mkdir -p ~/.codex/AGENTS.md/x",
        "mkdir -p ~/.codex/sessions/1/2/3; mkfifo ~/.codex/sessions/1/2/3/x-known.jsonl",
    ],
)
async def test_what_is_no_file_is_not_read(made: str) -> None:
    """It would be read for ever, before the program has begun."""
    ended = """echo '{"type": "thread.started", "thread_id": "known"}'; echo '{"type": "turn.completed"}'"""
    program = Program("codex", ("sh", "-c", f"cat > /dev/null; {ended}", "sh"))
    async with FakeModel([]) as model, Gateway(model.connector("responses")) as gateway, Sandbox.create() as sb:
        runner = Runner(program, sb, await gateway.attach(sb), options=Options(patience=5), session="s")
        await runner._marks.set(runner._session, "known")
        await sb.exec(made, check=True)
        await runner.execute("Do it.")
        if made.startswith("echo"):
            assert await sb.read("/home/agent/.codex/AGENTS.md") == "x\n"


# The real program


async def test_a_long_message_is_no_silence(staged: Staged) -> None:
    """It tells a message when it is whole; that the model speaks is known by the gateway."""
    words = "word " * 12
    async with staged("codex", [Say(words, pieces=12, pause=1)], options=Options(patience=7)) as stage:
        end = await stage.run()
        assert isinstance(end, Done), end
        assert end.text.strip() == words.strip()


async def test_a_project_chooses_nothing_and_is_heard(staged: Staged, tmp_path: Path) -> None:
    """Its servers are not started and its model is not taken; its words, and a skill of ours, are there."""
    skill(tmp_path, "greeting", "name: greeting", "description: How to greet people.")
    evil = (
        'model = "evil"\nmodel_provider = "evil"\n[mcp_servers.evil]\ncommand = "touch"\nargs = ["/workspace/ran"]\n'
        '[model_providers.evil]\nname = "e"\nbase_url = "http://127.0.0.1:1/v1"\n'
    )
    script = [Shell("cat ~/.codex/skills/greeting/SKILL.md; rg --version"), Say("Fine.")]
    async with staged("codex", script, skills=load_skills(tmp_path)) as stage:
        await stage.sb.exec(["git", "init", "-q"], check=True)
        await stage.sb.write_files({".codex/config.toml": evil, "AGENTS.md": "Words of the project."})
        assert isinstance(await stage.run(), Done)
        assert not await stage.sb.exists("ran")
        asked = stage.model.requests[0]
        assert asked.model == "fake-model"
        assert "Words of the project." in str(asked.body)
        assert "How to greet people." in str(asked.body)
        (result,) = stage.of(ToolResult)
        assert "# greeting" in result.output
        assert "ripgrep" in result.output  # which is beside the program
