"""Events as lines of JSON: what an agent prints that was made for Paddock."""

from collections.abc import Iterator, Mapping
from typing import Any

from paddock.runners import failures
from paddock.runners.events import Done, Event, Failed, Log, Started, Text, Thinking, ToolCall, ToolResult, Usage
from paddock.runners.names import name
from paddock.runners.shapes import amount, count, fields, text


class NativeReader:
    """Reads what `Event.to_dict` writes. What a line claims about Paddock's part is not believed."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._session: str | None = None
        self._used = Usage()

    def feed(self, line: Mapping[str, Any]) -> Iterator[Event]:
        """The event of a line; of one that has not what is needed, none."""
        read = {
            "started": self._started,
            "text": self._said,
            "thinking": self._said,
            "tool_call": self._tool,
            "tool_result": self._tool,
            "usage": self._count,
            "log": self._remark,
            "done": self._end,
            "failed": self._end,
        }.get(text(line.get("kind")))
        if read is not None:
            yield from read(line)

    def finish(self, exit_code: int, stderr: str) -> Failed:
        """It ended without a result."""
        return Failed(failures.exited(self._agent, exit_code, stderr), self._session, self._used)

    def _started(self, line: Mapping[str, Any]) -> Iterator[Event]:
        self._session = name(line.get("session")) or None
        model, version = name(line.get("model")) or None, name(line.get("version")) or None
        yield Started(self._agent, self._session, model, version, line.get("resumed") is True)

    def _said(self, line: Mapping[str, Any]) -> Iterator[Event]:
        if words := text(line.get("text")):
            yield (Text if line["kind"] == "text" else Thinking)(words, _parent(line))

    def _tool(self, line: Mapping[str, Any]) -> Iterator[Event]:
        known, parent = name(line.get("id")), _parent(line)
        if known and line["kind"] == "tool_call":
            yield ToolCall(known, text(line.get("name")), fields(line.get("input")), parent)
        elif known:
            yield ToolResult(known, text(line.get("output")), line.get("failed") is True, parent)

    def _count(self, line: Mapping[str, Any]) -> Iterator[Event]:
        read, said, cached, written = (count(line.get(what)) for what in ("input", "output", "cached", "cache_write"))
        used = Usage(read, said, cached, written, amount(line.get("cost")) or None)
        self._used += used
        yield used

    def _remark(self, line: Mapping[str, Any]) -> Iterator[Event]:
        yield Log(text(line.get("text")))

    def _end(self, line: Mapping[str, Any]) -> Iterator[Event]:
        words = text(line.get("text"))
        if line["kind"] == "failed":
            yield Failed(failures.failed(self._agent, words), self._session, self._used)
        else:
            turns = count(line.get("turns")) or None
            yield Done(words, self._session, name(line.get("model")) or None, self._used, turns)


def _parent(line: Mapping[str, Any]) -> str | None:
    return name(line.get("parent")) or None
