"""What a tool says while it works: kept for the client in order, and dropped where the client does not take it."""

import asyncio
import math
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

from paddock.bridge.context import Level

MOST_WAITING = 64
LONGEST = 4096
_SECONDS = 5.0

Progress = Callable[[float, float | None, str | None], Awaitable[None]]
Log = Callable[[Level, str], Awaitable[None]]


class Telling:
    """The way from one call to its client. Nobody waits for it but the end of the call, and that not for long."""

    def __init__(self, progress: Progress, log: Log) -> None:
        self._progress = progress
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._waiting: deque[Callable[[], Awaitable[None]]] = deque(maxlen=MOST_WAITING)
        self._pump: asyncio.Task[None] | None = None
        self._ended = False

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """How far it is."""
        numbers = [float(number) for number in (progress, total) if number is not None]
        if all(map(math.isfinite, numbers)):
            words = None if message is None else _sound(message)
            self._say(lambda: self._progress(progress, total, words))

    def message(self, level: Level, message: str) -> None:
        """Something about it."""
        words = _sound(message)
        self._say(lambda: self._log(level, words))

    async def end(self) -> None:
        """What was said is sent before the result, unless nobody takes it."""
        self._ended = True
        if self._pump is not None:
            await asyncio.wait([self._pump], timeout=_SECONDS)
            self._pump.cancel()

    def _say(self, send: Callable[[], Awaitable[None]]) -> None:
        if threading.get_ident() == self._thread:
            self._put(send)
            return
        with suppress(RuntimeError):  # the loop may have ended
            self._loop.call_soon_threadsafe(self._put, send)

    def _put(self, send: Callable[[], Awaitable[None]]) -> None:
        if self._ended:
            return
        self._waiting.append(send)
        if self._pump is None or self._pump.done():
            self._pump = self._loop.create_task(self._send())

    async def _send(self) -> None:
        while self._waiting:
            await self._waiting.popleft()()


def _sound(text: str) -> str:
    return str(text)[:LONGEST].encode(errors="replace").decode()
