"""A whole answer in Anthropic's words."""

from collections.abc import Iterator

from paddock.gateway.translate.anthropic.blocks import read_block, write_call, write_thinking
from paddock.gateway.translate.deltas import Answer, Delta, Ended, Reason, deltas_of
from paddock.gateway.translate.failures import failure_in
from paddock.gateway.translate.model import Ask, Text, Thinking, ToolCall
from paddock.gateway.translate.reading import At, Body
from paddock.gateway.translate.tokens import anthropic_usage, anthropic_usage_body

_REASONS: dict[str, Reason] = {
    "end_turn": "end",
    "pause_turn": "end",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
}
_STOP_REASONS: dict[Reason, str] = {
    "end": "end_turn",
    "length": "max_tokens",
    "tool": "tool_use",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
}
_ANSWERED = ("text", "thinking", "redacted_thinking", "tool_use")


def read_ended(at: At) -> Ended:
    """Why it ended, from what has `stop_reason`."""
    return Ended(_REASONS.get(at["stop_reason"].any_text(), "end"), at["stop_sequence"].any_text() or None)


def write_ended(reason: Reason, stop_sequence: str | None) -> Body:
    """Why it ended."""
    return {"stop_reason": _STOP_REASONS[reason], "stop_sequence": stop_sequence}


def read_answer(body: Body) -> Iterator[Delta]:
    """The answer in `body`."""
    at = At(body)
    if not at["error"].missing:
        yield failure_in(at["error"])
        return
    blocks = [block for block in at["content"].any_items() if block["type"].value in _ANSWERED]
    parts = tuple(part for block in blocks if isinstance(part := read_block(block), Text | Thinking | ToolCall))
    ended = read_ended(at)
    usage = anthropic_usage(at["usage"])
    yield from deltas_of(
        Answer(at["id"].any_text(), at["model"].any_text(), parts, usage, ended.reason, ended.stop_sequence)
    )


def write_answer(ask: Ask, answer: Answer) -> Body:
    """The body that says `answer`."""
    return {
        "id": answer.id,
        "type": "message",
        "role": "assistant",
        "model": ask.model,
        "content": [_write_part(part) for part in answer.parts],
        **write_ended(answer.reason, answer.stop_sequence),
        "usage": anthropic_usage_body(answer.usage),
    }


def _write_part(part: Text | Thinking | ToolCall) -> Body:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Thinking():
            return write_thinking(part)
    return write_call(part, part.id, part.name)
