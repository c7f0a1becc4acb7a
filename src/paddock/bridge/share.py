"""What all clients of a sandbox together may take of the host: its memory, and its time."""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from time import thread_time
from typing import Protocol

MOST_ASKED = 64 << 20
"""Bytes, about, that requests under way take."""
MOST_UNTAKEN = 32 << 20
"""Bytes of answers that nobody takes."""
_SMALL = 4096
_OBJECT = 64
_AT_ONCE = 8
_LONG = 0.002


class Backlog(Protocol):
    """A connection whose client does not take what it is sent."""

    @property
    def untaken(self) -> int:
        """How many bytes."""

    def cut_off(self, outcome: str) -> None:
        """End it, and forget them."""


class Share:
    """One sandbox's. However many connections there are, they do not become more than this."""

    def __init__(self) -> None:
        self.asked = 0
        self.untaken = 0
        self.backlogs: set[Backlog] = set()
        self._left = _AT_ONCE
        self._rest = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.Handle | None = None

    def has_room(self, weight: int) -> bool:
        """Whether one more request may be under way. Small ones always may: there is a bound on their number."""
        return weight <= _SMALL or self.asked + weight <= MOST_ASKED

    def add_untaken(self, size: int) -> None:
        """So much more waits to be taken, or less. Too much is cut off where the most of it is."""
        self.untaken += size
        most = max(self.backlogs, key=lambda backlog: backlog.untaken, default=None)
        if self.untaken > MOST_UNTAKEN and most is not None:
            most.cut_off("LIMIT_REACHED")

    async def turn(self) -> None:
        """Return when the next message may be looked at. A few are at a time, and in between it is others' turn."""
        loop = asyncio.get_running_loop()
        if self._timer is None:
            self._timer = loop.call_soon(self._next)
        if self._left > 0:
            self._left -= 1
            return
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append(future)
        await future

    @contextmanager
    def working(self) -> Iterator[None]:
        """Something is done that may take long. Afterwards others have twice that time."""
        started = thread_time()  # not the time of others, on a machine that has much to do
        try:
            yield
        finally:
            self._rest += 2 * (thread_time() - started)
            if self._rest > _LONG:
                self._left = 0

    def _next(self) -> None:
        loop = asyncio.get_running_loop()
        rest, self._rest, self._timer = self._rest, 0.0, None
        if rest > _LONG:
            self._timer = loop.call_later(rest, self._next)
            return
        self._left = _AT_ONCE
        while self._waiting and self._left:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                self._left -= 1
        if self._left < _AT_ONCE:
            self._timer = loop.call_soon(self._next)


def weight(line: bytes) -> int:
    """About what a message takes when it has been read: every value of it is an object."""
    return len(line) + _OBJECT * (line.count(b",") + line.count(b"[") + line.count(b"{"))
