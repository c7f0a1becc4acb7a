"""OpenCode: what its lines and those of our plugin mean, and what only it has."""

import json
from pathlib import Path
from typing import Any

import pytest

from paddock import ConfigError
from paddock.runners import Done, Event, Failed, Log, Options, Started, Text, Thinking, ToolCall, ToolResult, Usage
from paddock.runners.agent import Inside, Task
from paddock.runners.agents.opencode import OpenCode, OpenCodeReader
from paddock.runners.messages import conversation
from paddock.skills import load_skills
from paddock.testing import Say, Shell, Use
from runners.conftest import Staged
from skills.making import skill

TRANSCRIPTS = Path(__file__).parent / "transcripts"


def read(*lines: dict[str, Any], **how: Any) -> list[Event]:
    """To the end, which its exit is."""
    reader = OpenCodeReader(**how)
    return [*(event for line in lines for event in reader.feed(line)), reader.finish(0, "")]


def recorded(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (TRANSCRIPTS / f"opencode_{name}.jsonl").read_text().splitlines()]


# What was recorded


def test_text() -> None:
    session = "ses_e1f48c452ffe4isUWumtJjEcnb"
    assert read(*recorded("text"), model="m") == [
        Started("opencode", session, "m"),
        Text("Hello from the fake model."),
        Usage(100, 20),
        Done("Hello from the fake model.", session, "m", Usage(100, 20), 1),
    ]


def test_a_command() -> None:
    session, call = "ses_e1f48af3affe5Kegpj2gkU69G2", "call_9b121d0f38114d84"
    assert read(*recorded("bash")) == [
        Started("opencode", session),
        ToolCall(call, "bash", {"command": "echo hi > out.txt; cat out.txt", "description": "run it"}),
        ToolResult(call, "hi\n"),
        Usage(100, 20),
        Text("DONE tool said: hi\n"),
        Usage(100, 20),
        Done("DONE tool said: hi", session, None, Usage(200, 40), 2),
    ]


def test_with_the_plugin_and_an_agent_within() -> None:
    """What is said twice is told once; what the other agent does is told by its parent, and counted."""
    session, task, inner = "ses_e13d18a2bffeDWkHy3ExaQDrDN", "fake_73836ba2_1_2", "fake_b9651eaa_2_1"
    given = {"description": "look", "prompt": "SUBTASK", "subagent_type": "general"}
    events = read(*recorded("agents"))
    answer = next(event.output for event in events if isinstance(event, ToolResult) and event.id == task)
    assert "I found sub." in answer
    assert events == [
        Started("opencode", session),
        Thinking("hm"),
        Text("Let me"),
        Text(" ask."),
        ToolCall(task, "task", given),
        Text("Looking.", task),
        ToolCall(inner, "bash", {"command": "echo sub"}, task),
        ToolResult(inner, "sub\n", parent=task),
        Usage(100, 20),
        Text("\n\nI found sub.", task),
        Usage(100, 20),
        ToolResult(task, answer),
        Usage(100, 20),
        Text("\n\nAll d"),
        Text("one."),
        Usage(100, 20),
        Done("All done.", session, None, Usage(400, 80), 2),
    ]


# What was not


def step(reason: str = "stop", **tokens: Any) -> dict[str, Any]:
    part = {"id": f"p{id(tokens)}", "type": "step-finish", "reason": reason, "tokens": tokens, "cost": 0.5}
    return {"type": "step_finish", "sessionID": "s", "part": part}


def test_usage() -> None:
    """Tokens of thinking are output; what the provider had already stands by itself."""
    line = step(input=70, output=15, reasoning=5, cache={"read": 30, "write": 10})
    assert read(line)[1] == Usage(70, 20, 30, 10, 0.5)


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        ({"name": "APIError", "data": {"message": "no", "statusCode": 401}}, "api", 401),
        ({"name": "UnknownError", "data": {"message": "no model"}}, "failed", None),
    ],
)
def test_errors(error: dict[str, Any], kind: str, status: int | None) -> None:
    (end,) = OpenCodeReader().feed({"type": "error", "error": error})
    assert isinstance(end, Failed)
    assert (end.error.kind, end.error.status) == (kind, status)


def test_a_model_is_not_asked_for_ever() -> None:
    reader = OpenCodeReader()
    lines = [
        {"type": "session.status", "status": {"type": "retry", "attempt": attempt, "message": "Overloaded"}, **refusal}
        for attempt, refusal in ((1, {}), (2, {"refusal": 529}))
    ]
    assert list(reader.feed(lines[0])) == [Log("Asking the model again: Overloaded")]
    (end,) = reader.feed(lines[1])
    assert isinstance(end, Failed)
    assert (end.error.kind, end.error.status) == ("api", 529)


def test_what_was_cut_off_is_no_part_of_the_reply() -> None:
    def words(known: str, said: str) -> dict[str, Any]:
        part = {"id": known, "type": "text", "text": said, "time": {"end": 1}}
        return {"type": "text", "sessionID": "s", "part": part}

    retry = {"type": "session.status", "sessionID": "s", "status": {"type": "retry", "attempt": 1, "message": "cut"}}
    end = read(words("one", "All o"), retry, words("two", "All of it."), step())[-1]
    assert isinstance(end, Done)
    assert end.text == "All of it."


def test_turns_are_counted() -> None:
    """Who is done with the last of them is done; who wants more has failed."""
    assert isinstance(read(step("tool-calls"), step("stop"), most=2)[-1], Done)
    events = read(step("tool-calls"), step("tool-calls"), step("stop"), most=2)
    (end,) = [event for event in events if isinstance(event, Failed)]
    assert end.error.kind == "max_turns"


def test_an_end_without_a_result() -> None:
    for exit_code, stderr, kind in ((1, "Error: Session not found", "no_session"), (1, "bad flag", "exited")):
        end = OpenCodeReader().finish(exit_code, stderr)
        assert isinstance(end, Failed)
        assert end.error.kind == kind
    assert isinstance(OpenCodeReader().finish(0, ""), Failed)  # nothing was asked


def config(**options: Any) -> dict[str, Any]:
    inside = Inside("/home/agent", "/workspace", ("opencode",), ("bridge", "socket"), "http://127.0.0.1:1", "m")
    launch = OpenCode().launch(Task(conversation("Do it."), Options(**options), inside, "id"))
    found: dict[str, Any] = json.loads(launch.files[".config/opencode/opencode.json"])
    return found


def test_its_configuration() -> None:
    assert config()["permission"] == {"*": "allow"}
    assert config()["mcp"]["paddock"]["command"] == ["bridge", "socket"]
    chosen = config(permission="plan", allowed_tools=("bash",), disallowed_tools=("grep",))["permission"]
    assert (chosen["*"], chosen["bash"], chosen["grep"], chosen["read"]) == ("deny", "allow", "deny", "allow")
    nameless = Inside("/home/agent", "/workspace", ("opencode",), url="http://127.0.0.1:1")
    with pytest.raises(ConfigError, match="chooses no model"):
        OpenCode().launch(Task(conversation("Do it."), Options(), nameless, "id"))


# The real program


async def test_a_project_chooses_nothing_and_is_heard(staged: Staged, tmp_path: Path) -> None:
    """What it configures is not read, its words are; a skill of ours is there; files may be written, no commands run."""
    skill(tmp_path, "greeting", "name: greeting", "description: How to greet people.")
    server = {"mcp": {"evil": {"type": "local", "command": ["touch", "/workspace/ran"]}}}
    evil = json.dumps(
        {"model": "evil/evil", "provider": {"paddock": {"options": {"baseURL": "http://127.0.0.1:1"}}}, **server}
    )
    write = Use("write", {"filePath": "/workspace/new.txt", "content": "x"})
    script = [Use("skill", {"name": "greeting"}), write, Say("Fine.")]
    options = Options(permission="edit", timeout=120, patience=90)
    async with staged("opencode", script, skills=load_skills(tmp_path), options=options) as stage:
        await stage.sb.write_files(
            {
                "opencode.json": evil,
                ".opencode/opencode.json": evil,
                ".env": f"OPENCODE_CONFIG_CONTENT='{json.dumps(server)}'",
                "AGENTS.md": "Words of the project.",
            }
        )
        end = await stage.run()
        assert isinstance(end, Done), end
        asked = stage.model.requests[0]
        assert "Words of the project." in str(asked.body)
        assert "How to greet people." in str(asked.body)
        assert "bash" not in asked.tools
        assert "# greeting" in stage.of(ToolResult)[0].output
        assert await stage.sb.read("new.txt") == "x"
        assert not await stage.sb.exists("ran")


async def test_no_more_turns_than_it_may(staged: Staged) -> None:
    async with staged("opencode", [Shell("true")] * 5, options=Options(max_turns=2, timeout=120, patience=90)) as stage:
        end = await stage.run()
        assert isinstance(end, Failed), end
        assert end.error.kind == "max_turns"
        assert len(stage.of(ToolCall)) == 2
