"""A stream of Anthropic's events, read."""

from collections.abc import Iterator

from paddock.gateway.translate.anthropic.answers import read_ended
from paddock.gateway.translate.anthropic.blocks import WIRE
from paddock.gateway.translate.deltas import (
    Began,
    Delta,
    Open,
    TextDelta,
    ThinkingDelta,
    ThinkingSealed,
    ToolArguments,
    ToolBegan,
    Usage,
    Used,
)
from paddock.gateway.translate.failures import failure_in
from paddock.gateway.translate.model import Seal
from paddock.gateway.translate.reading import At, Body, dump_text
from paddock.gateway.translate.sealing import seal_of
from paddock.gateway.translate.tokens import anthropic_usage


class Reader:
    """Events in, deltas out."""

    def __init__(self) -> None:
        self._usage = Usage()
        self._open = Open()
        self._input: Body = {}
        self._last: At | None = None

    def event(self, at: At) -> Iterator[Delta]:
        """The deltas of one event."""
        match at["type"].any_text():
            case "message_start":
                yield self._began(at["message"])
            case "content_block_start":
                yield from self._block_began(at["content_block"])
            case "content_block_delta":
                yield from self._delta(at["delta"])
            case "content_block_stop":
                yield from self._block_ended()
            case "message_delta":
                self._usage = anthropic_usage(at["usage"], self._usage)
                self._last = at["delta"]
            case "message_stop":
                yield from self.end()
            case "error":
                yield failure_in(at["error"])

    def end(self) -> Iterator[Delta]:
        """What is left when no more comes: the end, if its reason was said."""
        if self._last is not None:
            yield from self._block_ended()
            yield Used(self._usage)
            yield read_ended(self._last)

    def _began(self, message: At) -> Delta:
        self._usage = anthropic_usage(message["usage"])
        return Began(message["id"].any_text(), message["model"].any_text(), self._usage)

    def _block_began(self, block: At) -> Iterator[Delta]:
        yield from self._block_ended()
        match block["type"].any_text():
            case "tool_use":
                yield from self._open.switch("tool")
                yield ToolBegan(block["id"].any_text(), block["name"].any_text())
                # Some servers say all of it here, and nothing after.
                self._input = block["input"].value if isinstance(block["input"].value, dict) else {}
            case "text":
                yield from self._more("text", TextDelta(block["text"].any_text()))
            case "thinking":
                yield from self._more("thinking", ThinkingDelta(block["thinking"].any_text()))
            case "redacted_thinking":
                yield from self._open.switch("thinking")
                yield ThinkingSealed(Seal(WIRE, "redacted", block["data"].any_text()))

    def _delta(self, delta: At) -> Iterator[Delta]:
        match delta["type"].any_text():
            case "text_delta":
                yield from self._more("text", TextDelta(delta["text"].any_text()))
            case "thinking_delta":
                yield from self._more("thinking", ThinkingDelta(delta["thinking"].any_text()))
            case "signature_delta":
                yield from self._open.switch("thinking")
                yield ThinkingSealed(seal_of(WIRE, delta["signature"].any_text()))
            case "input_json_delta" if self._open.kind == "tool" and delta["partial_json"].any_text():
                self._input = {}
                yield ToolArguments(delta["partial_json"].any_text())

    def _more(self, kind: str, delta: TextDelta | ThinkingDelta) -> Iterator[Delta]:
        if delta.text:
            yield from self._open.switch(kind)
            yield delta

    def _block_ended(self) -> Iterator[Delta]:
        if self._input:
            yield ToolArguments(dump_text(self._input))
            self._input = {}
        yield from self._open.end()
