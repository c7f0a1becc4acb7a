"""A request in the words of Responses, written."""

from paddock.gateway.translate.effort import effort_of
from paddock.gateway.translate.model import Ask
from paddock.gateway.translate.reading import Body
from paddock.gateway.translate.responses.items import write_turn
from paddock.gateway.translate.responses.tools import write_choice, write_format, write_tools
from paddock.gateway.translate.target import Target, Written, given, merge_options, output_limit

# Less is refused.
_LEAST_OUTPUT = 16
_LONGEST_USER = 64


def write_request(ask: Ask, target: Target) -> Written:
    """The body that asks `target`. Nothing is to be stored there: the client sends the conversation each time."""
    limit = output_limit(ask.max_output, target)
    body = given(
        model=target.model,
        instructions="\n\n".join(text for text in ask.system if text) or None,
        input=[item for turn in ask.turns for item in write_turn(turn)],
        tools=write_tools(ask.tools) or None,
        tool_choice=write_choice(ask),
        parallel_tool_calls=ask.parallel if ask.tools else None,
        max_output_tokens=None if limit is None else max(limit, _LEAST_OUTPUT),
        temperature=ask.temperature,
        top_p=ask.top_p,
        text={"format": write_format(ask.output)} if ask.output else None,
        user=ask.user if ask.user and len(ask.user) <= _LONGEST_USER else None,
        store=False,
        stream=ask.stream or None,
        **_write_reasoning(ask, target),
    )
    body = merge_options(body, target.options)
    warnings = ("$.stop_sequences: Responses has none; they are left out",) if ask.stop else ()
    return Written({key: value for key, value in body.items() if key not in target.leave_out}, warnings)


def _write_reasoning(ask: Ask, target: Target) -> Body:
    effort = effort_of(ask)
    if target.reasoning == "none" or effort is None:
        return {}
    return {"reasoning": {"effort": effort, "summary": "auto"}, "include": ["reasoning.encrypted_content"]}
