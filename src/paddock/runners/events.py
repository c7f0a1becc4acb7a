"""What an agent does, as typed values: the same for every agent."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from paddock.errors import AgentError
from paddock.types.record import Record


class _Event(Record):
    """Something that happened; `kind` is its name in JSON."""

    __slots__ = ()
    kind: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON-ready data, with its kind."""
        return {"kind": self.kind, **Record.to_dict(self)}


@dataclass(frozen=True, slots=True)
class Progress(_Event):
    """What is being prepared, before the agent runs."""

    kind = "progress"
    text: str
    state: Literal["creating", "ready", "failed"] | None = None
    """How it is with the sandbox, where that is what is being prepared."""


@dataclass(frozen=True, slots=True)
class Started(_Event):
    """The agent runs."""

    kind = "started"
    agent: str
    session: str | None = None
    """The agent's own name for the conversation."""
    model: str | None = None
    version: str | None = None
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class Text(_Event):
    """What it says, in pieces: joined they are the whole, with a blank line between messages."""

    kind = "text"
    text: str
    parent: str | None = None
    """The tool call whose sub-agent says it; None is the agent itself."""


@dataclass(frozen=True, slots=True)
class Thinking(_Event):
    """What it thinks, in pieces."""

    kind = "thinking"
    text: str
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCall(_Event):
    """It uses a tool. Paddock does not run it: the agent does, inside."""

    kind = "tool_call"
    id: str
    name: str
    input: Mapping[str, Any] = field(default_factory=dict)
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class ToolResult(_Event):
    """What the tool call of the same id came to."""

    kind = "tool_result"
    id: str
    output: str = ""
    failed: bool = False
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class Usage(_Event):
    """What was used since the last of these: the sum over a run is what the run used."""

    kind = "usage"
    input: int = 0
    """Tokens that were read, without those that the provider had already."""
    output: int = 0
    cached: int = 0
    cache_write: int = 0
    cost: float | None = None
    """Dollars, as the agent reckons them by list prices; None where it does not."""

    def __add__(self, other: "Usage") -> "Usage":
        cost = None if self.cost is None and other.cost is None else (self.cost or 0) + (other.cost or 0)
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            self.cache_write + other.cache_write,
            cost,
        )

    def beyond(self, told: "Usage") -> "Usage":
        """How much more this is than what was told already."""
        return Usage(
            max(0, self.input - told.input),
            max(0, self.output - told.output),
            max(0, self.cached - told.cached),
            max(0, self.cache_write - told.cache_write),
            None if self.cost is None else max(0.0, self.cost - (told.cost or 0)),
        )

    def __bool__(self) -> bool:
        return bool(self.input or self.output or self.cached or self.cache_write or self.cost)


@dataclass(frozen=True, slots=True)
class Done(_Event):
    """The end of a run that went well: the reply. What the agent's tools did is done."""

    kind = "done"
    text: str = ""
    """What it said last."""
    session: str | None = None
    model: str | None = None
    usage: Usage = Usage()
    turns: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Failed(_Event):
    """The end of a run that did not."""

    kind = "failed"
    error: AgentError
    session: str | None = None
    usage: Usage = Usage()
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON-ready data, with its error."""
        return {**_Event.to_dict(self), "error": self.error.to_dict()}


@dataclass(frozen=True, slots=True)
class Log(_Event):
    """A remark of the agent's program: its standard error, a retry, a line that nobody understands."""

    kind = "log"
    text: str
    source: Literal["stderr", "stdout", "agent", "paddock", "hook"] = "agent"


Event = Progress | Started | Text | Thinking | ToolCall | ToolResult | Usage | Done | Failed | Log
KINDS: dict[str, type[Event]] = {
    event.kind: event for event in (Progress, Started, Text, Thinking, ToolCall, ToolResult, Usage, Done, Failed, Log)
}
