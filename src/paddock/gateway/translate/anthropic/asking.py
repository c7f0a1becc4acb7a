"""A request in Anthropic's words, written."""

from paddock.gateway.translate.anthropic.blocks import WIRE, write_parts
from paddock.gateway.translate.anthropic.system import results_first, wrapped
from paddock.gateway.translate.effort import budget_of, effort_of
from paddock.gateway.translate.model import Ask, Text, Thinking, Tool, ToolCall, Turn
from paddock.gateway.translate.names import sent_name
from paddock.gateway.translate.reading import BadRequest, Body
from paddock.gateway.translate.target import Target, Written, given, merge_options, output_limit
from paddock.gateway.translate.tools import function_of

# Anthropic insists on a limit.
_USUAL_OUTPUT = 16384
_CACHED = {"cache_control": {"type": "ephemeral"}}


def write_request(ask: Ask, target: Target) -> Written:
    """The body that asks `target`."""
    warnings: list[str] = []
    system, turns = _leading_system(ask)
    max_output = output_limit(ask.max_output, target) or _USUAL_OUTPUT
    thinking = _write_thinking(ask, target, max_output)
    body = given(
        model=target.model,
        max_tokens=max_output,
        system=_write_system(system),
        messages=_write_messages(system, turns),
        tools=[_write_tool(tool) for tool in ask.tools] or None,
        tool_choice=_write_choice(ask),
        stop_sequences=list(ask.stop) or None,
        stream=ask.stream or None,
        output_config=_write_output(ask, target, warnings) or None,
        metadata={"user_id": ask.user} if ask.user else None,
        thinking=thinking,
    )
    if thinking is None:
        body |= _write_sampling(ask, warnings)
    body = merge_options(body, target.options)
    return Written({key: value for key, value in body.items() if key not in target.leave_out}, tuple(warnings))


def _leading_system(ask: Ask) -> tuple[list[str], tuple[Turn, ...]]:
    at = next((at for at, turn in enumerate(ask.turns) if turn.role != "system"), len(ask.turns))
    texts = [part.text for turn in ask.turns[:at] for part in turn.parts if isinstance(part, Text)]
    return [text for text in (*ask.system, *texts) if text.strip()], ask.turns[at:]


def _write_system(texts: list[str]) -> list[Body] | None:
    """The system's texts, of which the last is a place up to which Anthropic caches: it does not by itself."""
    blocks: list[Body] = [{"type": "text", "text": text} for text in texts]
    if blocks:
        blocks[-1] |= _CACHED
    return blocks or None


def _write_messages(system: list[str], turns: tuple[Turn, ...]) -> list[Body]:
    messages: list[Body] = []
    for turn in turns:
        blocks = write_parts(wrapped(turn).parts)
        role = "assistant" if turn.role == "assistant" else "user"
        if blocks and messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        elif blocks:
            messages.append({"role": role, "content": blocks})
    if not messages and system:
        # Anthropic insists on a message; others answer to instructions alone.
        messages.append({"role": "user", "content": [{"type": "text", "text": system[-1]}]})
    if not messages:
        raise BadRequest("$", "there is no message to answer")
    for message in messages:
        message["content"] = results_first(message["content"])
    _cache_up_to(messages[-1]["content"])
    return messages


def _cache_up_to(blocks: list[Body]) -> None:
    """Have Anthropic cache the conversation, which the next request goes on with. Thinking cannot be such a place."""
    if blocks[-1]["type"] in ("text", "tool_result", "tool_use", "image", "document"):
        blocks[-1] = blocks[-1] | _CACHED


def _write_tool(tool: Tool) -> Body:
    function = function_of(tool)
    return given(
        name=function.name,
        description=function.description or None,
        input_schema=function.schema,
        strict=True if tool.strict else None,
    )


def _write_choice(ask: Ask) -> Body | None:
    if not ask.tools:
        return None
    parallel: Body = {} if ask.parallel is None else {"disable_parallel_tool_use": not ask.parallel}
    choice = ask.tool_choice
    if choice is None:
        return {"type": "auto"} | parallel if parallel else None
    if choice.kind == "none":
        return {"type": "none"}
    if choice.kind == "tool":
        return {"type": "tool", "name": sent_name(choice.name, choice.namespace)} | parallel
    return {"type": choice.kind} | parallel


def _write_thinking(ask: Ask, target: Target, max_output: int) -> Body | None:
    forced = ask.tool_choice is not None and ask.tool_choice.kind in ("any", "tool")
    if target.reasoning == "none" or forced or effort_of(ask) in (None, "none"):
        return None  # Anthropic refuses to think when a tool has to be used.
    if target.reasoning == "effort":
        return {"type": "adaptive"}
    budget = budget_of(ask, max_output)
    return {"type": "enabled", "budget_tokens": budget} if budget and _thinking_is_there(ask) else None


def _thinking_is_there(ask: Ask) -> bool:
    """Whether the tool calls that are being worked on have their thinking: Anthropic insists on it with a budget."""
    last = next((turn for turn in reversed(ask.turns) if turn.role == "assistant"), None)
    if last is None or not any(isinstance(part, ToolCall) for part in last.parts):
        return True
    return any(isinstance(part, Thinking) and part.seal.origin == WIRE and part.seal.signature for part in last.parts)


def _write_output(ask: Ask, target: Target, warnings: list[str]) -> Body:
    config: Body = {}
    effort = effort_of(ask)
    if target.reasoning == "effort" and effort not in (None, "none"):
        config["effort"] = "low" if effort == "minimal" else effort
    if ask.output is not None and ask.output.schema is not None:
        config["format"] = {"type": "json_schema", "schema": dict(ask.output.schema)}
    elif ask.output is not None:
        warnings.append("$.response_format: Anthropic has no JSON without a schema; it is left out")
    return config


def _write_sampling(ask: Ask, warnings: list[str]) -> Body:
    if ask.temperature is not None and ask.top_p is not None:
        warnings.append("$.top_p: Anthropic takes a temperature or this, not both; it is left out")
    if ask.temperature is not None:
        return {"temperature": min(ask.temperature, 1.0)}
    return given(top_p=ask.top_p)
