"""A request in the words of Responses, read."""

from dataclasses import replace

from paddock.gateway.translate.model import Ask, Choice, OutputFormat, Text, Tool, ToolChoice, Turn, merged
from paddock.gateway.translate.reading import At, Body, left_out, words
from paddock.gateway.translate.responses.items import read_item

_KNOWN = words(
    "model input instructions tools tool_choice parallel_tool_calls max_output_tokens temperature top_p stream"
    " stream_options reasoning text user safety_identifier store include metadata client_metadata service_tier"
    " prompt_cache_key prompt_cache_options prompt_cache_retention truncation background"
)
_STATEFUL = {
    "previous_response_id": "no answers are stored here, so send the whole conversation as input",
    "conversation": "no conversations are stored here, so send the whole conversation as input",
    "prompt": "no prompts are stored here",
}
_CHOICES: dict[str, Choice] = {"auto": "auto", "required": "any", "none": "none"}


def read_request(body: Body) -> Ask:
    """The request in `body`. What needs something that was stored is refused: nothing is."""
    at = At(body)
    warnings = left_out(at, _KNOWN | _STATEFUL.keys())
    for key, problem in _STATEFUL.items():
        if not at[key].missing:
            raise at[key].bad(problem)
    if at["background"].flag():
        raise at["background"].bad("no answers are stored here, so they cannot be fetched later")
    tools = tuple(tool for each in at["tools"].items() for tool in _read_tools(each, warnings))
    system, turns = _read_input(at["input"], warnings)
    return Ask(
        model=at["model"].text(),
        turns=turns,
        system=(*([text] if (text := at["instructions"].text_or("")) else []), *system),
        tools=tools,
        tool_choice=_read_choice(at["tool_choice"], warnings),
        parallel=at["parallel_tool_calls"].flag_or_none(),
        max_output=at["max_output_tokens"].count_or_none(),
        temperature=at["temperature"].number_or_none(),
        top_p=at["top_p"].number_or_none(),
        stream=at["stream"].flag(),
        include_usage=True,
        effort=at["reasoning"]["effort"].text_or_none(),
        output=_read_output(at["text"]["format"]),
        user=at["safety_identifier"].text_or_none() or at["user"].text_or_none(),
        warnings=tuple(warnings),
    )


def _read_input(input: At, warnings: list[str]) -> tuple[tuple[str, ...], tuple[Turn, ...]]:
    """What the system says first, and the rest."""
    if isinstance(input.value, str):
        return (), (Turn("user", (Text(input.value),)),)
    turns = [turn for item in input.items() if (turn := read_item(item, warnings))]
    at = next((at for at, turn in enumerate(turns) if turn.role != "system"), len(turns))
    system = tuple(part.text for turn in turns[:at] for part in turn.parts if isinstance(part, Text))
    return system, merged(turns[at:])


def _read_tools(tool: At, warnings: list[str]) -> list[Tool]:
    type = tool["type"].text()
    if type == "namespace":
        name, description = tool["name"].text(), tool["description"].text_or("")
        inner = [each for member in tool["tools"].items() for each in _read_member(member, warnings)]
        return [replace(each, namespace=name, namespace_description=description) for each in inner]
    return _read_member(tool, warnings)


def _read_member(tool: At, warnings: list[str]) -> list[Tool]:
    # Within a namespace some leave out the type of a function.
    type = tool["type"].text_or("function")
    if type == "function":
        schema = tool["parameters"].object_or_none() or {}
        return [
            Tool(tool["name"].text(), tool["description"].text_or(""), schema, strict=tool["strict"].flag_or_none())
        ]
    if type == "custom":
        format = tool["format"].object_or_none()
        return [Tool(tool["name"].text(), tool["description"].text_or(""), custom=True, format=format)]
    warnings.append(f"{tool.path}: a tool of type {tool['type'].word()} has no counterpart and is left out")
    return []


def _read_choice(choice: At, warnings: list[str]) -> ToolChoice | None:
    if choice.missing:
        return None
    if isinstance(choice.value, str):
        if choice.value not in _CHOICES:
            raise choice.bad("has to be auto, required or none, or an object")
        return ToolChoice(_CHOICES[choice.value])
    if choice["type"].text() in ("function", "custom"):
        return ToolChoice("tool", choice["name"].text(), choice["namespace"].text_or(""))
    warnings.append(f"{choice.path}: a choice of type {choice['type'].word()} has no counterpart and is left out")
    return None


def _read_output(format: At) -> OutputFormat | None:
    match format["type"].text_or("text"):
        case "json_schema":
            schema, name = format["schema"].object_or_none() or {}, format["name"].text_or("answer")
            return OutputFormat(schema, name, format["strict"].flag_or_none())
        case "json_object":
            return OutputFormat()
    return None
