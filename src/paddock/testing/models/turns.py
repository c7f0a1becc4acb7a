"""What a scripted model does when it is asked: a turn is one of these parts, or several in order."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paddock.errors import ConfigError, visible
from paddock.testing.models.asked import Asked
from paddock.types.record import Record


@dataclass(frozen=True, slots=True)
class Say(Record):
    """Text."""

    text: str
    pieces: int = 1
    """In how many it is streamed."""
    pause: float = 0.0
    """Seconds between them."""

    def __post_init__(self) -> None:
        if self.pieces < 1:
            raise ConfigError(f"Nothing can be said in {self.pieces} pieces.", hint="Give 1 or more.")


@dataclass(frozen=True, slots=True)
class Think(Record):
    """What goes before an answer, as models that think show it."""

    text: str


@dataclass(frozen=True, slots=True)
class Shell(Record):
    """A shell command, by whichever tool the agent has for that."""

    command: str


@dataclass(frozen=True, slots=True)
class Use(Record):
    """A call of a tool: of the agent's own, or of an MCP server, whatever the agent makes of its name."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    server: str = ""
    """The MCP server that has it, where several have one of this name."""


@dataclass(frozen=True, slots=True)
class Wait(Record):
    """Silence: before the answer begins if it is the first, else in the middle of it."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Cut(Record):
    """The connection breaks: before anything was answered if it is the first, else in the middle of what was being said."""


@dataclass(frozen=True, slots=True)
class Fail(Record):
    """An error, in the provider's words: the whole answer if it is the first, else one within the stream."""

    status: int = 500
    message: str = ""
    """As providers say it, if it is empty."""
    retry_after: float | None = None
    """Seconds after which to ask again."""

    def __post_init__(self) -> None:
        if not 400 <= self.status <= 599:
            raise ConfigError(f"{self.status} is no status of an error.", hint="Such as 401, 429, 500 or 529.")


@dataclass(frozen=True, slots=True)
class Tokens(Record):
    """What the turn is said to have taken. `input` and `output` are all there were, also those of the other kinds."""

    input: int = 100
    output: int = 20
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0


Part = Say | Think | Shell | Use | Wait | Cut | Fail | Tokens
Turn = Part | Sequence[Part]
Script = Iterable[Turn] | Callable[[Asked], Turn | Awaitable[Turn]]
"""Turns one after another; or a function that is asked for each."""

NOTHING_MORE = Say("Nothing more is scripted.")


def parts_of(turn: Turn) -> tuple[Part, ...]:
    """The parts of a turn."""
    parts = (turn,) if isinstance(turn, Part | str) or not isinstance(turn, Sequence) else tuple(turn)
    for part in parts:
        if not isinstance(part, Part):
            raise ConfigError(
                f"{visible(repr(part)[:80])} is nothing that a model does.", hint="Give Say, Shell, Use and the like."
            )
    return parts


class Turns:
    """Turns one after another. After the last comes the last again, unless it calls tools, which would never end."""

    def __init__(self, script: Iterable[Turn]) -> None:
        self._turns = [parts_of(turn) for turn in script]
        self._taken = 0

    def __call__(self, asked: Asked) -> tuple[Part, ...]:
        """The next one."""
        self._taken += 1
        if self._taken <= len(self._turns):
            return self._turns[self._taken - 1]
        last = self._turns[-1] if self._turns else (NOTHING_MORE,)
        return (NOTHING_MORE,) if any(isinstance(part, Shell | Use) for part in last) else last
