"""This program's own standard streams, used from the loop and never held up by whoever is at their other end."""

import os
import select
import stat
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING

from paddock.cli import stdout

if TYPE_CHECKING:
    import asyncio

_ONE_READ = 1 << 16
_ONE_WRITE = 4096  # what a pipe that is ready takes without waiting


class Output:
    """A descriptor to write to, byte for byte."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd
        self._waits = fd is not None and not stat.S_ISREG(os.fstat(fd).st_mode)
        self._ready = select.poll()
        if fd is not None:
            self._ready.register(fd, select.POLLOUT)

    async def write(self, data: bytes) -> None:
        """Write all of it; a reader that is slow holds up this task and no other."""
        if self._fd is None:
            return
        rest = memoryview(data)
        while rest:
            if self._waits and not self._ready.poll(0):
                await _writable(self._fd)
            rest = rest[os.write(self._fd, rest[:_ONE_WRITE] if self._waits else rest) :]


def outputs() -> dict[str, Output]:
    """Standard output and standard error. One that was closed when the program began swallows what it is given."""
    return {
        "stdout": Output(None if stdout.own() is None else stdout.descriptor()),
        "stderr": Output(None if sys.stderr is None else 2),
    }


def has_input() -> bool:
    """Whether standard input is something to pass on: a pipe or a file, and not a terminal."""
    return sys.stdin is not None and not os.isatty(0)


async def piped() -> AsyncIterator[bytes]:
    """Standard input until its end. It is read in threads that nobody waits for: a pipe may stay open for ever."""
    import asyncio

    loop = asyncio.get_running_loop()
    while True:
        data: asyncio.Future[bytes] = loop.create_future()
        threading.Thread(target=_read, args=(loop, data), daemon=True).start()
        if not await data:
            return
        yield data.result()


async def typed() -> AsyncIterator[bytes]:
    """What is typed at the terminal, as it is typed, until the terminal is gone."""
    import asyncio

    loop = asyncio.get_running_loop()
    while True:
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(0, _set, ready)
        try:
            await ready
        finally:
            loop.remove_reader(0)
        try:
            data = os.read(0, _ONE_READ)
        except OSError:
            return
        if not data:
            return
        yield data


async def _writable(fd: int) -> None:
    import asyncio

    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_writer(fd, _set, ready)
    try:
        await ready
    finally:
        loop.remove_writer(fd)


def _read(loop: "asyncio.AbstractEventLoop", data: "asyncio.Future[bytes]") -> None:
    try:
        found = os.read(0, _ONE_READ)
    except OSError:
        found = b""
    with suppress(RuntimeError):  # the loop has ended, and nobody wants it any more
        loop.call_soon_threadsafe(_deliver, data, found)


def _deliver(data: "asyncio.Future[bytes]", found: bytes) -> None:
    if not data.done():
        data.set_result(found)


def _set(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
