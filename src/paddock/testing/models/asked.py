"""What a model was asked, in words that are the same for every wire."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from paddock.gateway.translate import Ask, Wire
from paddock.gateway.translate.model import Text, ToolCall, ToolResult, Turn, joined
from paddock.gateway.translate.names import sent_name
from paddock.runners.messages import said_now
from paddock.types.record import Record

_NOTES = ("<system-reminder>",)
"""How agents begin what they add to the words of their user."""


@dataclass(frozen=True, slots=True)
class Result(Record):
    """What came of a tool call."""

    tool: str
    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Asked(Record):
    """One request."""

    wire: Wire
    path: str
    """As it came, with what is behind the question mark."""
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    model: str
    system: str
    text: str
    """What the user said last."""
    step: int
    """How often the model has answered since then: 0 when it is first asked."""
    results: tuple[Result, ...]
    """Of the tools that its last answer called."""
    tools: tuple[str, ...]
    """What it may call."""
    side: str = ""
    """What the agent wants beside its work, such as a `title` for the conversation."""


def asked(wire: Wire, path: str, headers: Mapping[str, str], body: Mapping[str, Any], ask: Ask, side: str) -> Asked:
    """The request that `ask` was read from."""
    at = _last_said(ask.turns)
    later = ask.turns[at + 1 :]
    return Asked(
        wire=wire,
        path=path,
        headers=headers,
        body=body,
        model=ask.model,
        system="\n".join(ask.system),
        text=_said(ask.turns[at]) if ask.turns else "",
        step=sum(turn.role == "assistant" for turn in later),
        results=tuple(_results(ask.turns)),
        tools=tuple(sent_name(tool.name, tool.namespace) for tool in ask.tools),
        side=side,
    )


def all_text(ask: Ask) -> str:
    """Everything that is said to the model or was said by it."""
    return "\n".join([*ask.system, *(joined(turn.parts) for turn in ask.turns)])


def _last_said(turns: tuple[Turn, ...]) -> int:
    """Where the user said something last."""
    return max((at for at, turn in enumerate(turns) if turn.role == "user" and _said(turn)), default=0)


def _said(turn: Turn) -> str:
    """Agents put their notes first, and what the user said last. What stands beside results of tools is a note."""
    if any(isinstance(part, ToolResult) for part in turn.parts):
        return ""
    texts = [part.text for part in turn.parts if isinstance(part, Text)]
    return said_now(next((text for text in reversed(texts) if text.strip() and not text.startswith(_NOTES)), ""))


def _results(turns: tuple[Turn, ...]) -> Iterator[Result]:
    """Those since the model's last answer."""
    names = {part.id: part for turn in turns for part in turn.parts if isinstance(part, ToolCall)}
    last = max((at for at, turn in enumerate(turns) if turn.role == "assistant"), default=len(turns))
    for part in (part for turn in turns[last:] for part in turn.parts):
        if isinstance(part, ToolResult):
            call = names.get(part.id)
            tool = sent_name(call.name, call.namespace) if call else ""
            yield Result(tool, joined(part.parts), part.is_error)
