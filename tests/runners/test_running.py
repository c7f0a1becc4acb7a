"""Programs that behave badly, whatever agent they are: their lines, their ends, and what they leave."""

import asyncio
import errno
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock import AgentError, ConfigError, Gateway, Sandbox, SandboxDiedError, SandboxError
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
    Started,
    Text,
    running,
    sessions,
)
from paddock.runners.lines import Lines
from paddock.runners.running import Running
from paddock.sandbox import Process
from paddock.testing import FakeModel

STARTED = """echo '{"kind": "started", "agent": "scripted", "session": "s"}'"""
SAID = """echo '{"kind": "text", "text": "hello"}'"""
ENDED = """echo '{"kind": "done", "text": "bye"}'"""


def badly(script: str) -> Program:
    """A program that prints what an agent would, as a shell script says."""
    return Program("scripted", ("sh", "-c", f"cat > /dev/null; {script}"))


async def events_of(sb: Sandbox, script: str, options: Options | None = None) -> list[Event]:
    runner = Runner(badly(script), sb, options=options or Options(timeout=60, patience=30))
    return [event async for event in runner.stream("Do it.")]


async def alive(sb: Sandbox, name: str) -> bool:
    return (await sb.exec(["pgrep", "-f", name])).exit_code == 0


async def begun(sb: Sandbox, run: Run) -> None:
    async for event in run:
        if isinstance(event, Started):
            break
    while not await sb.exists("begun"):
        await asyncio.sleep(0.02)


@given(st.lists(st.binary(max_size=30)), st.integers(1, 12))
def test_lines_do_not_depend_on_how_they_are_cut(pieces: list[bytes], most: int) -> None:
    whole = b"".join(pieces)
    cut, uncut = Lines(most), Lines(most)
    lines = [line for piece in pieces for line in cut.feed(piece)] + list(cut.rest())
    assert lines == [*uncut.feed(whole), *uncut.rest()]
    fitting = [line for line in whole.split(b"\n") if len(line) <= most]
    assert lines == [line.rstrip(b"\r") for line in fitting if line.strip()]
    assert cut.skipped == len(whole.split(b"\n")) - len(fitting)


async def test_a_line_that_is_too_long_is_left_out_and_the_rest_is_read() -> None:
    huge = """printf '{"kind": "text", "text": "'; head -c 53000000 /dev/zero | tr '\\0' x; echo '"}'"""
    large = """printf '{"kind": "text", "text": "'; head -c 9000000 /dev/zero | tr '\\0' y; echo '"}'"""
    async with Sandbox.create() as sb:
        events = await events_of(sb, f"{STARTED}; {huge}; {large}; {SAID}; {ENDED}")
        assert [len(event.text) for event in events if isinstance(event, Text)] == [9_000_000, 5]
        assert [event.text for event in events if isinstance(event, Log)] == ["A line was too long, and was left out."]
        assert isinstance(events[-1], Done)


async def test_what_nobody_understands_is_a_remark() -> None:
    lines = r"""printf 'Hello \033[31m\n[1]\n{"kind": "made up"}\n{"kind": "text", "text": 7}\n{"a":\n'"""
    async with Sandbox.create() as sb:
        events = await events_of(sb, f"{STARTED}; {lines}; {ENDED}")
        remarks = [event.text for event in events if isinstance(event, Log)]
        assert remarks == ["Hello \\x1b[31m", "[1]", '{"a":']
        assert isinstance(events[-1], Done)


async def test_no_result_is_an_error_with_its_last_words() -> None:
    async with Sandbox.create() as sb:
        for code in (0, 3):
            end = (await events_of(sb, f"{STARTED}; {SAID}; echo 'no such thing' >&2; exit {code}"))[-1]
            assert isinstance(end, Failed)
            assert (end.error.kind, end.error.exit_code) == ("exited", code)
            assert "no such thing" in str(end.error)
            assert end.error.stderr == "no such thing\n"


async def test_after_its_result_it_is_ended_and_what_it_started_is_not() -> None:
    hang = "trap '' TERM; sleep 7777 & exec 3< /dev/null; while :; do sleep 8888; done"
    async with Sandbox.create() as sb:
        events = await events_of(sb, f"{STARTED}; {ENDED}; {hang}")
        assert isinstance(events[-1], Done)
        assert not await alive(sb, "while :")
        assert await alive(sb, "sleep 7777")


async def test_who_ends_without_a_result_takes_all_along() -> None:
    """As one that the kernel has killed, for want of memory: its tools would work on."""
    async with Sandbox.create() as sb:
        end = (await events_of(sb, f"{STARTED}; setsid sleep 7777 & sleep 7778 & kill -KILL $$"))[-1]
        assert isinstance(end, Failed)
        assert (end.error.kind, end.error.exit_code) == ("exited", 137)
        assert not await alive(sb, "sleep 777")


@pytest.mark.parametrize("kind", ["interrupted", "timeout"])
async def test_it_ends_in_time_while_whoever_listens_is_busy(kind: str) -> None:
    """As one that writes to a pager: all that runs has ended before the next event is asked for."""
    async with Sandbox.create() as sb:
        options = Options(timeout=3600 if kind == "interrupted" else 2)
        runner = Runner(badly(f"{STARTED}; touch begun; setsid sleep 7777 & {SAID}; sleep 7778"), sb, options=options)
        async with runner.stream("Do it.") as run:
            await begun(sb, run)
            if kind == "interrupted":
                run.interrupt()
            until = time.monotonic() + 20
            while await alive(sb, "sleep 777"):
                assert time.monotonic() < until
                await asyncio.sleep(0.05)
            end = [event async for event in run][-1]
        assert isinstance(end, Failed)
        assert end.error.kind == kind


async def test_who_takes_no_interrupt_is_ended_with_all_it_started() -> None:
    deaf = "trap '' INT TERM; touch begun; setsid sleep 7777 & while :; do sleep 8888; done"
    async with Sandbox.create() as sb:
        runner = Runner(badly(f"{STARTED}; {deaf}"), sb)
        async with runner.stream("Do it.") as run:
            await begun(sb, run)
            run.interrupt()
            run.interrupt()
            at = time.monotonic()
            end = [event async for event in run][-1]
        assert time.monotonic() - at < 3, "half a second, and what it takes to end all"
        assert isinstance(end, Failed)
        assert end.error.kind == "interrupted"
        assert not await alive(sb, "sleep")


async def test_it_may_end_before_it_reads_what_it_is_told() -> None:
    async with Sandbox.create() as sb:
        early = Program("scripted", ("sh", "-c", f"{STARTED}; {ENDED}"))
        assert (await Runner(early, sb).execute("x" * 5_000_000)).text == "bye"


async def test_a_sandbox_that_is_closed_meanwhile() -> None:
    async with Sandbox.create() as sb:
        runner = Runner(badly(f"{STARTED}; touch begun; sleep 8888"), sb)
        async with runner.stream("Do it.") as run:
            await begun(sb, run)
            await sb.close()
            end = [event async for event in run][-1]
        assert isinstance(end, Failed)
        assert end.error.exit_code == 137


async def test_who_never_stops_talking_is_ended_in_time() -> None:
    async with Sandbox.create() as sb:
        end = (await asyncio.wait_for(events_of(sb, f"{STARTED}; yes '{{}}'", Options(timeout=1)), 20))[-1]
        assert isinstance(end, Failed)
        assert end.error.kind == "timeout"


async def test_every_event_can_be_told_as_json() -> None:
    """However deep what it has is in one another; what is too deep is a remark."""
    call = """printf '{"kind": "tool_call", "id": "%s", "name": "n", "input": {"a": %s}}\\n' """
    deep, flat = f"{'[' * 400}{']' * 400}", f"[{','.join(['[]'] * 400)}]"
    async with Sandbox.create() as sb:
        events = await events_of(sb, f"{STARTED}; {call} deep '{deep}'; {call} flat '{flat}'; {ENDED}")
        told = [json.loads(json.dumps(event.to_dict())) for event in events]
        assert [one["id"] for one in told if one["kind"] == "tool_call"] == ["flat"]
        assert isinstance(events[-1], Done)


async def test_numbers_that_json_does_not_have() -> None:
    call = """printf '{"kind": "tool_call", "id": "1", "name": "n", "input": {"a": [NaN, -Infinity, 1e999, 1.5]}}\\n'"""
    async with Sandbox.create() as sb:
        events = await events_of(sb, f"{STARTED}; {call}; {ENDED}")
        told = [json.dumps(event.to_dict(), allow_nan=False) for event in events]
        (input,) = [json.loads(one)["input"] for one in told if "tool_call" in one]
        assert input == {"a": [None, None, None, 1.5]}
        assert isinstance(events[-1], Done)


async def test_a_last_line_without_an_end_is_told() -> None:
    async with Sandbox.create() as sb:
        events = await events_of(sb, f"""{STARTED}; printf 'no such thing' >&2; printf '%s' "$({SAID})"; exit 3""")
        assert Text("hello") in events
        assert Log("no such thing", "stderr") in events
        end = events[-1]
        assert isinstance(end, Failed)
        assert (end.error.kind, end.error.exit_code, end.error.stderr) == ("exited", 3, "no such thing\n")
        events = await events_of(sb, f"""{STARTED}; printf '%s' "$({ENDED})" """)
        assert isinstance(events[-1], Done)


async def test_an_interrupt_after_the_result_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it take the result away."""
    monkeypatch.setattr(running, "_TO_END", 3600.0)
    usual = Running._put_away
    hang = "trap '' TERM; while :; do sleep 8888; done"
    async with Sandbox.create() as sb:
        run = Runner(badly(f"{STARTED}; {ENDED}; {hang}"), sb).stream("Do it.")

        def interrupted(self: Running, *given: Any) -> Any:
            run.interrupt()
            return usual(self, *given)

        monkeypatch.setattr(Running, "_put_away", interrupted)
        assert isinstance([event async for event in run][-1], Done)
        while await alive(sb, "while :"):  # its child, which has not become `sleep` yet
            await asyncio.sleep(0.02)


async def test_a_home_in_which_nothing_can_be_written() -> None:
    """An agent needs files there: the run ends as others do, and says why."""
    async with (
        FakeModel([]) as model,
        Gateway(model.connector("anthropic")) as gateway,
        Sandbox.create("namespaces") as sb,
    ):
        await sb.exec("rm -rf ~/.paddock; chmod 500 ~", check=True)
        runner = Runner("claude", sb, await gateway.attach(sb))
        end = [event async for event in runner.stream("Do it.")][-1]
        assert isinstance(end, Failed)
        assert (end.error.kind, end.error.agent) == ("sandbox", "claude")
        assert isinstance(end.error.__cause__, SandboxError)
        assert end.error.message == end.error.__cause__.message
        with pytest.raises(AgentError):
            await runner.execute("Do it.")


async def test_a_sandbox_that_dies_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    async def died() -> None:
        raise SandboxDiedError("The sandbox died.")

    usual = Sandbox.start

    async def start(*given: Any, **more: Any) -> Process:
        process = await usual(*given, **more)
        monkeypatch.setattr(process, "wait", died)
        return process

    async with Sandbox.create() as sb:
        monkeypatch.setattr(Sandbox, "start", start)
        end = (await events_of(sb, STARTED))[-1]
        assert isinstance(end, Failed)
        assert isinstance(end.error.__cause__, SandboxDiedError)
        assert isinstance((await events_of(sb, f"{STARTED}; {ENDED}"))[-1], Done), "which was there before"


async def test_a_mistake_of_the_caller_is_no_run() -> None:
    async with Sandbox.create() as sb:
        with pytest.raises(ConfigError, match="no word for max_turns"):
            async for _ in Runner(Program("acp", ("agent",)), sb, options=Options(max_turns=3)).stream("Do it."):
                pass


async def test_a_disk_that_is_full_takes_no_result_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sessions, "_pack", full)
    async with Sandbox.create() as sb:
        runner = Runner(badly(f"{STARTED}; {ENDED}"), sb, session="s", memory=Sessions(tmp_path))
        events = [event async for event in runner.stream("Do it.")]
        assert isinstance(events[-1], Done)
        assert [event.text for event in events if isinstance(event, Log)] == [
            "The conversation is not kept for another sandbox: No space left on device"
        ]
        assert (await runner.execute("Do it.")).text == "bye"


@pytest.mark.parametrize("made", ["seq 1 2001 | xargs touch", "truncate -s 65M large"])
async def test_what_is_too_much_is_not_kept_nor_what_was_before(made: str, tmp_path: Path) -> None:
    memory, where = Sessions(tmp_path), "mkdir -p ~/.paddock/scripted; cd ~/.paddock/scripted"
    async with Sandbox.create() as sb:
        for script, kept in (("touch x", True), (made, False), ("rm -f *; touch y", True)):
            runner = Runner(badly(f"{STARTED}; {where}; {script}; {ENDED}"), sb, session="s", memory=memory)
            events = [event async for event in runner.stream("Do it.")]
            assert isinstance(events[-1], Done)
            assert memory.knows("scripted", "s") is kept
            assert any("too much" in event.text for event in events if isinstance(event, Log)) is not kept


async def test_what_cannot_be_kept_takes_no_result_away(tmp_path: Path) -> None:
    memory = "~/.paddock/scripted"
    async with Sandbox.create("namespaces") as sb:
        for made in (
            f"mkdir -p {memory}; touch {memory}/x; chmod 000 {memory}/x",
            f"ln -s /etc {memory}",
            f"mkdir -p {memory}; cd {memory}; seq 1 5000 | xargs touch",
        ):
            runner = Runner(badly(f"{STARTED}; {made}; {ENDED}"), sb, session="s", memory=Sessions(tmp_path))
            assert (await asyncio.wait_for(runner.execute("Do it."), 20)).text == "bye"
            await sb.exec(f"rm -rf {memory}")
