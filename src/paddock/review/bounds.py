"""How much one look, or one apply, may do. Whoever runs it in a thread stops it by this."""

import time
from collections.abc import Callable
from typing import Protocol

from paddock.errors import LimitReachedError, TooLargeError

MOST_ENTRIES = 1_000_000
MOST_BYTES = 16 << 30
MOST_SECONDS = 300.0
MOST_DEPTH = 4096
_LONG = 256
"""Characters of a path that count as one entry: a million of them fit into memory, however deep they lie."""


class Spending(Protocol):
    """Told of everything that is looked at and of every byte that is read. It raises to end the call."""

    def spend(self, entries: int = 0, size: int = 0) -> None:
        """Count this; raise if it is too much, or if nobody waits any more."""


class Bounds:
    """The usual one: so many entries, bytes and seconds, and a question that is asked for each."""

    def __init__(
        self,
        *,
        entries: int = MOST_ENTRIES,
        size: int = MOST_BYTES,
        seconds: float = MOST_SECONDS,
        check: Callable[[], object] = lambda: None,
    ) -> None:
        self._most = (entries, size, seconds)
        self._deadline = time.monotonic() + seconds
        self._check = check
        self.entries = 0
        """Looked at so far."""
        self.size = 0
        """Read so far."""

    def spend(self, entries: int = 0, size: int = 0) -> None:
        """Count; `check` may raise whatever it likes."""
        self.entries += entries
        self.size += size
        self._check()
        most_entries, most_bytes, seconds = self._most
        if self.entries > most_entries:
            raise _too_many(most_entries)
        if self.size > most_bytes:
            raise TooLargeError(
                f"What changed has more than {most_bytes:,} bytes.",
                hint="Remove large files that need not be kept, or move them to /cache, and look again.",
            )
        if time.monotonic() > self._deadline:
            raise LimitReachedError(
                f"Looking at what changed was not done after {seconds:g} seconds.",
                hint="Remove what need not be kept, such as build output and downloads, and look again.",
                limit="seconds",
            )


def check_count(entries: int) -> None:
    """One directory may have many, and not more than all may have together."""
    if entries > MOST_ENTRIES:
        raise _too_many(MOST_ENTRIES)


def _too_many(most: int) -> TooLargeError:
    return TooLargeError(
        f"More than {most:,} files and directories changed.",
        hint="Remove what need not be kept, such as build output and downloads, and look again.",
    )


def weight(directory: str, entries: int) -> int:
    """What so many entries of a directory count: each has all of its path, and deep ones have long paths."""
    return entries * (1 + len(directory) // _LONG)


def check_depth(path: str) -> None:
    """A tree may be deep, and not endless."""
    if path.count("/") >= MOST_DEPTH:
        raise TooLargeError(
            f"Directories lie more than {MOST_DEPTH:,} levels deep.", hint="Remove the deepest ones, and look again."
        )
