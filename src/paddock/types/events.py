"""One thing that happened in a sandbox."""

from dataclasses import dataclass
from typing import Literal

from paddock.errors import DENIALS
from paddock.types.record import Record

EventKind = Literal[
    "sandbox", "file", "command", "review", "git", "tool", "model", "connection", "approval", "manager", "events"
]
Initiator = Literal["host", "person", "model"]


@dataclass(frozen=True, slots=True)
class Event(Record):
    """One operation with its outcome: sizes and durations, never contents or secrets."""

    time: float
    """When it ended, in seconds since 1970."""
    sandbox: str
    kind: EventKind
    operation: str
    """The call, such as `read` or `exec`."""
    subject: str | None
    """A sandbox path, or the name of the program a command begins with."""
    outcome: str
    """`ok`, or the code of the error it ended with."""
    duration: float
    size: int | None = None
    """Bytes that were read, written or printed."""
    count: int | None = None
    """Files, entries or lines that were found or written."""
    target: str | None = None
    """The other path, of a call that has two."""
    initiator: Initiator = "host"

    @property
    def denied(self) -> bool:
        """Whether a rule refused it."""
        return self.outcome in DENIALS
