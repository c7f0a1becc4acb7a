"""This program's own terminal, lent to a command and taken back in every case."""

import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from paddock.cli import stdout
from paddock.cli.streams import Output, typed
from paddock.errors import ConfigError, SandboxError
from paddock.sandbox import Process
from paddock.types import ExecResult


def need_terminal(hint: str) -> None:
    """An error where standard input is no terminal that could be lent."""
    if sys.stdin is None or not os.isatty(0):
        raise ConfigError("Standard input is not a terminal.", hint=hint)


@contextmanager
def raw() -> Iterator[None]:
    """Every key goes through as it is, Ctrl-C too; afterwards the terminal is as it was."""
    before = termios.tcgetattr(0)
    try:
        tty.setraw(0, termios.TCSANOW)
        yield
    finally:
        with suppress(termios.error):  # it was hung up
            termios.tcsetattr(0, termios.TCSANOW, before)  # not TCSADRAIN: a terminal that is stuck must not hold us


async def converse(process: Process) -> ExecResult:
    """Join this terminal and the command's own until the command ends."""
    import asyncio

    loop = asyncio.get_running_loop()
    screen, work = Output(stdout.descriptor()), [asyncio.ensure_future(_type(process))]
    loop.add_signal_handler(signal.SIGWINCH, lambda: work.append(asyncio.ensure_future(_resize(process))))
    try:
        with raw():
            await _resize(process)
            async for chunk in process:
                await screen.write(chunk.data)
            return await process.wait()
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)


async def _type(process: Process) -> None:
    with suppress(BrokenPipeError, SandboxError):  # the command ends: how, `wait` says
        async for keys in typed():
            await process.write(keys)
        await process.kill()  # the terminal is gone


async def _resize(process: Process) -> None:
    with suppress(SandboxError, OSError):
        size = os.get_terminal_size(0)
        if size.lines and size.columns:
            await process.resize(size.lines, size.columns)
