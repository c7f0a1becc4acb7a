"""How much one call may do: entries, bytes and time. A call in a thread is stopped through its budget too."""

import time
from collections.abc import Callable

from paddock.errors import TooLargeError

MAX_READ = 256 << 20
MAX_ENTRIES = 1_000_000
MAX_TREE_BYTES = 16 << 30
MAX_SECONDS = 30.0


class Stopped(Exception):  # noqa: N818 - not an error: nobody is left who waits for the result
    """The caller went away."""


class Budget:
    """Spent by a call as it goes along; spending too much ends the call."""

    def __init__(
        self,
        *,
        entries: int = MAX_ENTRIES,
        tree_bytes: int = MAX_TREE_BYTES,
        seconds: float | None = MAX_SECONDS,
    ) -> None:
        self._entries = entries
        self._bytes = tree_bytes
        self._seconds = seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._stopped = False
        self._when_stopped: Callable[[], object] = lambda: None

    def stop(self) -> None:
        """Make the next `spend` end the call, and end now what it waits for."""
        self._stopped = True
        self._when_stopped()

    def when_stopped(self, action: Callable[[], object]) -> None:
        """What `stop` has to end."""
        self._when_stopped = action
        if self._stopped:
            action()

    def remaining(self) -> float:
        """Seconds left."""
        return float("inf") if self._deadline is None else self._deadline - time.monotonic()

    def spend(self, entries: int = 0, size: int = 0) -> None:
        """Count what was just seen or copied."""
        self._entries -= entries
        self._bytes -= size
        if self._stopped:
            raise Stopped
        if self._entries < 0:
            raise TooLargeError("There are more files than one call handles.", hint="Name a smaller directory.")
        if self._bytes < 0:
            raise TooLargeError(
                "There is more data than one call handles.", hint="Name a smaller directory, or parts of it."
            )
        if self.remaining() < 0:
            raise self.out_of_time()

    def out_of_time(self) -> TooLargeError:
        """The error for a call that takes too long."""
        return TooLargeError(
            f"It was not done after {self._seconds:g} seconds.",
            hint="Name a smaller directory or a simpler pattern.",
        )
