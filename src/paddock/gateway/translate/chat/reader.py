"""A stream of chunks of Chat Completions, read."""

from collections.abc import Iterator

from paddock.gateway.translate.chat.answers import read_reason, text_in, thought_in
from paddock.gateway.translate.deltas import (
    Began,
    Delta,
    Ended,
    Open,
    TextDelta,
    ThinkingDelta,
    ThinkingSealed,
    ToolArguments,
    ToolBegan,
    Usage,
    Used,
)
from paddock.gateway.translate.failures import failure, failure_in
from paddock.gateway.translate.model import Seal
from paddock.gateway.translate.reading import At
from paddock.gateway.translate.tokens import chat_usage


class Reader:
    """Chunks in, deltas out. The end waits for `[DONE]`, because usage comes after the reason."""

    def __init__(self) -> None:
        self._began = False
        self._open = Open()
        self._usage: Usage | None = None
        self._finish = ""
        self._refused = False
        self._call = -1
        self._call_id = ""
        self._calls: set[int | str] = set()  # by index and by id

    def event(self, at: At) -> Iterator[Delta]:
        """The deltas of one chunk."""
        if not at["error"].missing:
            yield failure_in(at["error"])
            return
        if not self._began:
            self._began = True
            yield Began(at["id"].any_text(), at["model"].any_text())
        if isinstance(at["usage"].value, dict):
            self._usage = chat_usage(at["usage"])
        for choice in at["choices"].any_items()[:1]:
            yield from self._delta(choice["delta"])
            self._finish = choice["finish_reason"].any_text() or self._finish

    def end(self) -> Iterator[Delta]:
        """What is left when no more comes: the end, if its reason was said."""
        if not self._finish:
            return
        yield from self._end_part()
        if self._usage is not None:
            yield Used(self._usage)
        reason = read_reason(self._finish, bool(self._calls))
        yield Ended("refusal" if self._refused else reason)

    def _delta(self, delta: At) -> Iterator[Delta]:
        if thought := thought_in(delta):
            yield from self._switch("thinking")
            yield ThinkingDelta(thought)
        refusal = delta["refusal"].any_text()
        self._refused |= bool(refusal)
        if text := text_in(delta["content"]) or refusal:
            yield from self._switch("text")
            yield TextDelta(text)
        for call in delta["tool_calls"].any_items():
            yield from self._tool_call(call)

    def _switch(self, kind: str) -> Iterator[Delta]:
        if self._open.kind != kind:
            yield from self._end_part()
            yield from self._open.switch(kind)

    def _end_part(self) -> Iterator[Delta]:
        if self._open.kind == "thinking":
            yield ThinkingSealed(Seal("chat"))
        yield from self._open.end()

    def _tool_call(self, call: At) -> Iterator[Delta]:
        index, id = call["index"].any_count(), call["id"].any_text()
        if self._open.kind != "tool" or self._is_another(index, id):
            if (id or index) in self._calls:
                yield failure(502, "the provider mixes the arguments of several tool calls")
                return
            yield from self._end_part()
            yield from self._open.switch("tool")
            self._call, self._call_id = index, id
            self._calls.update((index, id) if id else (index,))
            yield ToolBegan(id, call["function"]["name"].any_text())
        if arguments := call["function"]["arguments"].any_text():
            yield ToolArguments(arguments)

    def _is_another(self, index: int, id: str) -> bool:
        """Whether it is not the call that is open. Some servers number all calls 0, some repeat the id in each piece."""
        return index != self._call or bool(id and self._call_id and id != self._call_id)
