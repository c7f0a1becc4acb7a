"""The process that waits to be the next command: whatever is done to it, commands run."""

import asyncio
import signal

import pytest

from paddock import Namespaces, Sandbox
from paddock.backends.local import Local

TO_ALL_OTHERS = (
    "import os; [os.kill(int(p), {}) for p in os.listdir('/proc') if p.isdecimal() and int(p) not in (1, os.getpid())]"
)


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
async def test_signals_to_all_processes_of_a_sandbox(number: signal.Signals) -> None:
    """Commands can reach it, as they can reach each other."""
    async with Sandbox.create(Namespaces()) as sb:
        for _ in range(5):
            await sb.exec(["python3", "-c", TO_ALL_OTHERS.format(int(number))])
            assert (await sb.exec("echo fine")).stdout == "fine\n"


async def test_many_words(mode: Local) -> None:
    """They have to be copied to its stack when the program is a script without a first line."""
    async with Sandbox.create(mode) as sb:
        await sb.write("script", "echo $#", mode=0o755)
        for count in (0, 1, 1_000, 5_000, 20_000):
            result = await sb.exec(["./script", *("x" for _ in range(count))], timeout=60)
            assert result.stdout == f"{count}\n"


async def test_it_is_the_same_for_one_that_cannot_be_run(mode: Local) -> None:
    async with Sandbox.create(mode) as sb:
        for _ in range(3):
            assert (await sb.exec(["/nowhere"])).exit_code == 127
            assert (await sb.exec(["/etc"])).exit_code == 126
            assert (await sb.exec(["true"])).exit_code == 0


async def test_it_goes_with_the_sandbox(mode: Local) -> None:
    """And holds nothing open meanwhile: a pipe of an earlier command, say."""
    async with Sandbox.create(mode) as sb:
        for _ in range(20):
            process = await sb.start("cat", stdin=True)
            await process.write("x")
            await process.close_stdin()
            result = await asyncio.wait_for(process.wait(), 20)
            assert result.stdout == "x"
