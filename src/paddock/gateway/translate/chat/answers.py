"""A whole answer in the words of Chat Completions."""

from collections.abc import Iterator

from paddock.gateway.translate.deltas import Answer, Delta, Reason, deltas_of
from paddock.gateway.translate.failures import failure, failure_in
from paddock.gateway.translate.model import Ask, Seal, Text, Thinking, ToolCall
from paddock.gateway.translate.reading import At, Body
from paddock.gateway.translate.tokens import chat_usage, chat_usage_body

_REASONS: dict[str, Reason] = {
    "stop": "end",
    "length": "length",
    "tool_calls": "tool",
    "function_call": "tool",
    "content_filter": "refusal",
}
_FINISH: dict[Reason, str] = {
    "end": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "tool": "tool_calls",
    "refusal": "content_filter",
}


def read_reason(word: str, called: bool) -> Reason:
    """Why it ended. Some servers say `stop` after calls of tools."""
    reason = _REASONS.get(word, "end")
    return "tool" if called and reason == "end" else reason


def write_reason(reason: Reason) -> str:
    """The `finish_reason`."""
    return _FINISH[reason]


def thought_in(message: At) -> str:
    """Thinking, as DeepSeek and others have it, or OpenRouter."""
    return message["reasoning_content"].any_text() or message["reasoning"].any_text()


def text_in(content: At) -> str:
    """The text of a message; a few servers answer with a list."""
    return content.any_text() or "".join(part["text"].any_text() for part in content.any_items())


def read_answer(body: Body) -> Iterator[Delta]:
    """The answer in `body`."""
    at = At(body)
    if not at["error"].missing:
        yield failure_in(at["error"])
        return
    choice = next(iter(at["choices"].any_items()), None)
    if choice is None:
        yield failure(502, "the provider's answer holds no choice")
        return
    parts = tuple(_read_parts(choice["message"]))
    called = any(isinstance(part, ToolCall) for part in parts)
    refused = bool(choice["message"]["refusal"].any_text())
    reason = "refusal" if refused else read_reason(choice["finish_reason"].any_text(), called)
    usage = chat_usage(at["usage"])
    yield from deltas_of(Answer(at["id"].any_text(), at["model"].any_text(), parts, usage, reason))


def _read_parts(message: At) -> Iterator[Text | Thinking | ToolCall]:
    if thought := thought_in(message):
        yield Thinking(thought, Seal("chat"))
    if text := text_in(message["content"]) or message["refusal"].any_text():
        yield Text(text)
    for call in message["tool_calls"].any_items():
        function = call["function"]
        yield ToolCall(call["id"].any_text(), function["name"].any_text(), function["arguments"].any_text())


def write_answer(ask: Ask, answer: Answer, created: int) -> Body:
    """The body that says `answer`."""
    choice = {
        "index": 0,
        "message": _write_message(answer),
        "logprobs": None,
        "finish_reason": write_reason(answer.reason),
    }
    return {
        "id": answer.id,
        "object": "chat.completion",
        "created": created,
        "model": ask.model,
        "choices": [choice],
        "usage": chat_usage_body(answer.usage),
    }


def _write_message(answer: Answer) -> Body:
    calls = [part for part in answer.parts if isinstance(part, ToolCall)]
    thought = "".join(part.text for part in answer.parts if isinstance(part, Thinking))
    text = "".join(part.text for part in answer.parts if isinstance(part, Text))
    message: Body = {"role": "assistant", "content": text if text or not calls else None, "refusal": None}
    if thought:
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = [_write_call(call) for call in calls]
    return message


def _write_call(call: ToolCall) -> Body:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
