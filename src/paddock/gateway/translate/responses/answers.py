"""A whole answer in the words of Responses."""

from collections.abc import Iterator

from paddock.gateway.translate.deltas import Answer, Delta, Ended, Failed, Reason, Usage, deltas_of
from paddock.gateway.translate.failures import failure_in, openai_words
from paddock.gateway.translate.model import Ask, Text, Thinking, ToolCall
from paddock.gateway.translate.reading import At, Body
from paddock.gateway.translate.responses.items import read_call, read_reasoning, write_call, write_reasoning
from paddock.gateway.translate.responses.tools import write_choice, write_format, write_tools
from paddock.gateway.translate.target import given
from paddock.gateway.translate.tokens import responses_usage, responses_usage_body

_CALLS = ("function_call", "custom_tool_call")
_PREFIXES = {"function_call": "fc", "custom_tool_call": "ctc", "reasoning": "rs", "message": "msg"}


def read_answer(body: Body) -> Iterator[Delta]:
    """The answer in `body`."""
    at = At(body)
    if not at["error"].missing:
        yield failure_in(at["error"])
        return
    parts = tuple(part for item in at["output"].any_items() for part in _read_parts(item))
    called = any(isinstance(part, ToolCall) for part in parts)
    ended = read_ended(at, called, refused=_refused(at))
    usage = responses_usage(at["usage"])
    yield from deltas_of(Answer(at["id"].any_text(), at["model"].any_text(), parts, usage, ended.reason))


def _read_parts(item: At) -> Iterator[Text | Thinking | ToolCall]:
    type = item["type"].any_text()
    if type in _CALLS:
        yield read_call(item)
    elif type == "reasoning":
        yield read_reasoning(item)
    elif type == "message":
        texts = [part["text"].any_text() or part["refusal"].any_text() for part in item["content"].any_items()]
        yield from (Text(text) for text in texts if text)


def _refused(at: At) -> bool:
    contents = (part for item in at["output"].any_items() for part in item["content"].any_items())
    return any(part["type"].value == "refusal" for part in contents)


def read_ended(response: At, called: bool, refused: bool) -> Ended:
    """Why it ended."""
    if refused or response["incomplete_details"]["reason"].value == "content_filter":
        return Ended("refusal")
    if response["status"].value == "incomplete":
        return Ended("length")
    return Ended("tool" if called else "end")


def write_answer(ask: Ask, answer: Answer, created: int) -> Body:
    """The body that says `answer`."""
    output = [write_item(part, item_id(part, answer.id, at)) for at, part in enumerate(answer.parts)]
    return frame(ask, answer.id, created) | outcome(answer.reason) | finished(output, answer.usage)


def frame(ask: Ask, id: str, created: int) -> Body:
    """An answer that has only just begun. Much of it repeats the request."""
    return {
        "id": id,
        "object": "response",
        "created_at": created,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": "\n\n".join(ask.system) or None,
        "max_output_tokens": ask.max_output,
        "metadata": {},
        "model": ask.model,
        "output": [],
        "parallel_tool_calls": ask.parallel is not False,
        "previous_response_id": None,
        "reasoning": {"effort": ask.effort, "summary": None},
        "store": False,
        "temperature": ask.temperature,
        "text": {"format": write_format(ask.output) if ask.output else {"type": "text"}},
        "tool_choice": write_choice(ask) or "auto",
        "tools": write_tools(ask.tools),
        "top_p": ask.top_p,
        "truncation": "disabled",
        "usage": None,
        "user": ask.user,
    }


def outcome(reason: Reason) -> Body:
    """How it ended."""
    if reason == "length":
        return {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    if reason == "refusal":
        return {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
    return {"status": "completed"}


def finished(output: list[Body], usage: Usage) -> Body:
    """What is known at the end."""
    return {"output": output, "usage": responses_usage_body(usage)}


def failed(failure: Failed) -> Body:
    """How it failed."""
    _, code = openai_words(failure.status, failure.message)
    if code is None or code == "invalid_api_key":
        code = "invalid_prompt" if 400 <= failure.status < 500 else "server_error"
    return {"status": "failed", "error": {"code": code, "message": failure.message}}


def item_id(part: Text | Thinking | ToolCall, response: str, at: int) -> str:
    """An id for an item, which no provider but this one has."""
    if isinstance(part, Thinking) and part.seal.id.startswith("rs_"):
        return part.seal.id
    prefix = _PREFIXES[_type(part)]
    return f"{prefix}_{response}_{at}"


def _type(part: Text | Thinking | ToolCall) -> str:
    match part:
        case Text():
            return "message"
        case Thinking():
            return "reasoning"
    return "custom_tool_call" if part.custom else "function_call"


def write_item(part: Text | Thinking | ToolCall, id: str, status: str = "completed") -> Body:
    """An item of the output."""
    match part:
        case Text(text):
            content = [text_part(text)] if text else []
            return {"id": id, "type": "message", "status": status, "role": "assistant", "content": content}
        case Thinking():
            return write_reasoning(part, id)
    body = write_call(part, part.name) | {"id": id}
    return body if part.custom else given(**body, status=status)


def text_part(text: str) -> Body:
    """A text within a message."""
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
