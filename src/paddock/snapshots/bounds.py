"""How much one call may do."""

from dataclasses import dataclass
from typing import Protocol

from paddock.config import setting

LONG = 256
"""Characters of a path that count as one entry."""


class Work(Protocol):
    """What a call is given to say how far it is. Its caller ends the call by raising something there."""

    def spend(self, entries: int = 0, size: int = 0) -> None:
        """So many entries were just looked at, and so many bytes read or written."""


class Unbounded:
    """Nobody counts, and nobody ends it."""

    def spend(self, entries: int = 0, size: int = 0) -> None:
        """Go on."""


def weight(path: str) -> int:
    """How many entries one counts for: it has all of its path, and deep ones have long paths."""
    return 1 + len(path) // LONG


@dataclass(frozen=True, slots=True)
class Retention:
    """How long snapshots without a name are kept; None is no end."""

    seconds: float | None
    count: int | None
    """Of one sandbox."""

    @classmethod
    def usual(cls) -> "Retention":
        """What the settings say."""
        return cls(setting("snapshot_retention").value, setting("snapshots_kept").value)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a snapshot may hold at the most."""

    entries: int = 1_000_000
    size: int = 16 << 30
    """Of all files together, in bytes."""
    depth: int = 1024

    @classmethod
    def usual(cls) -> "Bounds":
        """What the settings say."""
        return cls(setting("snapshot_entries").value, setting("snapshot_size").value)
