"""A request in Anthropic's words, read."""

from paddock.gateway.translate.anthropic.blocks import read_content
from paddock.gateway.translate.model import Ask, Choice, OutputFormat, Role, Text, Tool, ToolChoice, Turn
from paddock.gateway.translate.reading import At, Body, left_out, words

_KNOWN = words(
    "model messages system tools tool_choice max_tokens temperature top_p stop_sequences stream thinking"
    " output_config metadata cache_control service_tier betas"
)
# Claude's note to Anthropic about itself. It differs each time, which defeats every other provider's cache.
_BILLING = "x-anthropic-billing-header:"
_CHOICES: dict[str, Choice] = {"auto": "auto", "any": "any", "tool": "tool", "none": "none"}
_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}


def read_request(body: Body) -> Ask:
    """The request in `body`."""
    at = At(body)
    warnings = left_out(at, _KNOWN)
    choice = at["tool_choice"]
    disabled = choice["disable_parallel_tool_use"].flag_or_none()
    return Ask(
        model=at["model"].text(),
        turns=tuple(_read_turn(message) for message in at["messages"].items()),
        system=_read_system(at["system"]),
        tools=tuple(tool for each in at["tools"].items() if (tool := _read_tool(each, warnings))),
        tool_choice=_read_choice(choice),
        parallel=None if disabled is None else not disabled,
        max_output=at["max_tokens"].count_or_none(),
        temperature=at["temperature"].number_or_none(),
        top_p=at["top_p"].number_or_none(),
        stop=tuple(word.text() for word in at["stop_sequences"].items()),
        stream=at["stream"].flag(),
        include_usage=True,
        effort=at["output_config"]["effort"].text_or_none(),
        budget=at["thinking"]["budget_tokens"].count_or_none() if _thinks(at["thinking"]) else None,
        output=_read_output(at["output_config"]["format"]),
        user=at["metadata"]["user_id"].text_or_none(),
        warnings=tuple(warnings),
    )


def _read_turn(message: At) -> Turn:
    role = _ROLES.get(message["role"].text())
    if role is None:
        raise message["role"].bad("has to be user, assistant or system")
    return Turn(role, read_content(message["content"]))


def _read_system(system: At) -> tuple[str, ...]:
    if isinstance(system.value, str):
        return (system.value,)
    texts = (part.text for part in read_content(system) if isinstance(part, Text))
    return tuple(text for text in texts if not text.startswith(_BILLING))


def _read_tool(tool: At, warnings: list[str]) -> Tool | None:
    if tool["type"].text_or("custom") != "custom":
        warnings.append(f"{tool.path}: a tool of type {tool['type'].word()} is Anthropic's own and is left out")
        return None
    return Tool(
        name=tool["name"].text(),
        description=tool["description"].text_or(""),
        schema=tool["input_schema"].object_or_none() or {},
        strict=tool["strict"].flag_or_none(),
    )


def _read_choice(choice: At) -> ToolChoice | None:
    if choice.missing:
        return None
    kind = _CHOICES.get(choice["type"].text())
    if kind is None:
        raise choice["type"].bad("has to be auto, any, tool or none")
    return ToolChoice(kind, choice["name"].text() if kind == "tool" else "")


def _thinks(thinking: At) -> bool:
    return thinking["type"].text_or("disabled") == "enabled"


def _read_output(format: At) -> OutputFormat | None:
    if format.missing:
        return None
    return OutputFormat(format["schema"].object())
