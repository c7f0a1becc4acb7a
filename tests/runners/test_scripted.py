"""The scripted agent, and what holds for runners whatever the agent: by it, as it is quick."""

import asyncio
from pathlib import Path

import pytest

import paddock.runners
from paddock import AgentError, ConfigError, Sandbox
from paddock.runners import (
    Done,
    Failed,
    Log,
    Message,
    Options,
    Program,
    Progress,
    Runner,
    Sessions,
    Started,
    Text,
    ToolCall,
    ToolResult,
    find_agent,
)


@pytest.fixture
def program() -> Program:
    return find_agent("scripted")


def echo(text: str) -> str:
    """Say it back."""
    return f"echo: {text}"


@pytest.mark.parametrize("backend", ["namespaces", "local"])
async def test_it_does_what_it_is_told(backend: str, program: Program) -> None:
    script = 'say Looking.\nrun cat in.txt; false\nwrite out.txt a b\\n\nuse echo {"text": "x"}\nsay All done.'
    async with Sandbox.create(backend, mounts=program.mounts, tools=[echo]) as sb:
        await sb.write("in.txt", "content")
        events = [event async for event in Runner(program, sb).stream(script)]
        assert [type(event) for event in events if not isinstance(event, Text)] == [
            Progress,
            Started,
            *[ToolCall, ToolResult] * 3,
            Done,
        ]
        results = [event for event in events if isinstance(event, ToolResult)]
        assert [(result.output, result.failed) for result in results] == [
            ("content", True),
            ("wrote out.txt", False),
            ("echo: x", False),
        ]
        assert await sb.read("out.txt") == "a b\n"
        assert isinstance(events[-1], Done)
        assert events[-1].text == "All done."


async def test_its_words_on_standard_error(program: Program) -> None:
    async with Sandbox.create(mounts=program.mounts) as sb:
        with pytest.raises(AgentError, match="oh no") as caught:
            await Runner(program, sb).execute("fail oh no")
        assert caught.value.kind == "exited"
        assert caught.value.exit_code == 1
        events = [event async for event in Runner(program, sb).stream("fail oh no")]
        assert Log("oh no", "stderr") in events


@pytest.mark.parametrize("line", ["wait abc", "use echo no-json"])
async def test_a_line_that_it_cannot_read(line: str, program: Program) -> None:
    async with Sandbox.create(mounts=program.mounts) as sb:
        with pytest.raises(AgentError, match=f"'{line}' is no line of mine") as caught:
            await Runner(program, sb).execute(line)
        assert "Traceback" not in str(caught.value.stderr)


@pytest.mark.parametrize(
    "options",
    [Options(permission="plan"), Options(max_turns=1), Options(model="large"), Options(allowed_tools=("run",))],
)
async def test_what_it_has_no_word_for(options: Options, program: Program) -> None:
    """It is the agent that people try things with: what it left out unheard, they would think holds."""
    async with Sandbox.create(mounts=program.mounts) as sb:
        with pytest.raises(ConfigError, match="has no word for"):
            await Runner(program, sb, options=options).execute("write a.txt hi")
        assert not await sb.exists("a.txt")
        kept = Options(system="Be kind.", timeout=60, patience=30)
        await Runner(program, sb, options=kept).execute("write a.txt hi")
        assert await sb.read("a.txt") == "hi"


async def test_a_program_that_is_not_there() -> None:
    async with Sandbox.create() as sb:
        with pytest.raises(AgentError, match="cannot be started") as caught:
            await Runner(Program("scripted", ("no-such-agent",)), sb).execute("Do it.")
        assert caught.value.kind == "setup"
        assert "paddock agents" in str(caught.value)


async def test_models_that_are_missing() -> None:
    async with Sandbox.create() as sb:
        with pytest.raises(ConfigError, match=r"Claude Code asks models.* what Gateway\.attach returned"):
            Runner("claude", sb)
        Runner(Program("acp", ("agent",)), sb)


async def test_a_conversation_goes_on_in_another_sandbox(program: Program, tmp_path: Path) -> None:
    memory = Sessions(tmp_path / "sessions")
    for turn, expected in enumerate(["nothing", "recall", "recall\nrecall"]):
        async with Sandbox.create(mounts=program.mounts) as sb:
            runner = Runner(program, sb, session="chat", memory=memory)
            events = [event async for event in runner.stream("recall")]
            (started,) = [event for event in events if isinstance(event, Started)]
            assert started.resumed is (turn > 0)
            assert isinstance(events[-1], Done)
            assert events[-1].text == expected
    async with Sandbox.create(mounts=program.mounts) as sb:
        other = Runner(program, sb, session="another", memory=memory)
        assert (await other.execute("recall")).text == "nothing"


async def test_a_conversation_that_is_forgotten(program: Program) -> None:
    """It begins anew, and that is said."""
    async with Sandbox.create(mounts=program.mounts) as sb:
        runner = Runner(program, sb, session="chat")
        await runner.execute("say one")
        await sb.exec("rm -r ~/.paddock/scripted", check=True)
        for forgotten in (True, False):
            events = [event async for event in runner.stream("recall")]
            assert any("begins anew" in event.text for event in events if isinstance(event, Log)) is forgotten
            assert isinstance(events[-1], Done)


async def test_it_remembers_what_was_interrupted(program: Program) -> None:
    async with Sandbox.create(mounts=program.mounts) as sb:
        runner = Runner(program, sb, session="chat")
        async with runner.stream("say one\nwait 60") as run:
            async for event in run:
                if isinstance(event, Text):
                    run.interrupt()
        assert (await runner.execute("recall")).text == "say one\nwait 60"


@pytest.mark.parametrize("kept", [False, True])
async def test_profiles_know_nothing_of_each_other(kept: bool, program: Program, tmp_path: Path) -> None:
    memory = Sessions(tmp_path / "sessions") if kept else None
    async with Sandbox.create(mounts=program.mounts) as sb:
        one, other = (Runner(program, sb, session="chat", memory=memory, profile=name) for name in ("one", "other"))
        await one.execute("run echo 1 > $HOME/mine")
        assert (await other.execute("recall")).text == "nothing"
        assert (await one.execute("recall")).text == "run echo 1 > $HOME/mine"
        with pytest.raises(ConfigError, match="profile"):
            Runner(program, sb, profile="../up")
        with pytest.raises(ConfigError, match="profile"):
            Runner(program, sb, session="chat", profile="\udcff")


async def test_many_at_once_in_one_sandbox(program: Program) -> None:
    async with Sandbox.create(mounts=program.mounts) as sb:
        runs = [Runner(program, sb).execute(f"run sleep 0.1\nsay {number}") for number in range(8)]
        assert [done.text for done in await asyncio.gather(*runs)] == [str(number) for number in range(8)]


async def test_what_paddock_writes_is_no_change(program: Program, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "a.txt").write_text("a\n")
    async with Sandbox.create(workspace=tmp_path / "project", review=True, mounts=program.mounts) as sb:
        await Runner(program, sb, session="x").execute("write b.txt b")
        assert [change.path for change in await sb.changes()] == ["/workspace/b.txt"]


async def test_a_server_lives_on(program: Program) -> None:
    async with Sandbox.create(mounts=program.mounts) as sb:
        await Runner(program, sb).execute("run python3 -m http.server 8123 > /dev/null 2>&1 &")
        await sb.wait_for_port(8123)
        assert (await sb.exec(["pgrep", "-c", "-f", "http.server"])).stdout == "1\n"


async def test_patience_is_for_silence_and_not_for_tools(program: Program) -> None:
    async with Sandbox.create(mounts=program.mounts) as sb:
        hasty = Options(patience=1)
        assert (await Runner(program, sb, options=hasty).execute("run sleep 2\nsay fine")).text == "fine"
        events = [event async for event in Runner(program, sb, options=hasty).stream("say so\nwait 60")]
        assert isinstance(events[-1], Failed)
        assert events[-1].error.kind == "stalled"


async def test_what_is_no_conversation(program: Program) -> None:
    async with Sandbox.create(mounts=program.mounts) as sb:
        for nothing in ("", " \n", [], [Message("assistant", "Hm.")], [Message("system", "Be nice.")]):
            with pytest.raises(ConfigError, match="no message of the user"):
                Runner(program, sb).stream(nothing)
        for nonsense in (5, {"role": "user", "content": "hi"}):
            with pytest.raises(ConfigError, match="are no messages"):
                Runner(program, sb).stream(nonsense)  # type: ignore[arg-type]


def test_names_stay_what_they_are() -> None:
    """Also when agents were loaded, whose files are in a folder of the same name."""
    find_agent("scripted")
    assert "scripted" in paddock.runners.agents()
