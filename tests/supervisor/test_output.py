"""Output: bounded, in order, never in the command's way unless somebody reads who is slow."""

import asyncio
import resource
import sys

import pytest

from paddock import ExecTimeoutError, Sandbox
from paddock.backends.local import Local
from supervisor.marks import Mark, until

MIB = 1 << 20
COUNT = "import sys\nfor n in range({}): sys.stdout.write(f'{{n:07}}\\n')"


def _peak() -> int:
    """The most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def test_for_ever(mode: Local) -> None:
    async with Sandbox.create(mode) as sb:
        before = _peak()
        with pytest.raises(ExecTimeoutError) as caught:
            await sb.exec(["yes"], timeout=2, max_output=MIB)
        assert len(caught.value.result.stdout_bytes) == MIB
        assert caught.value.result.truncated
        assert _peak() - before < 64 * MIB


async def test_one_line_without_an_end(way: Local) -> None:
    async with Sandbox.create(way) as sb:
        before = _peak()
        result = await sb.exec(["head", "-c", str(1 << 30), "/dev/zero"], max_output=MIB)
        assert (result.exit_code, len(result.stdout_bytes), result.truncated) == (0, MIB, True)
        assert _peak() - before < 64 * MIB


async def test_a_byte_at_a_time(way: Local) -> None:
    """What is kept costs about what it holds, in however small pieces it came."""
    code = "import os\nfor _ in range(200_000): os.write(1, b'x')"
    async with Sandbox.create(way) as sb:
        process = await sb.start([sys.executable, "-SEc", code])
        result = await process.wait()
        assert len(result.stdout_bytes) == 200_000
        pieces = process._running._output._pieces["stdout"]  # type: ignore[attr-defined]
        assert len(pieces) < 1_000


async def test_nobody_reads(mode: Local) -> None:
    async with Sandbox.create(mode) as sb:
        process = await sb.start([sys.executable, "-SEc", COUNT.format(300_000)], max_output=80_000)
        result = await process.wait()
        assert result.stdout == "".join(f"{n:07}\n" for n in range(290_000, 300_000))
        assert result.truncated


async def test_a_slow_reader_loses_nothing(mode: Local) -> None:
    async with Sandbox.create(mode) as sb:
        process = await sb.start([sys.executable, "-SEc", COUNT.format(500_000)], max_output=80_000)
        found = bytearray()
        async for chunk in process:
            found += chunk.data
            await asyncio.sleep(0.001)
        assert found == "".join(f"{n:07}\n" for n in range(500_000)).encode()


async def test_a_slow_reader_holds_the_command_up(mode: Local) -> None:
    code = "import os, sys\nfor n in range(1000): os.write(1, bytes(65536)); sys.stderr.write('.'); sys.stderr.flush()"
    async with Sandbox.create(mode) as sb:
        process = await sb.start([sys.executable, "-SEc", f"{code}\nopen('done', 'w')"])
        reader = aiter(process)
        await anext(reader)
        await asyncio.sleep(0.3)
        assert not await sb.exists("done")
        size = 0
        async for chunk in reader:
            size += len(chunk.data) if chunk.stream == "stdout" else 0
        assert await sb.exists("done")


async def test_a_reader_that_goes_away(mode: Local) -> None:
    """It was behind, so the command waits for it; then nobody reads, and nobody is waited for."""
    async with Sandbox.create(mode) as sb:
        process = await sb.start(["head", "-c", str(64 * MIB), "/dev/zero"], max_output=MIB)
        reader = aiter(process)
        await anext(reader)
        await asyncio.sleep(0.2)
        assert process.exit_code is None
        del reader
        result = await asyncio.wait_for(process.wait(), 30)
        assert (result.exit_code, len(result.stdout_bytes)) == (0, MIB)


async def test_two_readers(mode: Local) -> None:
    async with Sandbox.create(mode) as sb:
        process = await sb.start([sys.executable, "-SEc", COUNT.format(300_000)])

        async def read(pause: float) -> bytes:
            found = bytearray()
            async for chunk in process:
                found += chunk.data
                await asyncio.sleep(pause)
            return bytes(found)

        one, other = await asyncio.gather(read(0), read(0.001))
        assert one == other == "".join(f"{n:07}\n" for n in range(300_000)).encode()


async def test_a_reader_who_comes_late(mode: Local) -> None:
    async with Sandbox.create(mode) as sb:
        process = await sb.start("echo one; echo two >&2; read word; echo $word", stdin=True)
        first = aiter(process)
        seen = (await anext(first)).data + (await anext(first)).data
        assert sorted(seen.split()) == [b"one", b"two"]
        late = aiter(process)
        await process.write("three\n")
        assert b"".join([chunk.data async for chunk in late]).split() == [*seen.split(), b"three"]
        assert b"".join([chunk.data async for chunk in process]).split() == [*seen.split(), b"three"]


async def test_children_that_print_on(mode: Local, mark: Mark) -> None:
    """They hold the pipes of a command that has ended. Nobody waits for them, and they get no SIGPIPE."""
    async with Sandbox.create(mode) as sb:
        child = "i=0; while [ $i -lt 20000 ]; do echo 0123456789; i=$((i+1)); done; touch printed; sleep 60"
        result = await sb.exec(f"({child}) & echo done", env=mark.env, timeout=30)
        assert result.exit_code == 0
        assert "done\n" in result.stdout
        deadline = asyncio.get_running_loop().time() + 20
        while not await sb.exists("printed") and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)
        assert await sb.exists("printed")
        assert await until(mark.pids)
    assert mark.gone()


async def test_children_that_print_for_ever(mode: Local, mark: Mark) -> None:
    async with Sandbox.create(mode) as sb:
        result = await sb.exec("yes & yes >&2 & echo done", env=mark.env, timeout=30)
        assert result.exit_code == 0
        assert (await sb.exec(["echo", "still here"], timeout=30)).stdout == "still here\n"
        assert await until(lambda: len(mark.pids()) == 2)
    assert mark.gone()
