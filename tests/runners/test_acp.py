"""Agents that are talked with: by the official library, by one that keeps to nothing, and real ones."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
from acp import PROTOCOL_VERSION, meta, run_agent, schema

from paddock import AgentError, ConfigError, Mount, Sandbox, UnavailableError, extras
from paddock.runners import (
    Done,
    Event,
    Failed,
    Log,
    Options,
    Program,
    Run,
    Runner,
    Started,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    find_agent,
)
from paddock.runners.agent import Inside, Task, Tell
from paddock.runners.agents import acp as acp_runner
from paddock.runners.agents.acp import Acp, sent
from paddock.runners.messages import conversation
from paddock.testing import Say, Shell, Use
from runners.conftest import Stage, Staged, installed, left_running
from runners.stand_ins.official import StandIn

HERE = Path(__file__).parent / "stand_ins"
PLACE = "/opt/agents/stand-ins"


def stand_in(script: str, what: str) -> Program:
    return Program("acp", (sys.executable, f"{PLACE}/{script}.py", what), (Mount(HERE, PLACE),))


@dataclass
class Heard:
    """The events of a run, and its end."""

    events: list[Event]

    @property
    def end(self) -> Event:
        return self.events[-1]

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.of(Text))

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


async def heard(sb: Sandbox, program: Program, prompt: str, **more: Any) -> Heard:
    options = more.pop("options", Options(timeout=90))
    return Heard([event async for event in Runner(program, sb, options=options, **more).stream(prompt)])


def echo(text: str) -> str:
    """Say it back."""
    return f"echo: {text}"


class Wire:
    """To the library, without a process."""

    def __init__(self) -> None:
        self.there: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.back: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def send(self, message: dict[str, Any]) -> None:
        await self.back.put(message)

    async def receive(self) -> dict[str, Any] | None:
        return await self.there.get()

    async def close(self) -> None:
        pass


@pytest.fixture
def talk(tmp_path: Path) -> Callable[..., Awaitable[Heard]]:
    """Talks with the stand-in, and tells what was heard."""

    async def talked(prompt: str, what: str = "forgets", resume: str | None = None, **options: Any) -> Heard:
        wire, agent = Wire(), Acp()
        task = Task(conversation(prompt), Options(**options), Inside("/home", str(Path.cwd()), ("x",)), "s-1", resume)
        running = asyncio.create_task(run_agent(cast(Any, StandIn(what, tmp_path / "said")), wire))
        reader, events = agent.reader(task), Heard([])
        wire.there.put_nowait(json.loads(agent.launch(task).stdin))
        while not events.events or not isinstance(events.end, (Done, Failed)):
            for event in reader.feed(await asyncio.wait_for(wire.back.get(), 60)):
                if isinstance(event, Tell):
                    wire.there.put_nowait(dict(event.line))
                else:
                    events.events.append(event)
        wire.there.put_nowait(None)
        await running
        return events

    return talked


class TestTheOfficialLibrary:
    """It says what was meant by what Paddock says, and the other way round."""

    async def test_everything_that_it_can_tell(self) -> None:
        """In a process; on this host itself, which has the library."""
        program = stand_in("official", "forgets")
        prompt = "report\nthink Hm.\nplan\nsay I look.\nedit a.txt\nmay execute\nread /etc/passwd\nsay Done."
        async with Sandbox.create("local", mounts=program.mounts, tools=[echo]) as sb:
            told = await heard(sb, program, prompt, options=Options(model="large", timeout=90))
        assert told.of(Started) == [Started("acp", "one", "large", "1.2.3")]
        assert told.text.split("\n\n") == [
            "cwd True; server paddock; model large",
            "I look.",
            "execute: yes. refused: -32601. refused: -32601. Done.",
        ]
        assert told.of(Thinking) == [Thinking("Hm.")]
        assert Log("Its plan:\n[completed] look") in told.events
        assert told.of(ToolCall) == [
            ToolCall("edit", "Edit", {"path": "a.txt"}),
            ToolCall("may-1", "execute", {"title": "some execute"}),
        ]
        assert told.of(ToolResult) == [ToolResult("edit", "[changed a.txt]"), ToolResult("may-1")]
        assert told.of(Usage) == [Usage(cost=0.25), Usage(7, 5)]
        assert isinstance(told.end, Done)
        assert told.end.usage == Usage(7, 5, cost=0.25)
        assert told.end.text == "execute: yes. refused: -32601. refused: -32601. Done."

    @pytest.mark.parametrize(
        ("permission", "answers"), [("all", "yes yes yes yes"), ("edit", "yes yes no no"), ("plan", "yes no no no")]
    )
    async def test_what_it_may(self, permission: str, answers: str, talk: Any) -> None:
        kinds = ("read", "edit", "execute", "other")
        told = await talk("\n".join(["report", *(f"may {kind}" for kind in kinds)]), permission=permission)
        assert isinstance(told.end, Done)
        said = [f"{kind}: {answer}. " for kind, answer in zip(kinds, answers.split(), strict=True)]
        assert told.text.split("\n\n") == ["cwd True; mode plan" if permission == "plan" else "cwd True", *said]
        assert [result.failed for result in told.of(ToolResult)] == [word == "no" for word in answers.split()]

    async def test_what_the_agent_cannot_be_told(self, talk: Any) -> None:
        for word, value, words in (("model", "large", "choose its model"), ("permission", "plan", "plan only")):
            told = await talk("say hi", "plain", **{word: value})
            assert told.end.error.kind == "setup"
            assert words in str(told.end.error)
        assert (await talk("say hi", "plain")).text == "hi"
        assert "login" in str((await talk("say hi", "wants a login")).end.error)
        for options in ({"max_turns": 3}, {"allowed_tools": ("Bash",)}):
            with pytest.raises(ConfigError, match="has no word for"):
                Acp().check(Options(**options))

    @pytest.mark.parametrize(
        ("prompt", "kind", "words"),
        [
            ("stop max_tokens", "failed", "too long"),
            ("stop max_turn_requests", "max_turns", "as often as it may"),
            ("stop refusal", "failed", "refuses"),
            ("stop cancelled", "interrupted", "interrupted"),
            ("fail 429", "api", "no good"),
            ("fail -32603", "failed", "no good"),
        ],
    )
    async def test_how_it_can_end(self, prompt: str, kind: str, words: str, talk: Any) -> None:
        told = await talk(f"say Hm.\n{prompt}")
        assert isinstance(told.end, Failed)
        assert told.end.error.kind == kind
        assert words in str(told.end.error)
        assert told.end.session == "one"
        assert told.text == "Hm."

    async def test_a_conversation_goes_on_where_the_agent_can(self, talk: Any) -> None:
        assert (await talk("say one", "remembers")).text == "one"
        told = await talk("say two", "remembers", resume="one")
        assert told.of(Started)[0].resumed
        assert told.text == "two"  # and not what was said before
        for what, session in (("forgets", "one"), ("remembers", "another")):
            assert (await talk("say three", what, resume=session)).end.error.kind == "no_session"

    async def test_it_is_told_to_stop_and_one_that_dies(self) -> None:
        program = stand_in("official", "forgets")
        async with Sandbox.create("local", mounts=program.mounts) as sb:
            async with Runner(program, sb, options=Options(timeout=90)).stream("wait") as run:
                events = []
                async for event in run:
                    events.append(event)
                    if isinstance(event, Text):
                        run.interrupt()
            assert isinstance(events[-1], Failed)
            assert events[-1].error.kind == "interrupted"
            assert await sb.exists("cancelled")
            told = await heard(sb, program, "crash")
            assert isinstance(told.end, Failed)
            assert told.end.error.kind == "exited"
            assert told.end.error.exit_code == 3
            assert "ouch" in str(told.end.error)
            assert await sb.processes() == []


def test_what_is_said_is_what_the_library_knows() -> None:
    """To the letter, by its own description of the protocol."""
    inside = Inside("/home/agent", "/workspace", ("agent", "--acp"), ("/run/bridge", "/run/socket"))
    options = Options(model="large", permission="plan", system="Be terse.")
    task = Task(conversation("Do it."), options, inside, "s-1")
    reader = Acp().reader(task)
    first = json.loads(Acp().launch(task).stdin)
    models = {"id": "m", "name": "M", "category": "model", "type": "select", "currentValue": "small", "options": []}
    modes = {"currentModeId": "work", "availableModes": [{"id": "plan", "name": "Plan"}]}
    said = [first]
    for result in ({"protocolVersion": 1}, {"sessionId": "s", "configOptions": [models], "modes": modes}, {}, {}):
        said += [tell.line for tell in reader.feed({"id": said[-1]["id"], "result": result}) if isinstance(tell, Tell)]
    said += [tell.line for tell in reader.cancel()]
    call = {"toolCallId": "c", "kind": "read"}
    params = {"sessionId": "s", "toolCall": call, "options": [{"kind": "allow_once", "optionId": "y"}]}
    asked = {"id": "q", "method": "session/request_permission", "params": params}
    (answer,) = [tell.line for tell in reader.feed(asked) if isinstance(tell, Tell)]
    known: dict[str, type[Any]] = {
        "initialize": schema.InitializeRequest,
        "session/new": schema.NewSessionRequest,
        "session/set_config_option": schema.SetSessionConfigOptionSelectRequest,
        "session/set_mode": schema.SetSessionModeRequest,
        "session/prompt": schema.PromptRequest,
        "session/cancel": schema.CancelNotification,
    }
    assert [line["method"] for line in said] == list(known)
    for line in said:
        parsed = known[line["method"]].model_validate(line["params"])
        assert parsed.model_dump(mode="json", by_alias=True, exclude_unset=True) == line["params"]
    parsed = schema.RequestPermissionResponse.model_validate(answer["result"])
    assert parsed.model_dump(mode="json", by_alias=True, exclude_unset=True) == answer["result"]
    assert [block["text"] for block in said[4]["params"]["prompt"]] == ["Be terse.", "Do it."]


class TestOneThatKeepsToNothing:
    """What is hostile is in a sandbox."""

    @staticmethod
    @asynccontextmanager
    async def sandbox() -> AsyncIterator[Sandbox]:
        async with Sandbox.create(mounts=[Mount(HERE, PLACE)]) as sb:
            yield sb

    @staticmethod
    def program(what: str) -> Program:
        return Program("acp", ("python3", "-S", f"{PLACE}/hostile.py", what))

    async def test_lines_that_mean_nothing(self) -> None:
        async with self.sandbox() as sb:
            told = await heard(sb, self.program("noisy"), "Do it.")
        assert isinstance(told.end, Done), told.end
        assert told.end.text == told.text == "fine"
        assert told.end.usage == Usage()
        logs = [log.text for log in told.of(Log)]
        assert "no JSON \\x1b[31m" in logs
        assert "A line was too long, and was left out." in logs
        assert any("from_the_future" in log for log in logs)

    async def test_one_that_never_reads(self) -> None:
        async with self.sandbox() as sb:
            told = await heard(sb, self.program("deaf"), "Do it.")
            assert isinstance(told.end, Failed)
            assert "does not read" in str(told.end.error)
            assert await left_running(sb) == []

    async def test_one_that_started_another_and_stays(self) -> None:
        """Both are ended; what was started as tools start it lives on."""
        async with self.sandbox() as sb:
            told = await heard(sb, self.program("stubborn"), "Do it.")
            assert isinstance(told.end, Done)
            assert told.end.text == "done"
            assert await left_running(sb) == ["sleep 1000"]

    async def test_one_that_remembers_nothing(self) -> None:
        """A new conversation is begun, in which everything is told."""
        async with self.sandbox() as sb:
            for _ in range(2):
                told = await heard(sb, self.program("noisy"), "Do it.", session="chat")
                assert isinstance(told.end, Done)
                assert told.of(Started) == [Started("acp", "s")]

    async def test_one_that_cannot_be_talked_with(self) -> None:
        async with self.sandbox() as sb:
            told = await heard(sb, self.program("another_version"), "Do it.")
            assert isinstance(told.end, Failed)
            assert "version 2" in str(told.end.error)
            told = await heard(sb, self.program("gone"), "Do it.")
            assert isinstance(told.end, Failed)
            assert told.end.error.kind == "exited"
            assert "unknown option" in str(told.end.error)
            with pytest.raises(AgentError, match="cannot be started"):
                await Runner(Program("acp", ("no-such-agent", "--acp")), sb).execute("Do it.")


async def test_it_has_no_program_of_its_own() -> None:
    with pytest.raises(UnavailableError, match="Program"):
        find_agent("acp")
    async with Sandbox.create() as sb:
        with pytest.raises(ConfigError, match="no command"):
            Runner("acp", sb)


WORDS = {"gemini": ("--acp", "--skip-trust"), "opencode": ("acp",)}
FILES: dict[str, tuple[str, Any]] = {
    "gemini": (
        ".gemini/settings.json",
        {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"disableAutoUpdate": True},
        },
    ),
    "opencode": (
        ".config/opencode/opencode.json",
        {
            "autoupdate": False,
            "share": "disabled",
            "model": "fake/fake",
            "small_model": "fake/fake",
            "provider": {
                "fake": {
                    "npm": "@ai-sdk/openai-compatible",
                    "name": "Fake",
                    "options": {"baseURL": "{env:OPENAI_BASE_URL}", "apiKey": "{env:OPENAI_API_KEY}"},
                    "models": {"fake": {"name": "Fake", "limit": {"context": 128000, "output": 8192}}},
                }
            },
        },
    ),
}
ENV = {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"}


@pytest.fixture
def talking(staged: Staged, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Sets a stage with a real agent that is talked with."""

    @asynccontextmanager
    async def make(agent: str, script: Any, **more: Any) -> AsyncIterator[Stage]:
        found = installed(agent, monkeypatch)
        program = replace(found, agent="acp", argv=(*found.argv, *WORDS[agent]))
        async with staged(agent, script, program=program, env=ENV, **more) as stage:
            path, content = FILES[agent]
            await stage.sb.write(f"/home/agent/{path}", json.dumps(content))
            yield stage

    return make


FORGETFUL = pytest.mark.xfail(
    reason="its 0.61 answers most requests for an old session with an internal error", strict=False
)


class TestRealAgents:
    """With a model that does what it is told, and no network."""

    @pytest.mark.parametrize("agent", WORDS)
    async def test_a_command_a_tool_and_a_reply(self, agent: str, talking: Any) -> None:
        script = [Shell("echo hi > out.txt; cat out.txt"), Use("echo", {"text": "there"}), Say("Both done.", pieces=2)]
        async with talking(agent, script, tools=[echo]) as stage:
            end = await stage.run()
            assert isinstance(end, Done), (end, stage.model.complaints)
            assert not stage.model.complaints
            assert await stage.sb.read("out.txt") == "hi\n"
            calls, results = stage.of(ToolCall), stage.of(ToolResult)
            assert [result.id for result in results] == [call.id for call in calls]
            assert "out.txt" in str(calls[0].input)
            assert "echo" in calls[1].name
            assert [result.output.strip() for result in results] == ["hi", "echo: there"]
            assert "".join(event.text for event in stage.of(Text)) == end.text == "Both done."
            assert stage.of(Started)[0].session == end.session
            assert await left_running(stage.sb) == []

    @pytest.mark.soak
    @pytest.mark.parametrize("agent", [pytest.param("gemini", marks=FORGETFUL), "opencode"])
    async def test_a_conversation_goes_on(self, agent: str, talking: Any) -> None:
        async with talking(agent, [Say("First."), Say("Second.")], session="chat") as stage:
            first = await stage.run("What is 1+1?")
            assert isinstance(first, Done), first
            second = await stage.run("And now?")
            assert isinstance(second, Done), second
            assert second.text == "Second."
            assert "".join(event.text for event in stage.of(Text)) == "Second."  # and not what was said before
            assert stage.of(Started)[0].resumed
            assert second.session == first.session
            body = str(stage.model.requests[-1].body)
            assert [words in body for words in ("What is 1+1?", "First.", "And now?")] == [True] * 3

    @pytest.mark.parametrize("agent", ["gemini", pytest.param("opencode", marks=pytest.mark.soak)])
    async def test_an_interrupt_and_no_time(self, agent: str, talking: Any) -> None:
        script = [Shell("touch begun; sleep 97 & exec sleep 98")] * 9
        async with talking(agent, script) as stage:
            async with stage.runner.stream("Do it.") as run, asyncio.TaskGroup() as tasks:
                tasks.create_task(_when(lambda: stage.sb.exists("begun"), run))
                events = [event async for event in run]
            assert isinstance(events[-1], Failed)
            assert events[-1].error.kind == "interrupted"
            assert await left_running(stage.sb) == []
            stage.runner = stage.again(options=Options(timeout=8))
            end = await stage.run()
            assert isinstance(end, Failed)
            assert end.error.kind == "timeout"

    @pytest.mark.parametrize("agent", ["gemini", pytest.param("opencode", marks=pytest.mark.soak)])
    async def test_a_server_that_is_gone(self, agent: str, talking: Any) -> None:
        async with talking(agent, [], options=Options(timeout=90, patience=15)) as stage:
            await stage.model.__aexit__(None, None, None)
            end = await stage.run()
            assert isinstance(end, Failed), end
            assert stage.of(Started)
            assert end.error.kind in ("api", "stalled", "failed")


async def _when(so: Callable[[], Awaitable[bool]], run: Run) -> None:
    while not await so():
        await asyncio.sleep(0.05)
    run.interrupt()


def test_what_is_sent_is_what_the_package_makes_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    methods = {*meta.AGENT_METHODS.values(), *meta.CLIENT_METHODS.values()}
    assert set(acp_runner._SENT) <= methods
    assert all(hasattr(schema, name) for name in acp_runner._SENT.values())
    first = acp_runner._initialize()
    assert first["params"] == sent("initialize", first["params"])
    assert first["params"]["protocolVersion"] == PROTOCOL_VERSION
    assert sent("session/cancel", {"sessionId": "s", "more": 1}) == {"sessionId": "s"}
    assert sent("session/set_model", {"modelId": "m"}) == {"modelId": "m"}
    half = {"outcome": {"outcome": "selected", "optionId": "\ud800"}}
    assert sent("session/request_permission", half) == half


async def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    acp_runner._begin_to_load.cache_clear()
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    async with Sandbox.create("local") as sb:
        with pytest.raises(AgentError, match=r"needs its package.*paddock\[acp\]"):
            await Runner(Program("acp", ("agent",)), sb).execute("Do it.")
