"""A stream of events of Responses, read."""

from collections.abc import Iterator

from paddock.gateway.translate.deltas import (
    Began,
    Delta,
    Open,
    PartEnded,
    TextDelta,
    ThinkingDelta,
    ThinkingSealed,
    ToolArguments,
    ToolBegan,
    Used,
)
from paddock.gateway.translate.failures import failure, failure_in
from paddock.gateway.translate.reading import At
from paddock.gateway.translate.responses.answers import read_ended
from paddock.gateway.translate.responses.items import read_call, read_reasoning
from paddock.gateway.translate.tokens import responses_usage

_TEXT = ("response.output_text.delta", "response.refusal.delta")
_THOUGHT = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_ENDS = ("response.completed", "response.incomplete")
_CALLS = ("function_call", "custom_tool_call")


class Reader:
    """Events in, deltas out. What an item holds is taken from its deltas, or from its end if there were none."""

    def __init__(self) -> None:
        self._open = Open()
        self._began = False
        self._called = False
        self._refused = False
        self._item = -1
        self._said = False

    def event(self, at: At) -> Iterator[Delta]:
        """The deltas of one event."""
        type = at["type"].any_text()
        if not self._began and not at["response"].missing:
            self._began = True
            yield Began(at["response"]["id"].any_text(), at["response"]["model"].any_text())
        if type in _TEXT:
            self._refused |= type != _TEXT[0]
            yield from self._more(at, "text", TextDelta(at["delta"].any_text()))
        elif type in _THOUGHT:
            yield from self._more(at, "thinking", ThinkingDelta(at["delta"].any_text()))
        elif type == "response.function_call_arguments.delta":
            yield from self._more(at, "tool", ToolArguments(at["delta"].any_text()))
        else:
            yield from self._border(type, at)

    def end(self) -> Iterator[Delta]:
        """What is left when no more comes: nothing, the end is an event."""
        yield from ()

    def _border(self, type: str, at: At) -> Iterator[Delta]:
        match type:
            case "response.output_item.added":
                yield from self._item_began(at)
            case "response.reasoning_summary_part.added" if at["summary_index"].any_count() and self._said:
                yield ThinkingDelta("\n\n")
            case "response.output_item.done":
                yield from self._item_ended(at)
            case "response.completed" | "response.incomplete":
                yield from self._ended(at["response"])
            case "response.failed":
                yield failure_in(at["response"]["error"])
            case "error":
                yield failure_in(at if at["error"].missing else at["error"])

    def _more(self, at: At, kind: str, delta: TextDelta | ThinkingDelta | ToolArguments) -> Iterator[Delta]:
        if at["output_index"].any_count() != self._item:
            yield failure(502, "the provider mixes the parts of its answer")
        elif delta.text:
            yield from self._open.switch(kind)
            self._said = True
            yield delta

    def _item_began(self, at: At) -> Iterator[Delta]:
        yield from self._open.end()
        self._item = at["output_index"].any_count()
        self._said = False
        item = at["item"]
        if item["type"].value in _CALLS:
            yield from self._open.switch("tool")
            self._called = True
            call = read_call(item)
            yield ToolBegan(call.id, call.name, call.namespace, call.custom)

    def _item_ended(self, at: At) -> Iterator[Delta]:
        item = at["item"]
        if at["output_index"].any_count() != self._item:
            return
        if item["type"].value in _CALLS and not self._said:
            yield ToolArguments(read_call(item).arguments)
        elif item["type"].value == "reasoning":
            yield from self._reasoning_ended(item)
        elif item["type"].value == "message" and not self._said:
            for part in item["content"].any_items():
                self._refused |= part["type"].value == "refusal"
                yield from self._more(at, "text", TextDelta(part["text"].any_text() or part["refusal"].any_text()))
        yield from self._open.end()
        self._item = -1

    def _reasoning_ended(self, item: At) -> Iterator[Delta]:
        thinking = read_reasoning(item)
        if not self._said and not thinking.text and not thinking.seal.signature:
            return
        yield from self._open.switch("thinking")
        if not self._said and thinking.text:
            yield ThinkingDelta(thinking.text)
        yield ThinkingSealed(thinking.seal)

    def _ended(self, response: At) -> Iterator[Delta]:
        if self._open.kind:
            yield PartEnded()
        if not response["usage"].missing:
            yield Used(responses_usage(response["usage"]))
        yield read_ended(response, self._called, self._refused)
