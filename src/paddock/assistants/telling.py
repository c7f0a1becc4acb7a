"""Steps of a request that tell of themselves while they are done, and that an interrupt ends."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from typing import Any, Generic, TypeVar

from paddock.finishing import to_the_end
from paddock.runners import Event

T = TypeVar("T")
MOST_TOLD = 1000
"""Events that nobody has taken yet."""


class Interrupted(Exception):  # noqa: N818 - somebody wanted it
    """The request is to end."""


class Teller:
    """Takes what is told, from any thread, and no more than somebody takes from it: a hook may tell without an end."""

    def __init__(self, stop: asyncio.Event) -> None:
        self.stop = stop
        self.loop = asyncio.get_running_loop()
        self.told: deque[Event] = deque()
        self.news = asyncio.Event()

    def tell(self, event: Event) -> None:
        """Nothing is waited for. What comes while too much is there already is lost."""
        if len(self.told) < MOST_TOLD:
            self.told.append(event)
            self.loop.call_soon_threadsafe(self.news.set)

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
        self._left: int | None = None
        """How much of what was told is still to be said, once it is done: more may come from a thread that goes on."""

    @property
    def result(self) -> T:
        """What it came to."""
        return self._task.result()

    async def __anext__(self) -> Event:
        try:
            event = await self._next()
        except BaseException:
            await self._end()
            raise
        if event is None:
            await self._end()
            raise StopAsyncIteration
        return event

    async def _next(self) -> Event | None:
        await asyncio.sleep(0)  # others have their turn, however much is told
        while True:
            if self._task.done() and self._left is None:
                self._left = len(self._teller.told)
            if self._stopping.done() and not self._task.done():
                raise Interrupted
            if self._teller.told and self._left != 0:
                self._left = None if self._left is None else self._left - 1
                return self._teller.told.popleft()
            if self._task.done():
                return None
            await self._news()

    async def _news(self) -> None:
        news = asyncio.ensure_future(self._teller.news.wait())
        try:
            await asyncio.wait([news, self._task, self._stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()
        self._teller.news.clear()

    async def aclose(self) -> None:
        """End it now."""
        await self._end()

    async def _end(self) -> None:
        for task in (self._task, self._stopping):
            task.cancel()
        await to_the_end(_settled(self._task, self._stopping))


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
