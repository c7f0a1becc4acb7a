"""A stream of events of Responses, written."""

from collections.abc import Iterator
from dataclasses import replace

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
from paddock.gateway.translate.model import Ask, Seal, Text, Thinking, ToolCall
from paddock.gateway.translate.reading import Body
from paddock.gateway.translate.responses.answers import failed, finished, frame, item_id, outcome, text_part, write_item
from paddock.gateway.translate.tools import input_of

Events = Iterator[tuple[str, Body]]
_SUMMARY = "response.reasoning_summary"
_ARGUMENTS = "response.function_call_arguments"
_INPUT = "response.custom_tool_call_input"


class Writer:
    """Deltas in, events out. The whole answer is said again at the end, so it is kept until then."""

    def __init__(self, ask: Ask, created: int) -> None:
        self._frame = frame(ask, "", created)
        self._usage = Usage()
        self._output: list[Body] = []
        self._sequence = 0
        self._id = ""
        self._part: Text | Thinking | ToolCall | None = None
        self._texts: list[str] = []

    def delta(self, delta: Delta) -> Events:
        """The events of one delta."""
        for type, data in self._events(delta):
            yield type, {"type": type, "sequence_number": self._sequence, **data}
            self._sequence += 1

    def _events(self, delta: Delta) -> Events:
        match delta:
            case Began(id, _, usage):
                self._frame["id"] = id
                self._usage = usage or Usage()
                yield "response.created", {"response": self._frame}
                yield "response.in_progress", {"response": self._frame}
            case Used(usage):
                self._usage = usage
            case PartEnded():
                yield from self._close()
            case Ended(reason):
                yield from self._close()
                whole = self._frame | outcome(reason) | finished(self._output, self._usage)
                yield f"response.{whole['status']}", {"response": whole}
            case Failed():
                yield "response.failed", {"response": self._frame | failed(delta) | {"output": self._output}}
            case _:
                yield from self._in_part(delta)

    def _in_part(self, delta: Delta) -> Events:
        match delta:
            case TextDelta(text):
                yield from self._open(Text(""))
                self._texts.append(text)
                yield "response.output_text.delta", self._place(content_index=0, delta=text, logprobs=[])
            case ThinkingDelta(text):
                yield from self._thought(text)
            case ThinkingSealed(seal):
                yield from self._open(Thinking("", seal))
                self._part = Thinking("", seal)
            case ToolBegan(id, name, namespace, custom):
                yield from self._close()
                yield from self._open(ToolCall(id, name, "", namespace, custom))
            case ToolArguments(text):
                yield from self._arguments(text)

    def _open(self, part: Text | Thinking | ToolCall) -> Events:
        if type(part) is type(self._part):
            return
        yield from self._close()
        self._part = part
        self._id = item_id(part, self._frame["id"], len(self._output))
        item = write_item(part, self._id, "in_progress")
        yield "response.output_item.added", {"output_index": len(self._output), "item": item}
        if isinstance(part, Text):
            yield "response.content_part.added", self._place(content_index=0, part=text_part(""))

    def _thought(self, text: str) -> Events:
        yield from self._open(Thinking("", Seal("")))
        if not self._texts:
            yield f"{_SUMMARY}_part.added", self._place(summary_index=0, part=_summary(""))
        self._texts.append(text)
        yield f"{_SUMMARY}_text.delta", self._place(summary_index=0, delta=text)

    def _arguments(self, text: str) -> Events:
        self._texts.append(text)
        if isinstance(self._part, ToolCall) and not self._part.custom:
            yield f"{_ARGUMENTS}.delta", self._place(delta=text)

    def _close(self) -> Events:
        part, text = self._part, "".join(self._texts)
        if part is None:
            return
        self._part = None
        self._texts.clear()
        if isinstance(part, ToolCall):
            part = replace(part, arguments=text)
            yield from self._call_done(part)
        else:
            part = replace(part, text=text)
            yield from self._text_done(part)
        item = write_item(part, self._id)
        yield "response.output_item.done", {"output_index": len(self._output), "item": item}
        self._output.append(item)

    def _text_done(self, part: Text | Thinking) -> Events:
        if isinstance(part, Text):
            yield "response.output_text.done", self._place(content_index=0, text=part.text, logprobs=[])
            yield "response.content_part.done", self._place(content_index=0, part=text_part(part.text))
        elif part.text:
            yield f"{_SUMMARY}_text.done", self._place(summary_index=0, text=part.text)
            yield f"{_SUMMARY}_part.done", self._place(summary_index=0, part=_summary(part.text))

    def _call_done(self, call: ToolCall) -> Events:
        if call.custom:
            # Only now is it known where the text within the arguments ends.
            input = input_of(call.arguments)
            yield f"{_INPUT}.delta", self._place(delta=input)
            yield f"{_INPUT}.done", self._place(input=input)
        else:
            yield f"{_ARGUMENTS}.done", self._place(arguments=call.arguments, name=call.name)

    def _place(self, **fields: object) -> Body:
        return {"item_id": self._id, "output_index": len(self._output), **fields}


def _summary(text: str) -> Body:
    return {"type": "summary_text", "text": text}
