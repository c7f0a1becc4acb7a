"""What an interpreter says, read as from somebody who may say anything: bounded lines, bounded sums, and no surprises."""

import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Literal

from paddock.jsonlines import has_too_many_values
from paddock.tools.python.result import PythonError, PythonResult, RichOutput
from paddock.types import Chunk

MAX_LINE = 9 << 20
MOST_OUTPUTS = 100
MOST_RICH = 32 << 20
_LONGEST = 200_000


@dataclass(frozen=True, slots=True)
class Message:
    """One line of an interpreter."""

    kind: str
    fields: dict[str, Any]

    def text(self, name: str) -> str:
        """A field that is a text; empty if it is none. What no text can hold is replaced."""
        found = self.fields.get(name)
        return _sound(found) if isinstance(found, str) else ""

    def data(self) -> dict[str, str]:
        """A value by media types."""
        found = self.fields.get("data")
        return {_sound(k): _sound(v) for k, v in found.items() if isinstance(v, str)} if isinstance(found, dict) else {}


class Messages:
    """The lines of one interpreter. A line that is none ends it: there is no way to know what would come after it."""

    def __init__(self, chunks: AsyncIterator[Chunk]) -> None:
        self._chunks = chunks
        self._parts: list[bytes] = []
        self._size = 0
        self._lines: deque[bytes] = deque()
        self.ended = False

    async def next(self) -> Message | None:
        """The next one; None at the end. Being cancelled loses nothing."""
        while not self._lines and not self.ended:
            chunk = await anext(self._chunks, None)
            if chunk is None:
                self.ended = True
            elif chunk.stream == "stdout":
                self._take(chunk.data)
        if not self._lines:
            return None
        message = _message(self._lines.popleft())
        if message is None:
            self._lines.clear()
            self.ended = True
        return message

    def _take(self, data: bytes) -> None:
        *whole, rest = data.split(b"\n")
        if whole:
            self._lines += [b"".join([*self._parts, whole[0]]), *whole[1:]]
            self._parts, self._size = [], 0
        self._parts.append(rest)
        self._size += len(rest)
        if self._size > MAX_LINE:
            self._parts, self.ended = [], True


def _sound(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _message(line: bytes) -> Message | None:
    if has_too_many_values(line):
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    kind = found.get("t") if isinstance(found, dict) else None
    return Message(kind, found) if isinstance(kind, str) else None


class Run:
    """What is kept of one run."""

    def __init__(self, most: int, told: Callable[[Chunk | RichOutput], object] | None) -> None:
        import asyncio

        self._most = most
        self.told = told
        self.name = token_hex(8)
        self._streams: dict[Literal["stdout", "stderr"], list[str]] = {"stdout": [], "stderr": []}
        self._room = {"stdout": most, "stderr": most}
        self._outputs: list[RichOutput] = []
        self._rich = MOST_RICH
        self._text: str | None = None
        self._truncated = False
        self.error: PythonError | None = None
        self.begun = asyncio.Event()
        self.over = False

    def take(self, message: Message) -> None:
        """One more; what is unknown is passed over."""
        if message.kind == "stream":
            self._stream("stderr" if message.text("name") == "stderr" else "stdout", message.text("text"))
        elif message.kind in ("display", "result"):
            self._show(message)
        elif message.kind == "error":
            parts = [message.text(name)[-_LONGEST:] for name in ("name", "message", "traceback")]
            self.error = PythonError(*parts)
        elif message.kind == "left_out":
            self._truncated = True
        elif message.kind == "begun":
            self.begun.set()

    def result(self, duration: float) -> PythonResult:
        """All of it."""
        stdout, stderr = ("".join(self._streams[name]) for name in ("stdout", "stderr"))
        return PythonResult(
            self._text, stdout, stderr, self.error, tuple(self._outputs), self._truncated, round(duration, 6)
        )

    def _stream(self, name: Literal["stdout", "stderr"], text: str) -> None:
        if self.told is not None and text:
            self.told(Chunk(name, text.encode()))
        self._truncated = self._truncated or len(text) > self._room[name]
        kept = text[: self._room[name]]
        if kept:
            self._room[name] -= len(kept)
            self._streams[name].append(kept)

    def _show(self, message: Message) -> None:
        output = RichOutput(message.data())
        if message.kind == "result":
            self._text = output.text[:_LONGEST]
        self._rich -= sum(len(media) + len(shown) for media, shown in output.data.items())
        if self._rich < 0 or len(self._outputs) >= MOST_OUTPUTS:
            self._truncated = True
            return
        self._outputs.append(output)
        if self.told is not None:
            self.told(output)
