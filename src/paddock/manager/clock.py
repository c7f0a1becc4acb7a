"""Time, as a manager sees it: given from outside, so that a week passes in a test."""

import time
from typing import Protocol


class Clock(Protocol):
    """What a manager asks for the time."""

    def time(self) -> float:
        """Seconds since 1970, which people may set: for what is kept on disk."""

    def monotonic(self) -> float:
        """Seconds that only go on: for how long something took."""

    async def sleep(self, seconds: float) -> None:
        """Wait so long."""


class SystemClock:
    """The host's."""

    def time(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds since some moment."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait so long."""
        import asyncio

        await asyncio.sleep(seconds)


class SteadyTime:
    """A manager's own time: it goes on as the monotonic clock does, and is never later than the host's.

    When somebody sets the host's clock forward, not everything is old at once; and what happened "in the future" is new.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall = clock.time()
        self._start = clock.monotonic()

    def now(self) -> float:
        """Seconds since 1970."""
        return min(self._clock.time(), self._wall + self._clock.monotonic() - self._start)

    def monotonic(self) -> float:
        """Seconds that only go on."""
        return self._clock.monotonic()

    def since(self, moment: float) -> float:
        """How long ago a moment on disk was; not less than nothing."""
        return max(self.now() - moment, 0.0)


def next_time_of_day(now: float, at: str) -> float:
    """When it is next that late, by local time. A time that a change of the clocks leaves out is moved, never lost."""
    hour, minute = map(int, at.split(":"))
    today = time.localtime(now)
    for days in (0, 1, 2):
        moment = time.mktime((today.tm_year, today.tm_mon, today.tm_mday + days, hour, minute, 0, 0, 0, -1))
        if moment > now:
            return moment
    return now + 86400
