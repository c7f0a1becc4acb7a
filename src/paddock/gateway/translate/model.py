"""What is asked of a model, in no provider's words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Role = Literal["user", "assistant", "system"]
Choice = Literal["auto", "any", "tool", "none"]


class Seal(NamedTuple):
    """What makes thinking valid to the provider that it came from: `origin` is its wire, the rest is opaque."""

    origin: str
    id: str = ""
    signature: str = ""

    @property
    def redacted(self) -> bool:
        """Whether the signature is all there is to see: Anthropic's `redacted_thinking`."""
        return self.origin == "anthropic" and self.id == "redacted"


@dataclass(frozen=True, slots=True)
class Text:
    """Words."""

    text: str


@dataclass(frozen=True, slots=True)
class Image:
    """A picture: base64 `data` of a `media_type`, or a `url` that the provider fetches."""

    media_type: str = ""
    data: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """A file that the model reads, as a PDF: base64 `data` of a `media_type`, or a `url`."""

    media_type: str = ""
    data: str = ""
    url: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Thinking:
    """What a model thought before it answered."""

    text: str
    seal: Seal


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model wants used. `arguments` is what it wrote, which may be no JSON.

    A `custom` tool takes any text instead; `arguments` is then `{"input": text}`.
    """

    id: str
    name: str
    arguments: str
    namespace: str = ""
    custom: bool = False


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of a tool call."""

    id: str
    parts: tuple[Text | Image | Document, ...]
    is_error: bool = False
    custom: bool = False


Content = Text | Image | Document
Part = Text | Image | Document | Thinking | ToolCall | ToolResult


@dataclass(frozen=True, slots=True)
class Turn:
    """What one side said at once. Turns of the `system` may be anywhere."""

    role: Role
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the model may use: a function of a JSON `schema`, or `custom`, which takes any text.

    `format` is the grammar of that text, as OpenAI has it.
    """

    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)
    namespace: str = ""
    namespace_description: str = ""
    strict: bool | None = None
    custom: bool = False
    format: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Whether tools have to be used: as the model likes, any of them, the one of that name, none."""

    kind: Choice
    name: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """JSON instead of prose: of a schema, or any if there is none."""

    schema: Mapping[str, Any] | None = None
    name: str = "answer"
    strict: bool | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """A request. `warnings` say what it asked for that was left out when it was read."""

    model: str
    turns: tuple[Turn, ...]
    system: tuple[str, ...] = ()
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel: bool | None = None
    max_output: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    stream: bool = False
    include_usage: bool = False
    effort: str | None = None
    budget: int | None = None
    output: OutputFormat | None = None
    user: str | None = None
    warnings: tuple[str, ...] = ()


def joined(parts: tuple[Part, ...]) -> str:
    """The text among `parts`, a line each."""
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def merged(turns: list[Turn]) -> tuple[Turn, ...]:
    """`turns` with neighbours of the same side as one, except the system's."""
    whole: list[tuple[Role, list[Part]]] = []
    for turn in turns:
        if not whole or turn.role != whole[-1][0] or turn.role == "system":
            whole.append((turn.role, []))
        whole[-1][1].extend(turn.parts)
    return tuple(Turn(role, tuple(parts)) for role, parts in whole)
