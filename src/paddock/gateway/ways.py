"""What becomes of an answer on its way back. It comes in pieces, and goes on in pieces.

Each has `feed`, which is given more of the answer and gives what there is now for whoever asked; `end`, which gives the rest;
`usage`, what was used, as far as the answer has said so; `failed`, whether it says that it is none; and `status` and
`content_type` for whoever asked, where None is what the provider says. Of a `whole` one nothing is known before its end.
"""

import json
import re
from collections.abc import Iterable

from paddock.gateway.translate import (
    AnswerReader,
    AnswerWriter,
    Ask,
    BadRequest,
    Began,
    Delta,
    Failed,
    Translated,
    Usage,
    UsageReader,
    Used,
    Wire,
    dump_json,
    load_json,
    read_answer,
    write_answer,
)

_MOST_HELD = 1 << 20
_BETWEEN = re.compile(rb"(\r\n\r\n|\n\n|\r\r)")


class Unchanged:
    """Byte by byte as it came."""

    status = 200
    failed = whole = False
    content_type = None

    def __init__(self, wire: Wire) -> None:
        self._reader = UsageReader(wire)

    @property
    def usage(self) -> Usage | None:
        return self._reader.usage

    def feed(self, data: bytes) -> bytes:
        self._reader.feed(data)
        return data

    def end(self) -> bytes:
        self._reader.end()
        return b""


class WithoutUsage(Unchanged):
    """The same, but for the event with the usage that we asked for, and whoever asked us did not: it has no choices, and
    some programs take the first of them without looking."""

    def __init__(self) -> None:
        super().__init__("chat")
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        super().feed(data)
        *pieces, self._held = _BETWEEN.split(self._held + data)
        events = zip(pieces[::2], pieces[1::2], strict=True)
        passed = b"".join(event + end for event, end in events if not _only_usage(event))
        if len(self._held) > _MOST_HELD:
            passed, self._held = passed + self._held, b""
        return passed

    def end(self) -> bytes:
        super().end()
        return self._held


def _only_usage(event: bytes) -> bool:
    if b'"usage"' not in event or b"[]" not in event:
        return False
    try:
        value = json.loads(event.strip().removeprefix(b"data:"))
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("choices") == [] and bool(value.get("usage"))


class InOtherWords:
    """A stream, translated event by event."""

    status = 200
    whole = False
    content_type = "text/event-stream"

    def __init__(self, theirs: Translated, ours: Translated, ask: Ask) -> None:
        self.failed = False
        self.usage: Usage | None = None
        self._reader = AnswerReader(theirs)
        self._writer = AnswerWriter(ours, ask)

    def feed(self, data: bytes) -> bytes:
        return self._written(self._reader.feed(data))

    def end(self) -> bytes:
        return self._written(self._reader.end())

    def _written(self, deltas: list[Delta]) -> bytes:
        self.usage = usage_in(deltas, self.usage)
        self.failed |= any(isinstance(delta, Failed) for delta in deltas)
        return self._writer.write(deltas)


class WholeInOtherWords:
    """A whole answer, translated when all of it is there."""

    whole = True
    content_type = "application/json"

    def __init__(self, theirs: Translated, ours: Translated, ask: Ask, most: int) -> None:
        self.status = 200
        self.failed = False
        self.usage: Usage | None = None
        self._theirs, self._ours, self._ask, self._most = theirs, ours, ask, most
        self._data = bytearray()

    def feed(self, data: bytes) -> bytes:
        if len(self._data) <= self._most:
            self._data += data
        return b""

    def end(self) -> bytes:
        deltas = read_answer(self._theirs, self._read())
        self.usage = usage_in(deltas, None)
        if deltas and isinstance(deltas[-1], Failed):
            self.failed, self.status = True, deltas[-1].status
        return dump_json(write_answer(self._ours, self._ask, deltas))

    def _read(self) -> object:
        try:
            return load_json(bytes(self._data)) if len(self._data) <= self._most else None
        except BadRequest:
            return None


Way = Unchanged | InOtherWords | WholeInOtherWords


def usage_in(deltas: Iterable[Delta], before: Usage | None) -> Usage | None:
    """The last that was said of it."""
    for delta in deltas:
        if isinstance(delta, (Used, Began)) and delta.usage is not None:
            before = delta.usage
    return before
