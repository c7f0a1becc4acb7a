"""Sandboxes that end by themselves: after so long without use, or so long after they were made."""

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Literal

from paddock.errors import SandboxError
from paddock.sandbox.operation import Pulse

if TYPE_CHECKING:
    import asyncio

Limit = Literal["lifetime", "idle_timeout"]
Close = Callable[[Limit, str], Awaitable[None]]
"""Closes the sandbox for one of its times, and says why to whoever uses it afterwards."""


class Life:
    """The clock of one sandbox, in the process that uses it. It stops when the sandbox closes."""

    def __init__(self, close: Close) -> None:
        self._close = close
        self._timers: list[asyncio.TimerHandle] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def end_at(self, moment: float, lifetime: float) -> None:
        """End at this time, whatever happens."""
        words = f"The sandbox was closed: its lifetime of {lifetime:g} seconds is over."
        self._after(moment - time.time(), lambda: self._close("lifetime", words))

    def end_when_idle(self, seconds: float, pulse: Pulse, in_use: Callable[[], Awaitable[bool]]) -> None:
        """End after so long without a call, when nothing runs in it either."""
        self._after(pulse.last + seconds - perf_counter(), lambda: self._look(seconds, pulse, in_use))

    def stop(self) -> None:
        """It has ended, or is about to. The one who found that its time was over goes on."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    async def _look(self, seconds: float, pulse: Pulse, in_use: Callable[[], Awaitable[bool]]) -> None:
        if pulse.last + seconds > perf_counter():
            self.end_when_idle(seconds, pulse, in_use)
        elif await in_use():
            pulse.last = perf_counter()
            self.end_when_idle(seconds, pulse, in_use)
        else:
            words = f"The sandbox was closed: it was not used for {seconds:g} seconds, its idle_timeout."
            await self._close("idle_timeout", words)

    def _after(self, seconds: float, action: Callable[[], Awaitable[None]]) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        self._timers = [timer for timer in self._timers if timer.when() > loop.time()]
        self._timers.append(loop.call_later(max(seconds, 0), self._begin, action))

    def _begin(self, action: Callable[[], Awaitable[None]]) -> None:
        import asyncio

        task = asyncio.ensure_future(_quietly(action))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _quietly(action: Callable[[], Awaitable[None]]) -> None:
    """Nobody waits for it: what could not be removed is tried again by the next sandbox that is made."""
    with suppress(SandboxError):
        await action()
