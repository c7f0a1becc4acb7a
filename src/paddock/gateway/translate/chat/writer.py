"""A stream of chunks of Chat Completions, written."""

from collections.abc import Iterator

from paddock.gateway.translate.chat.answers import write_reason
from paddock.gateway.translate.deltas import (
    Began,
    Delta,
    Ended,
    Failed,
    TextDelta,
    ThinkingDelta,
    ToolArguments,
    ToolBegan,
    Usage,
    Used,
)
from paddock.gateway.translate.failures import error_body
from paddock.gateway.translate.model import Ask
from paddock.gateway.translate.reading import Body
from paddock.gateway.translate.tokens import chat_usage_body

Events = Iterator[tuple[str, Body]]


class Writer:
    """Deltas in, chunks out, which have no names."""

    def __init__(self, ask: Ask, created: int) -> None:
        self._ask = ask
        self._created = created
        self._id = ""
        self._calls = 0
        self._usage = Usage()

    def delta(self, delta: Delta) -> Events:
        """The chunks of one delta."""
        match delta:
            case Began(id, _, usage):
                self._id = id
                self._usage = usage or Usage()
                yield self._chunk({"role": "assistant", "content": "", "refusal": None})
            case Used(usage):
                self._usage = usage
            case Ended(reason):
                yield self._chunk({}, write_reason(reason))
                if self._ask.include_usage:
                    yield "", self._frame([], chat_usage_body(self._usage))
            case Failed(status, _, message):
                yield "", error_body("chat", status, message)
            case _:
                yield from self._in_part(delta)

    def _in_part(self, delta: Delta) -> Events:
        match delta:
            case TextDelta(text):
                yield self._chunk({"content": text})
            case ThinkingDelta(text):
                yield self._chunk({"reasoning_content": text})
            case ToolBegan(id, name):
                function = {"name": name, "arguments": ""}
                call: Body = {"index": self._calls, "id": id, "type": "function", "function": function}
                self._calls += 1
                yield self._chunk({"tool_calls": [call]})
            case ToolArguments(text):
                yield self._chunk({"tool_calls": [{"index": self._calls - 1, "function": {"arguments": text}}]})

    def _chunk(self, delta: Body, finish: str | None = None) -> tuple[str, Body]:
        return "", self._frame([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}], None)

    def _frame(self, choices: list[Body], usage: Body | None) -> Body:
        frame: Body = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._ask.model,
            "choices": choices,
        }
        return frame | {"usage": usage} if self._ask.include_usage else frame
