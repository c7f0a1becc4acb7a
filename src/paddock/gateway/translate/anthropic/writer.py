"""A stream of Anthropic's events, written."""

from collections.abc import Iterator

from paddock.gateway.translate.anthropic.answers import write_ended
from paddock.gateway.translate.anthropic.blocks import WIRE
from paddock.gateway.translate.deltas import (
    Began,
    Delta,
    Ended,
    Failed,
    PartEnded,
    TextDelta,
    ThinkingDelta,
    ThinkingSealed,
    ToolArguments,
    ToolBegan,
    Usage,
    Used,
)
from paddock.gateway.translate.failures import error_body
from paddock.gateway.translate.model import Ask, Seal
from paddock.gateway.translate.reading import Body
from paddock.gateway.translate.sealing import seal_text
from paddock.gateway.translate.tokens import anthropic_usage_body

Events = Iterator[tuple[str, Body]]


class Writer:
    """Deltas in, events out."""

    def __init__(self, ask: Ask, created: int) -> None:
        self._ask = ask
        self._index = 0
        self._kind = ""
        self._usage = Usage()

    def delta(self, delta: Delta) -> Events:
        """The events of one delta."""
        match delta:
            case Began():
                yield self._start(delta)
            case PartEnded():
                yield from self._close()
            case Used(usage):
                self._usage = usage
            case Ended():
                yield from self._end(delta)
            case Failed(status, _, message):
                yield "error", error_body("anthropic", status, message)
            case _:
                yield from self._in_block(delta)

    def _start(self, began: Began) -> tuple[str, Body]:
        self._usage = began.usage or Usage()
        message: Body = {
            "id": began.id,
            "type": "message",
            "role": "assistant",
            "model": self._ask.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": anthropic_usage_body(self._usage),
        }
        return "message_start", {"type": "message_start", "message": message}

    def _in_block(self, delta: Delta) -> Events:
        match delta:
            case TextDelta(text):
                yield from self._open("text", {"type": "text", "text": ""})
                yield self._delta({"type": "text_delta", "text": text})
            case ThinkingDelta(text):
                yield from self._open("thinking", {"type": "thinking", "thinking": "", "signature": ""})
                yield self._delta({"type": "thinking_delta", "thinking": text})
            case ThinkingSealed(seal):
                yield from self._sealed(seal)
            case ToolBegan(id, name):
                yield from self._close()
                yield from self._open("tool", {"type": "tool_use", "id": id, "name": name, "input": {}})
            case ToolArguments(text):
                yield self._delta({"type": "input_json_delta", "partial_json": text})

    def _sealed(self, seal: Seal) -> Events:
        if seal.redacted:
            yield from self._close()
            yield from self._open("thinking", {"type": "redacted_thinking", "data": seal.signature})
            return
        yield from self._open("thinking", {"type": "thinking", "thinking": "", "signature": ""})
        yield self._delta({"type": "signature_delta", "signature": seal_text(WIRE, seal)})

    def _open(self, kind: str, block: Body) -> Events:
        if self._kind != kind:
            yield from self._close()
            self._kind = kind
            data = {"type": "content_block_start", "index": self._index, "content_block": block}
            yield "content_block_start", data

    def _delta(self, delta: Body) -> tuple[str, Body]:
        return "content_block_delta", {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _close(self) -> Events:
        if self._kind:
            yield "content_block_stop", {"type": "content_block_stop", "index": self._index}
            self._kind = ""
            self._index += 1

    def _end(self, ended: Ended) -> Events:
        yield from self._close()
        delta = write_ended(ended.reason, ended.stop_sequence)
        usage = anthropic_usage_body(self._usage)
        yield "message_delta", {"type": "message_delta", "delta": delta, "usage": usage}
        yield "message_stop", {"type": "message_stop"}
