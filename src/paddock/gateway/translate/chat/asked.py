"""A request in the words of Chat Completions, read."""

from paddock.gateway.translate.media import document_at, image_at, unknown
from paddock.gateway.translate.model import (
    Ask,
    Choice,
    Content,
    OutputFormat,
    Part,
    Role,
    Seal,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Turn,
    merged,
)
from paddock.gateway.translate.reading import At, Body, left_out, words

_KNOWN = words(
    "model messages tools tool_choice parallel_tool_calls max_tokens max_completion_tokens temperature top_p stop"
    " stream stream_options reasoning_effort response_format user safety_identifier n store metadata service_tier"
    " prompt_cache_key prompt_cache_options prompt_cache_retention"
)
_CHOICES: dict[str, Choice] = {"auto": "auto", "required": "any", "none": "none"}
_ROLES: dict[str, Role] = {"user": "user", "system": "system", "developer": "system"}


def read_request(body: Body) -> Ask:
    """The request in `body`."""
    at = At(body)
    warnings = left_out(at, _KNOWN)
    if at["n"].count_or_none() not in (None, 1):
        raise at["n"].bad("only one answer can be asked for")
    system, turns = _split([_read_turn(message) for message in at["messages"].items()])
    return Ask(
        model=at["model"].text(),
        turns=merged(turns),
        system=system,
        tools=tuple(tool for each in at["tools"].items() if (tool := _read_tool(each, warnings))),
        tool_choice=_read_choice(at["tool_choice"], warnings),
        parallel=at["parallel_tool_calls"].flag_or_none(),
        max_output=at["max_completion_tokens"].count_or_none() or at["max_tokens"].count_or_none(),
        temperature=at["temperature"].number_or_none(),
        top_p=at["top_p"].number_or_none(),
        stop=_read_stop(at["stop"]),
        stream=at["stream"].flag(),
        include_usage=at["stream_options"]["include_usage"].flag(),
        effort=at["reasoning_effort"].text_or_none(),
        output=_read_output(at["response_format"]),
        user=at["safety_identifier"].text_or_none() or at["user"].text_or_none(),
        warnings=tuple(warnings),
    )


def _split(turns: list[Turn]) -> tuple[tuple[str, ...], list[Turn]]:
    """What the system says first, and the rest."""
    at = next((at for at, turn in enumerate(turns) if turn.role != "system"), len(turns))
    return tuple(part.text for turn in turns[:at] for part in turn.parts if isinstance(part, Text)), turns[at:]


def _read_turn(message: At) -> Turn:
    role = message["role"].text()
    if role == "assistant":
        return Turn("assistant", _read_assistant(message))
    if role == "tool":
        return Turn("user", (ToolResult(message["tool_call_id"].text(), _read_content(message["content"])),))
    if role not in _ROLES:
        raise message["role"].bad("has to be system, developer, user, assistant or tool")
    return Turn(_ROLES[role], _read_content(message["content"]))


def _read_assistant(message: At) -> tuple[Part, ...]:
    parts: list[Part] = []
    if thought := message["reasoning_content"].any_text():
        parts.append(Thinking(thought, Seal("chat")))
    parts += _read_content(message["content"])
    if refusal := message["refusal"].any_text():
        parts.append(Text(refusal))
    return (*parts, *(read_call(call) for call in message["tool_calls"].items()))


def read_call(call: At) -> ToolCall:
    """A tool call of a message."""
    function = call["function"]
    if function.missing:
        raise call.bad("only calls of functions are known")
    return ToolCall(call["id"].text(), function["name"].text(), function["arguments"].text_or(""))


def _read_content(content: At) -> tuple[Content, ...]:
    if isinstance(content.value, str):
        return (Text(content.value),) if content.value else ()
    return tuple(_read_part(part) for part in content.items())


def _read_part(part: At) -> Content:
    match part["type"].text():
        case "text":
            return Text(part["text"].text())
        case "refusal":
            return Text(part["refusal"].text())
        case "image_url":
            return image_at(part["image_url"]["url"])
        case "file" if not part["file"]["file_data"].missing:
            return document_at(part["file"]["file_data"], part["file"]["filename"].text_or(""))
    return unknown(part)


def _read_tool(tool: At, warnings: list[str]) -> Tool | None:
    if tool["type"].text() != "function":
        warnings.append(f"{tool.path}: a tool of type {tool['type'].word()} has no counterpart and is left out")
        return None
    function = tool["function"]
    return Tool(
        name=function["name"].text(),
        description=function["description"].text_or(""),
        schema=function["parameters"].object_or_none() or {},
        strict=function["strict"].flag_or_none(),
    )


def _read_choice(choice: At, warnings: list[str]) -> ToolChoice | None:
    if choice.missing:
        return None
    if isinstance(choice.value, str):
        if choice.value not in _CHOICES:
            raise choice.bad("has to be auto, required or none, or an object")
        return ToolChoice(_CHOICES[choice.value])
    if choice["type"].text() == "function":
        return ToolChoice("tool", choice["function"]["name"].text())
    warnings.append(f"{choice.path}: a choice of type {choice['type'].word()} has no counterpart and is left out")
    return None


def _read_stop(stop: At) -> tuple[str, ...]:
    if isinstance(stop.value, str):
        return (stop.value,)
    return tuple(word.text() for word in stop.items())


def _read_output(format: At) -> OutputFormat | None:
    match format["type"].text_or("text"):
        case "json_schema":
            schema = format["json_schema"]
            return OutputFormat(
                schema["schema"].object_or_none() or {},
                schema["name"].text_or("answer"),
                schema["strict"].flag_or_none(),
            )
        case "json_object":
            return OutputFormat()
    return None
