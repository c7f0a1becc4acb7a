"""Server-sent events, read from bytes as they come and bounded."""

from collections.abc import Iterator
from typing import NamedTuple

from paddock.gateway.translate.reading import Body, dump_json

MAX_EVENT = 16 * 2**20
DONE = b"data: [DONE]\n\n"
_BOM = b"\xef\xbb\xbf"


class TooLong(Exception):  # noqa: N818 - a state of the stream
    """An event is longer than allowed."""


class Event(NamedTuple):
    """A name, which may be empty, and data."""

    name: str
    data: str


def event_bytes(name: str, data: Body) -> bytes:
    """An event. Chat Completions has no names."""
    head = f"event: {name}\n".encode() if name else b""
    return b"%bdata: %b\n\n" % (head, dump_json(data))


class Lines:
    """Bytes in, whole lines out, whichever of the three line ends they have and wherever they were split."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._buffer = bytearray()
        self._searched = 0
        self._after_return = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that are complete with `data`."""
        if self._after_return and data:
            # The other half of a line end that was split.
            data = data.removeprefix(b"\n")
            self._after_return = False
        self._buffer += data
        start = 0
        while (end := self._line_end(start)) >= 0:
            line = bytes(self._buffer[start:end])
            start = self._searched = self._after_line(end)
            yield line
        del self._buffer[:start]
        self._searched = len(self._buffer)
        if self._searched > self._longest:
            self._buffer.clear()
            raise TooLong

    def _line_end(self, start: int) -> int:
        at = max(start, self._searched)
        newline = self._buffer.find(b"\n", at)
        carriage = self._buffer.find(b"\r", at, newline if newline >= 0 else len(self._buffer))
        return carriage if carriage >= 0 else newline

    def _after_line(self, end: int) -> int:
        if self._buffer[end : end + 2] == b"\r\n":
            return end + 2
        self._after_return = self._buffer[end] == 13 and end + 1 == len(self._buffer)
        return end + 1


class Events:
    """Bytes in, events out. One that is too long is `TooLong`, and nothing can be read after it."""

    def __init__(self, longest: int = MAX_EVENT) -> None:
        self._lines = Lines(longest)
        self._longest = longest
        self._first = True
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[Event]:
        """The events that are complete with `data`."""
        for line in self._lines.feed(data):
            if event := self._line(line):
                yield event

    def end(self) -> Iterator[Event]:
        """The event that was not ended, if any: some servers forget the last empty line."""
        for line in (*self._lines.feed(b"\n"), b""):
            if event := self._line(line):
                yield event

    def _line(self, line: bytes) -> Event | None:
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._complete()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"event":
            self._name = value.decode(errors="replace")
        elif field == b"data":
            self._data.append(value)
            self._size += len(value) + 1
            if self._size > self._longest:
                raise TooLong
        return None

    def _complete(self) -> Event | None:
        event = Event(self._name, b"\n".join(self._data).decode(errors="replace")) if self._data else None
        self._name = ""
        self._data.clear()
        self._size = 0
        return event
