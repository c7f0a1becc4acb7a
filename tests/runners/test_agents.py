"""What holds for every agent whose real program is here."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from paddock import Tool
from paddock.runners import (
    Done,
    Failed,
    Message,
    Options,
    Run,
    Sessions,
    Started,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    agents,
    failures,
)
from paddock.runners.messages import conversation
from paddock.testing import Cut, Fail, Say, Shell, Use, Wait
from runners.conftest import WIRES, Staged, left_running, texts

SLOW = ("opencode",)
"""They take seconds to start."""
COMMANDS = ("claude", "gemini")
"""To them, what begins with a slash is no prompt."""
FIRST_WORDS = ("codex",)
"""They keep to the system prompt of the beginning, in a conversation that goes on."""
REAL = [name for name in WIRES if name in agents()]
HOSTILE = "it's \"quoted\" $(touch ran) `touch ran`\n\\ EOF\n'''\n$HOME ${HOME} %s \t ü €  -- --help\n\n"

pytestmark = pytest.mark.parametrize("agent", REAL)


def echo(text: str) -> str:
    """Say it back."""
    return f"echo: {text}"


async def test_a_command_a_tool_and_a_reply(agent: str, staged: Staged) -> None:
    script = [Shell("echo hi > out.txt; cat out.txt"), Use("echo", {"text": "there"}), Say("Both done.", pieces=2)]
    async with staged(agent, script, tools=[echo]) as stage:
        end = await stage.run()
        assert isinstance(end, Done), (end, stage.model.complaints)
        assert not stage.model.complaints
        assert await stage.sb.read("out.txt") == "hi\n"
        calls, results = stage.of(ToolCall), stage.of(ToolResult)
        assert len(calls) == 2
        assert [result.id for result in results] == [call.id for call in calls]
        assert "out.txt" in str(calls[0].input)
        assert "echo" in calls[1].name
        assert "hi" in results[0].output
        assert "echo: there" in results[1].output
        assert not any(result.failed for result in results)
        assert "".join(event.text for event in stage.of(Text)).endswith("Both done.")
        assert end.text == "Both done."
        assert len(stage.of(Started)) == 1
        total = sum(stage.of(Usage), Usage())
        assert (total.input, total.output) == (end.usage.input, end.usage.output) == (300, 60)
        assert await left_running(stage.sb) == []


async def asked(text: str) -> str:
    """Say it back when somebody has agreed."""
    await asyncio.sleep(65)
    return f"agreed: {text}"


@pytest.mark.soak
@pytest.mark.timeout(300)
async def test_a_tool_about_which_somebody_is_asked(agent: str, staged: Staged) -> None:
    """People take more than the minute that clients give a tool by themselves."""
    script = [Use("asked", {"text": "yes"}), Say("Done.")]
    async with staged(agent, script, tools=[Tool(asked, timeout=200)], options=Options(timeout=250)) as stage:
        assert isinstance(await stage.run(), Done)
        (result,) = stage.of(ToolResult)
        assert "agreed: yes" in result.output


async def test_prompts_arrive_as_they_are_and_conversations_go_on(agent: str, staged: Staged, tmp_path: Path) -> None:
    """Byte by byte, with what was said before; then by the agent's own memory, in another sandbox."""
    said = [Message("system", "You are terse."), Message("user", "What is 1+1?"), Message("assistant", "Two.")]
    more: dict[str, Any] = {"session": "chat-1", "memory": Sessions(tmp_path)}
    async with staged(agent, [Say("First.")], **more) as stage:
        first = await stage.run([*said, Message("user", HOSTILE)])
        assert isinstance(first, Done), first
        asked = stage.model.requests[0]
        whole = conversation([*said, Message("user", HOSTILE)]).whole()
        assert whole in texts(asked.body)
        assert asked.text == HOSTILE
        assert whole.endswith(HOSTILE)
        assert "What is 1+1?" in whole
        assert "Two." in whole
        assert "You are terse." in str(asked.body)
        assert not await stage.sb.exists("ran")
    options = Options(system="You are kind now.", timeout=120, patience=60)
    async with staged(agent, [Say("Second.")], **more, options=options) as stage:
        said += [Message("user", HOSTILE), Message("assistant", "First."), Message("user", "And now?")]
        second = await stage.run(said)
        assert isinstance(second, Done), second
        assert second.text == "Second."
        assert stage.of(Started)[0].resumed
        assert second.session == first.session
        body = str(stage.model.requests[-1].body)
        assert body.count("What is 1+1?") == 1  # it is remembered, and not told again
        assert stage.model.requests[-1].text == "And now?"
        assert ("You are kind now." in body) is (agent not in FIRST_WORDS)
        assert "First." in body
        assert second.usage.input == 100  # and not what was used before


async def test_a_prompt_is_no_command(agent: str, staged: Staged) -> None:
    """A line break before it sees to that where a program has commands of its own."""
    async with staged(agent, [Say("Read.")], session="chat-1") as stage:
        prompts = ("/compact what  \n", "/quit", "  !ls\r\n#x \x1b[1m\n\n", "\ufeffa\0b\u2028\r😀")
        for prompt in prompts:
            end = await stage.run(prompt)
            assert isinstance(end, Done), end
            assert end.text == "Read."
            assert stage.of(Started)[0].resumed is (prompt != prompts[0])
            assert stage.model.requests[-1].text == ("\n" if agent in COMMANDS and prompt[0] == "/" else "") + prompt
        assert len(stage.model.requests) == len(prompts)


@pytest.mark.parametrize("status", [400, 401, 404, 429, 529])
async def test_an_error_of_the_model_is_one_typed_error(agent: str, status: int, staged: Staged) -> None:
    options = Options(timeout=90, patience=60 if agent in SLOW else 20)
    async with staged(agent, lambda _: Fail(status, f"no good {status}"), options=options) as stage:
        end = await stage.run()
        assert isinstance(end, Failed), end
        assert (end.error.agent, end.error.kind, end.error.status) == (agent, "api", status), end.error
        assert end.error.hint == failures.api(agent, status, "").hint


@pytest.mark.parametrize("how", ["dead", "cut"])
async def test_a_server_that_is_gone(agent: str, how: str, staged: Staged) -> None:
    options = Options(timeout=90, patience=12)
    async with staged(agent, lambda _: [Say("Half of a sen"), Cut()], options=options) as stage:
        if how == "dead":
            await stage.model.__aexit__(None, None, None)
        end = await stage.run()
        assert isinstance(end, Failed), end
        assert (end.error.kind, end.error.status) == ("api", 502 if how == "dead" else None), end.error


async def test_a_server_that_says_nothing(agent: str, staged: Staged) -> None:
    """It is waited for as long as was said, and then nothing of the program is left."""
    async with staged(agent, lambda _: Wait(600), options=Options(timeout=90, patience=8)) as stage:
        end = await stage.run()
        assert isinstance(end, Failed), end
        assert end.error.kind == "stalled"
        assert end.seconds < 30
        assert await left_running(stage.sb) == []


async def test_an_interrupt_leaves_nothing(agent: str, staged: Staged) -> None:
    async with staged(agent, [Shell("touch begun; sleep 97 & exec sleep 98")]) as stage:
        async with stage.runner.stream("Do it.") as run, asyncio.TaskGroup() as tasks:
            tasks.create_task(_interrupted(stage.sb, run))
            events = [event async for event in run]
        end = events[-1]
        assert isinstance(end, Failed), end
        assert end.error.kind == "interrupted"
        assert await left_running(stage.sb) == []


async def test_a_program_that_is_killed_takes_its_tools_along(agent: str, staged: Staged) -> None:
    async with (
        staged(agent, [Shell("touch begun; setsid sleep 97 & exec sleep 98")]) as stage,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(_killed(stage.sb, stage.runner.program.argv[-1]))
        end = await stage.run()
        assert isinstance(end, Failed), end
        assert (end.error.kind, end.error.exit_code) == ("exited", 137)
        assert await left_running(stage.sb) == []


async def _killed(sb: Any, program: str) -> None:
    while not await sb.exists("begun"):
        await asyncio.sleep(0.05)
    await sb.exec(["pkill", "-KILL", "-f", program], check=True)


async def _interrupted(sb: Any, run: Run) -> None:
    while not await sb.exists("begun"):
        await asyncio.sleep(0.05)
    run.interrupt()


async def test_time_runs_out(agent: str, staged: Staged) -> None:
    """Also for whoever waits for a tool; and whoever goes away takes everything along."""
    async with staged(agent, [Shell("exec sleep 99")] * 9, options=Options(timeout=8)) as stage:
        end = await stage.run()
        assert isinstance(end, Failed), end
        assert end.error.kind == "timeout"
        assert await left_running(stage.sb) == []
        async with stage.again(options=Options(timeout=60)).stream("Do it.") as run:
            async for event in run:
                if isinstance(event, (ToolCall, Started)):
                    break
        assert await left_running(stage.sb) == []
