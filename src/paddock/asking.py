"""A question on a terminal, which waits for its answer and holds nothing else up."""

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

_MOST = 4096


def forget_typed(terminal: int) -> None:
    """What was typed before a question was asked is no answer to it: it was meant for a command, or not typed by a person."""
    import termios

    with suppress(termios.error):  # it is no terminal, or gone
        termios.tcflush(terminal, termios.TCIFLUSH)


async def answer(terminal: int) -> str | None:
    """The next line that somebody types at the terminal behind a descriptor; None if nobody is there any more.

    It is waited for on the event loop: a thread that reads a terminal cannot be ended, and Ctrl-C would have to wait for it.
    """
    line = await given(terminal)
    return line.decode("utf-8", "replace") if line else None


async def given(descriptor: int) -> bytes:
    """What comes next on a terminal, in a pipe or from a file, a line at most of the first; nothing is the end."""
    import asyncio

    loop = asyncio.get_running_loop()
    typed: asyncio.Future[bytes] = loop.create_future()
    try:
        loop.add_reader(descriptor, _read, descriptor, typed)
    except PermissionError:  # a file, which has all of it now
        return os.read(descriptor, _MOST)
    try:
        return await typed
    finally:
        loop.remove_reader(descriptor)


def _read(terminal: int, typed: "asyncio.Future[bytes]") -> None:
    try:
        line = os.read(terminal, _MOST)
    except OSError:  # it was hung up
        line = b""
    if not typed.done():
        typed.set_result(line)
