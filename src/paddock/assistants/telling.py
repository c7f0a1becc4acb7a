"""Steps of a request that tell of themselves while they are done, and that an interrupt ends."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from typing import Any, Generic, TypeVar

from paddock.finishing import to_the_end
from paddock.runners import Event

T = TypeVar("T")


class Interrupted(Exception):  # noqa: N818 - somebody wanted it
    """The request is to end."""


class Teller:
    """Takes what is told, from any thread."""

    def __init__(self, stop: asyncio.Event) -> None:
        self.stop = stop
        self.loop = asyncio.get_running_loop()
        self.told: asyncio.Queue[Event] = asyncio.Queue()

    def tell(self, event: Event) -> None:
        """Nothing is waited for."""
        self.loop.call_soon_threadsafe(self.told.put_nowait, event)

    def doing(self, work: Coroutine[Any, Any, T]) -> "Doing[T]":
        """Do something, and say what it tells meanwhile."""
        return Doing(self, work)


class Doing(AsyncIterator[Event], Generic[T]):
    """What is told while something is done; then `result` is what it came to, or raises what it did.

    It is done in a task of its own. Whoever is cancelled here ends that task, and waits for its end.
    """

    def __init__(self, teller: Teller, work: Coroutine[Any, Any, T]) -> None:
        self._teller = teller
        self._task = asyncio.ensure_future(work)
        self._stopping = asyncio.ensure_future(teller.stop.wait())

    @property
    def result(self) -> T:
        """What it came to."""
        return self._task.result()

    async def __anext__(self) -> Event:
        told = asyncio.ensure_future(self._teller.told.get())
        try:
            await asyncio.wait([told, self._task, self._stopping], return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0)  # what was told last is on its way
            if told.done():
                return told.result()
            stopped = self._stopping.done() and not self._task.done()
        except BaseException:
            await self._end(told)
            raise
        await self._end(told)
        if stopped:
            raise Interrupted
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End it now."""
        await self._end()

    async def _end(self, *others: "asyncio.Future[Any]") -> None:
        for task in (self._task, self._stopping, *others):
            task.cancel()
        await to_the_end(_settled(self._task, self._stopping, *others))


async def stoppable(
    events: AsyncGenerator[Event, None], stop: asyncio.Event, seconds: float
) -> AsyncGenerator[Event, None]:
    """Events until somebody wants them to end, which is `Interrupted`, or the time is over, which is a `TimeoutError`."""
    until = time.monotonic() + seconds
    stopping = asyncio.ensure_future(stop.wait())
    try:
        while True:
            coming = asyncio.ensure_future(_next(events))
            try:
                left = max(0.0, until - time.monotonic())
                await asyncio.wait([coming, stopping], timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if stopping.done():
                    raise Interrupted
                if not coming.done():
                    raise TimeoutError
            finally:
                coming.cancel()
                await to_the_end(_settled(coming))
            event = coming.result()
            if event is None:
                return
            yield event
    finally:
        stopping.cancel()
        await to_the_end(_settled(stopping))
        await events.aclose()


async def _next(events: AsyncGenerator[Event, None]) -> Event | None:
    return await anext(events, None)


async def _settled(*tasks: "asyncio.Future[Any]") -> None:
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()
