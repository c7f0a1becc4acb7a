"""What a model answers, piece by piece, in no provider's words.

A stream is `Began`, then parts one after another, then `Used` if the provider says it, and last `Ended`. A part is
text, thinking or a tool call; `PartEnded` ends it. `Failed` may come at any time and is then the last.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from paddock.gateway.translate.model import Seal, Text, Thinking, ToolCall

Reason = Literal["end", "length", "tool", "stop_sequence", "refusal"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens. `input` and `output` are all there were: also those read from a cache or written to it, and thinking."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0

    @property
    def fresh(self) -> int:
        """The input that no cache was involved in."""
        return max(0, self.input - self.cache_read - self.cache_write)

    @property
    def total(self) -> int:
        """Input and output."""
        return self.input + self.output


@dataclass(frozen=True, slots=True)
class Began:
    """The model answers. `usage` is what is known of it by now: Anthropic says the input first."""

    id: str = ""
    model: str = ""
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """More thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingSealed:
    """The thinking of this part is complete."""

    seal: Seal


@dataclass(frozen=True, slots=True)
class ToolBegan:
    """A tool call; its arguments follow."""

    id: str
    name: str
    namespace: str = ""
    custom: bool = False


@dataclass(frozen=True, slots=True)
class ToolArguments:
    """More of the arguments."""

    text: str


@dataclass(frozen=True, slots=True)
class PartEnded:
    """The part is complete."""


@dataclass(frozen=True, slots=True)
class Used:
    """What it took, in all so far."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Ended:
    """The answer is complete, and why it goes no further."""

    reason: Reason
    stop_sequence: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The provider failed: with an HTTP status, Anthropic's word for it, and its message."""

    status: int
    kind: str
    message: str


Delta = (
    Began | TextDelta | ThinkingDelta | ThinkingSealed | ToolBegan | ToolArguments | PartEnded | Used | Ended | Failed
)


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    id: str = ""
    model: str = ""
    parts: tuple[Text | Thinking | ToolCall, ...] = ()
    usage: Usage = Usage()
    reason: Reason = "end"
    stop_sequence: str | None = None
    failed: Failed | None = None


class Open:
    """The part that is being read, if any: ends it when another begins."""

    __slots__ = ("kind",)

    def __init__(self) -> None:
        self.kind = ""

    def switch(self, kind: str) -> Iterator[Delta]:
        """Make it a part of this kind, which may be the one that it is."""
        if self.kind != kind:
            yield from self.end()
            self.kind = kind

    def end(self) -> Iterator[Delta]:
        """End it, if there is one."""
        if self.kind:
            self.kind = ""
            yield PartEnded()


def deltas_of(answer: Answer) -> Iterator[Delta]:
    """A whole answer as the stream that it could have been."""
    yield Began(answer.id, answer.model)
    for part in answer.parts:
        yield from _deltas_of_part(part)
        yield PartEnded()
    yield Used(answer.usage)
    yield answer.failed or Ended(answer.reason, answer.stop_sequence)


def _deltas_of_part(part: Text | Thinking | ToolCall) -> Iterator[Delta]:
    match part:
        case Text(text):
            yield TextDelta(text)
        case Thinking(text, seal):
            if text:
                yield ThinkingDelta(text)
            yield ThinkingSealed(seal)
        case ToolCall(id, name, arguments, namespace, custom):
            yield ToolBegan(id, name, namespace, custom)
            yield ToolArguments(arguments)


def answer_of(deltas: Iterable[Delta]) -> Answer:
    """A stream as the whole answer that it is."""
    gathering = Gathering()
    for delta in deltas:
        gathering.add(delta)
    return gathering.answer


class Gathering:
    """An answer that is put together delta by delta."""

    def __init__(self) -> None:
        self._answer = Answer()
        self._parts: list[Text | Thinking | ToolCall] = []
        self._part: Text | Thinking | ToolCall | None = None
        self._texts: list[str] = []

    @property
    def answer(self) -> Answer:
        """What there is by now; a part that has not ended is in it."""
        return replace(self._answer, parts=(*self._parts, *self._open()))

    def add(self, delta: Delta) -> None:
        """Add it."""
        match delta:
            case Began(id, model, usage):
                self._answer = replace(self._answer, id=id, model=model, usage=usage or Usage())
            case Used(usage):
                self._answer = replace(self._answer, usage=usage)
            case Ended(reason, stop_sequence):
                self._answer = replace(self._answer, reason=reason, stop_sequence=stop_sequence)
            case Failed():
                self._answer = replace(self._answer, failed=delta)
            case PartEnded():
                self.end_part()
            case _:
                self._add_to_part(delta)

    def _add_to_part(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text):
                self._more(Text(""), text)
            case ThinkingDelta(text):
                self._more(Thinking("", Seal("")), text)
            case ThinkingSealed(seal):
                self._more(Thinking("", Seal("")), "")
                self._part = Thinking("", seal)
            case ToolBegan(id, name, namespace, custom):
                self.end_part()
                self._part = ToolCall(id, name, "", namespace, custom)
            case ToolArguments(text):
                self._texts.append(text)

    def _more(self, part: Text | Thinking, text: str) -> None:
        if type(self._part) is not type(part):
            self.end_part()
            self._part = part
        self._texts.append(text)

    def _open(self) -> list[Text | Thinking | ToolCall]:
        text = "".join(self._texts)
        match self._part:
            case ToolCall() as call:
                return [replace(call, arguments=text)]
            case Text() | Thinking() as part:
                return [replace(part, text=text)]
        return []

    def end_part(self) -> Text | Thinking | ToolCall | None:
        """End the part, if there is one, and return it."""
        parts = self._open()
        self._parts += parts
        self._part = None
        self._texts.clear()
        return parts[0] if parts else None
