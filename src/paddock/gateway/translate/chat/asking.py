"""A request in the words of Chat Completions, written."""

from paddock.gateway.translate.effort import effort_of
from paddock.gateway.translate.media import content_text, data_uri
from paddock.gateway.translate.model import (
    Ask,
    Content,
    Document,
    Image,
    Part,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
    joined,
)
from paddock.gateway.translate.names import sent_name
from paddock.gateway.translate.reading import Body
from paddock.gateway.translate.target import Target, Written, given, merge_options, output_limit
from paddock.gateway.translate.tools import function_of

_MOST_STOPS = 4
_LONGEST_USER = 64


def write_request(ask: Ask, target: Target) -> Written:
    """The body that asks `target`."""
    warnings: list[str] = []
    limit = output_limit(ask.max_output, target)
    body = given(
        model=target.model,
        messages=_write_messages(ask),
        tools=[_write_tool(tool) for tool in ask.tools] or None,
        tool_choice=_write_choice(ask),
        parallel_tool_calls=ask.parallel if ask.tools else None,
        max_completion_tokens=limit if target.openai else None,
        max_tokens=None if target.openai else limit,
        temperature=ask.temperature,
        top_p=ask.top_p,
        stop=_write_stop(ask, warnings),
        reasoning_effort=None if target.reasoning == "none" else effort_of(ask),
        response_format=_write_output(ask),
        user=ask.user if ask.user and len(ask.user) <= _LONGEST_USER else None,
        stream=ask.stream or None,
    )
    body = merge_options(body, target.options)
    if ask.stream:
        # Whatever the client or the connector says: without it nobody knows what was used.
        body["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
    return Written({key: value for key, value in body.items() if key not in target.leave_out}, tuple(warnings))


def _write_messages(ask: Ask) -> list[Body]:
    messages: list[Body] = []
    system = "\n\n".join(text for text in ask.system if text)
    if system:
        messages.append({"role": "system", "content": system})
    turns = _answered_first(ask.turns)
    current = max((at for at, turn in enumerate(turns) if _is_question(turn)), default=-1)
    for at, turn in enumerate(turns):
        if turn.role == "system":
            messages += [{"role": "system", "content": text}] if (text := joined(turn.parts)) else []
        elif turn.role == "user":
            messages += _write_user(turn.parts)
        else:
            messages.append(_write_assistant(turn.parts, at > current))
    return messages


def _answered_first(turns: tuple[Turn, ...]) -> list[Turn]:
    """`turns` with nothing of the system between calls of tools and their results, where Chat allows nothing."""
    ordered: list[Turn] = []
    held: list[Turn] = []
    called = False
    for turn in turns:
        if called and turn.role == "system":
            held.append(turn)
            continue
        if _is_question(turn) or turn.role != "user":
            ordered += held
            held = []
            called = any(isinstance(part, ToolCall) for part in turn.parts)
        ordered.append(turn)
    return ordered + held


def _is_question(turn: Turn) -> bool:
    return turn.role == "user" and not any(isinstance(part, ToolResult) for part in turn.parts)


def _write_user(parts: tuple[Part, ...]) -> list[Body]:
    results = [part for part in parts if isinstance(part, ToolResult)]
    content: list[Content] = []
    for result in results:
        seen = [part for part in result.parts if not isinstance(part, Text)]
        # A tool's message takes text alone, so what there is to see follows as the user's.
        content += [Text(f"What tool call {result.id} returned:"), *seen] if seen else []
    content += [part for part in parts if isinstance(part, Text | Image | Document)]
    messages: list[Body] = [_write_result(result) for result in results]
    if content or not results:
        messages.append({"role": "user", "content": _write_content(content)})
    return messages


def _write_result(result: ToolResult) -> Body:
    text = content_text(result.parts)
    if result.is_error and not text.lower().startswith("error"):
        text = f"Error: {text}"
    return {"role": "tool", "tool_call_id": result.id, "content": text}


def _write_content(parts: list[Content]) -> str | list[Body]:
    """One text where there is nothing else: some servers know no lists."""
    texts = [part.text for part in parts if isinstance(part, Text)]
    return "\n".join(texts) if len(texts) == len(parts) else [_write_part(part) for part in parts]


def _write_part(part: Content) -> Body:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Image():
            return {"type": "image_url", "image_url": {"url": data_uri(part)}}
    if part.url:
        return {"type": "text", "text": f"[file at {part.url}]"}
    return {"type": "file", "file": {"filename": part.name or "document.pdf", "file_data": data_uri(part)}}


def _write_assistant(parts: tuple[Part, ...], current: bool) -> Body:
    calls = [_write_call(part) for part in parts if isinstance(part, ToolCall)]
    text = joined(parts)
    thought = "".join(part.text for part in parts if isinstance(part, Thinking) and part.seal.origin == "chat")
    return given(
        role="assistant",
        # DeepSeek insists on it while tools are being used, and refuses it or does not care afterwards.
        reasoning_content=thought if thought and calls and current else None,
        tool_calls=calls or None,
    ) | {"content": text if text or not calls else None}


def _write_call(call: ToolCall) -> Body:
    function = {"name": sent_name(call.name, call.namespace), "arguments": call.arguments or "{}"}
    return {"id": call.id, "type": "function", "function": function}


def _write_tool(tool: Tool) -> Body:
    name, description, parameters = function_of(tool)
    function = given(name=name, description=description or None, parameters=parameters, strict=tool.strict or None)
    return {"type": "function", "function": function}


def _write_choice(ask: Ask) -> str | Body | None:
    choice = ask.tool_choice
    if choice is None or not ask.tools:
        return None
    if choice.kind == "tool":
        return {"type": "function", "function": {"name": sent_name(choice.name, choice.namespace)}}
    return "required" if choice.kind == "any" else choice.kind


def _write_stop(ask: Ask, warnings: list[str]) -> list[str] | None:
    if len(ask.stop) > _MOST_STOPS:
        warnings.append(f"$.stop_sequences: only {_MOST_STOPS} are possible, and the rest is left out")
    return list(ask.stop[:_MOST_STOPS]) or None


def _write_output(ask: Ask) -> Body | None:
    if ask.output is None:
        return None
    if ask.output.schema is None:
        return {"type": "json_object"}
    schema = given(name=ask.output.name, schema=dict(ask.output.schema), strict=ask.output.strict)
    return {"type": "json_schema", "json_schema": schema}
