"""`Memory`: commands that are functions."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator

import pytest

from paddock import Call, ExecResult, ExecTimeoutError, Limits, Memory, Sandbox, UnsupportedError


async def test_what_a_function_may_return() -> None:
    commands = {
        "none": lambda call: None,
        "code": lambda call: 3,
        "text": lambda call: "text",
        "bytes": lambda call: b"\xff",
        "whole": lambda call: ExecResult(4, b"out", b"err"),
        "crash": lambda call: 1 / 0,
        "leave": lambda call: sys.exit(5),
    }
    async with Sandbox.create(Memory(commands=commands)) as sb:  # type: ignore[arg-type]
        results = {name: await sb.exec(name) for name in commands}
    assert {name: result.exit_code for name, result in results.items()} == {
        "none": 0,
        "code": 3,
        "text": 0,
        "bytes": 0,
        "whole": 4,
        "crash": 1,
        "leave": 5,
    }
    assert results["text"].stdout == "text"
    assert results["bytes"].stdout_bytes == b"\xff"
    assert (results["whole"].stdout, results["whole"].stderr) == ("out", "err")
    assert "ZeroDivisionError" in results["crash"].stderr


async def test_a_function_sees_its_call() -> None:
    seen: list[Call] = []

    def look(call: Call) -> None:
        seen.append(call)
        call.files.write("made/here", "x", mode=0o600)
        assert call.files.exists("made/here")
        assert call.files.list() == ["made"]
        assert call.files.read("made/here") == "x"
        call.files.delete("made", recursive=True)

    async with Sandbox.create(Memory(commands={"look": look}), env={"A": "1"}) as sb:
        await sb.mkdir("sub")
        await sb.exec(["look", "one", "two words"], cwd="sub", stdin="input", check=True)
        assert await sb.list("sub") == []
    (call,) = seen
    assert call.argv == ("look", "one", "two words")
    assert (call.cwd, call.env["A"], call.stdin.read()) == ("/workspace/sub", "1", b"input")


async def test_output_comes_as_it_is_printed() -> None:
    async def slow(call: Call) -> None:
        call.print("first")
        await asyncio.sleep(0)
        call.print("second", stream="stderr")
        await asyncio.Event().wait()

    async with Sandbox.create(Memory(commands={"slow": slow})) as sb:
        process = await sb.start("slow")
        chunks = []
        async for chunk in process:
            chunks.append((chunk.stream, chunk.text))
            if len(chunks) == 2:
                await process.kill()
        assert chunks == [("stdout", "first\n"), ("stderr", "second\n")]
        assert (await process.wait()).exit_code == 137


async def test_nothing_that_is_printed_is_lost() -> None:
    async def at_once(call: Call) -> int:
        call.print("printed")
        return 2

    async with Sandbox.create(Memory(commands={"at-once": at_once})) as sb:
        result = await sb.exec("at-once")
        assert (result.exit_code, result.stdout) == (2, "printed\n")


def _stops(call: Call) -> int:
    raise StopIteration


async def test_mistakes_in_a_command_are_its_own_errors() -> None:
    commands = {
        "list": lambda call: [1],
        "stops": _stops,
        "stream": lambda call: call.print("x", stream="err"),
        "words": lambda call: sys.exit("bad luck"),
    }
    async with Sandbox.create(Memory(commands=commands), timeout=20) as sb:
        for name, words in (
            ("list", "returns"),
            ("stops", "StopIteration"),
            ("stream", "stderr"),
            ("words", "bad luck"),
        ):
            result = await sb.exec(name)
            assert result.exit_code == 1
            assert words in result.stderr


async def test_a_stdin_that_fails() -> None:
    async def breaks() -> AsyncIterator[bytes]:
        yield b"a"
        raise ZeroDivisionError

    async with Sandbox.create(Memory(commands={"cat": lambda call: call.stdin.read()}), timeout=20) as sb:
        with pytest.raises(ZeroDivisionError):
            await sb.exec("cat", stdin=breaks())
        assert await sb.processes() == []


async def test_a_plain_function_that_takes_too_long() -> None:
    def slow(call: Call) -> None:
        call.print("started")
        time.sleep(0.3)
        call.print("never seen")

    async with Sandbox.create(Memory(commands={"slow": slow})) as sb:
        with pytest.raises(ExecTimeoutError) as caught:
            await sb.exec("slow", timeout=0.1)
        assert caught.value.result.stdout == "started\n"


async def test_an_async_function_is_cancelled() -> None:
    cancelled = asyncio.Event()

    async def wait(call: Call) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with Sandbox.create(Memory(commands={"wait": wait})) as sb:
        with pytest.raises(ExecTimeoutError):
            await sb.exec("wait", timeout=0.05)
        async with asyncio.timeout(5):
            await cancelled.wait()


async def test_unknown_commands_name_the_known() -> None:
    async with Sandbox.create(Memory(commands={"ls": lambda call: 0})) as sb:
        result = await sb.exec("sl")
        assert result.exit_code == 127
        assert "registered commands: ls" in result.stderr
        with pytest.raises(UnsupportedError, match="terminals"):
            await sb.start("ls", pty=True)


async def test_sandboxes_do_not_share_commands() -> None:
    commands = {"a": lambda call: 0}
    async with Sandbox.create(Memory(commands=commands)) as sb:
        commands["b"] = lambda call: 0
        assert (await sb.exec("b")).exit_code == 127


async def test_what_is_replaced_does_not_count() -> None:
    """On a disk there has to be room for both for a moment; here there is no disk."""
    async with Sandbox.create("memory", limits=Limits(disk=10_000)) as sb:
        await sb.write("f", b"x" * 8_000)
        await sb.write("f", b"y" * 9_000)
        assert await sb.read_bytes("f") == b"y" * 9_000
