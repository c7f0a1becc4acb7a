"""Standard input: large, unread, endless, closed early."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator

import pytest

from paddock import Sandbox
from paddock.backends.local import Local

LARGE = 50_000_000


async def test_large(mode: Local) -> None:
    async with Sandbox.create(mode) as sb:
        result = await sb.exec("cat | wc -c", stdin=b"x" * LARGE)
        assert result.stdout.strip() == str(LARGE)


async def test_all_of_it_in_order(mode: Local) -> None:
    data = os.urandom(3_000_000)
    async with Sandbox.create(mode) as sb:
        assert (await sb.exec(["cat"], stdin=data)).stdout_bytes == data


async def test_never_read(mode: Local) -> None:
    async with Sandbox.create(mode) as sb:
        result = await sb.exec("sleep 0.2; echo done", stdin=b"x" * LARGE, timeout=30)
        assert (result.exit_code, result.stdout) == (0, "done\n")


async def test_closed_by_the_command(mode: Local) -> None:
    async with Sandbox.create(mode) as sb:
        result = await sb.exec("exec 0<&-; sleep 0.2; echo done", stdin=b"x" * LARGE, timeout=30)
        assert (result.exit_code, result.stdout) == (0, "done\n")
        process = await sb.start("exec 0<&-; echo closed; sleep 60", stdin=True)
        await anext(aiter(process))
        with pytest.raises(BrokenPipeError):
            await asyncio.wait_for(process.write(b"x" * LARGE), 30)
        await process.kill()


async def test_endless(mode: Local) -> None:
    closed = False

    async def endless() -> AsyncIterator[bytes]:
        nonlocal closed
        try:
            while True:
                yield b"y\n" * 1000
                await asyncio.sleep(0)
        finally:
            closed = True

    async with Sandbox.create(mode) as sb:
        parts = endless()
        result = await sb.exec(["head", "-n", "3"], stdin=parts, timeout=30)
        assert (result.exit_code, result.stdout) == (0, "y\ny\ny\n")
        await parts.aclose()  # type: ignore[attr-defined]
        assert closed


async def test_one_that_fails(mode: Local) -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield b"x"
        raise LookupError("no more")

    async with Sandbox.create(mode) as sb:
        with pytest.raises(LookupError):
            await sb.exec(["cat"], stdin=failing(), timeout=30)
        assert await sb.processes() == []


async def test_writers_take_turns(mode: Local) -> None:
    async with Sandbox.create(mode) as sb:
        process = await sb.start(
            [sys.executable, "-SEc", "import sys; print(len(set(sys.stdin.read().split())))"], stdin=True
        )
        await asyncio.gather(*(process.write(f"{n:06}" * 100_000 + "\n") for n in range(5)))
        await process.close_stdin()
        with pytest.raises(BrokenPipeError):
            await process.write("more")
        assert (await process.wait()).stdout == "5\n"
