"""A program's output as it comes, without waiting for it longer than one may."""

import asyncio
import math
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from enum import Enum
from types import TracebackType
from typing import Any, Self, TypeVar

from paddock.errors import SandboxError
from paddock.sandbox import Process
from paddock.types import Chunk


class Instead(Enum):
    """What came and is no output."""

    END = "it printed all it will"
    LATE = "the time is over"
    STOPPED = "somebody wants it to end"


_MOST_UNHEARD = 1 << 20
_Came = TypeVar("_Came")


class Pump:
    """Gives a program its input, and waits for its output, its end, or for being stopped."""

    def __init__(self, process: Process, stop: asyncio.Event) -> None:
        self._process = process
        self._chunks = aiter(process)
        self._stop = stop
        self._input: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._unheard = 0
        self._feeding = asyncio.ensure_future(self._feed())
        self._stopping = asyncio.ensure_future(stop.wait())
        self._next: asyncio.Future[Chunk] | None = None

    def say(self, data: bytes) -> bool:
        """Give it more, without waiting until it reads; whether it still does, or had not too much to read before."""
        if self._unheard > _MOST_UNHEARD:
            return False
        self._unheard += len(data)
        self._input.put_nowait(data)
        return True

    def hang_up(self) -> None:
        """That was all."""
        self._input.put_nowait(None)

    async def next(self, seconds: float = math.inf, *, stoppable: bool = True) -> Chunk | Instead:
        """The next piece of output. What was waited for in vain is not lost; who always has more to say is late, too."""
        if seconds <= 0:
            return Instead.LATE
        if self._next is None:
            self._next = asyncio.ensure_future(_next(self._chunks))
        awaited: set[asyncio.Future[Any]] = {self._next, self._stopping} if stoppable else {self._next}
        timeout = None if math.isinf(seconds) else seconds
        done, _ = await asyncio.wait(awaited, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if self._stopping in done:
            return Instead.STOPPED
        if self._next not in done:
            return Instead.LATE
        came, self._next = self._next, None
        try:
            return came.result()
        except EOFError:
            return Instead.END

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = [task for task in (self._feeding, self._stopping, self._next) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _feed(self) -> None:
        with suppress(BrokenPipeError, SandboxError):  # it ended, or reads no more: its output says the rest
            while (data := await self._input.get()) is not None:
                await self._process.write(data)
                self._unheard -= len(data)
            await self._process.close_stdin()


async def within(work: Coroutine[Any, Any, _Came], seconds: float, stop: asyncio.Event) -> _Came | Instead:
    """What some work comes to, unless the time is over before, or somebody wants it to end."""
    task, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        timeout = None if math.isinf(seconds) else max(0.0, seconds)
        done, _ = await asyncio.wait({task, stopping}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if stopping in done:
            return Instead.STOPPED
        return task.result() if task in done else Instead.LATE
    finally:
        task.cancel()
        stopping.cancel()
        await asyncio.gather(task, stopping, return_exceptions=True)


async def _next(chunks: AsyncIterator[Chunk]) -> Chunk:
    try:
        return await anext(chunks)
    except StopAsyncIteration:
        raise EOFError from None
