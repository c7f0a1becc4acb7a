"""The task that looks from time to time, and cleans at a time of day."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from paddock.errors import UnavailableError
from paddock.manager.clock import Clock, next_time_of_day
from paddock.manager.entries import remove_unfinished, write_whole

_A_DAY = 25 * 3600.0

Action = Callable[[], Awaitable[object]]


class Watcher:
    """Calls `sweep` at intervals, and `clean` once a day: also the one that was missed while nobody was there."""

    def __init__(self, clock: Clock, directory: Path, every: float, clean_at: str | None) -> None:
        self._clock = clock
        self._note = directory / "cleaned"
        self._every = every
        self._at = clean_at
        remove_unfinished(directory, self._note.name)
        self._next = self._first()

    async def run(self, sweep: Action, clean: Action) -> None:
        """Until it is cancelled. What goes wrong is told and tried again."""
        while True:
            await self._clock.sleep(self._every)
            await self.look(sweep, clean)

    async def look(self, sweep: Action, clean: Action) -> None:
        """One look."""
        try:
            await sweep()
            if self._is_time():
                await clean()
                self.cleaned()
        except Exception:
            import logging

            logging.getLogger("paddock.manager").exception("a sweep failed, and is tried again")

    def cleaned(self) -> None:
        """It was done, just now."""
        now = self._clock.time()
        with suppress(UnavailableError):
            write_whole(self._note, repr(now))
        self._next = self._after(now)

    def _is_time(self) -> bool:
        now = self._clock.time()
        if self._next is not None and self._next - now > _A_DAY:  # the clock was set back
            self._next = self._after(now)
        return self._next is not None and now >= self._next

    def _first(self) -> float | None:
        now = self._clock.time()
        try:
            last = min(float(self._note.read_text()), now)
        except (OSError, ValueError):
            last = now
        return self._after(last)

    def _after(self, moment: float) -> float | None:
        return None if self._at is None else next_time_of_day(moment, self._at)
