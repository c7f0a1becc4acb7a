"""What an agent does, in words. Whatever it says or names is inert text here: nothing in it acts on a terminal."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from paddock.cli.showing import span
from paddock.errors import visible
from paddock.runners import ToolCall, ToolResult, Usage

WIDEST = 80
"""Characters of a tool's summary."""
_LOOKED_AT = 400
"""Of a value; what it is given may be a whole file."""
_FEW = 4
_LONGEST_LINE = 1 << 16
"""Characters that are held until the line has an end."""
_PORTION = 1 << 14
"""Characters that are shown at once."""
_TELLING = ("command", "cmd", "file_path", "filePath", "path", "pattern", "query", "url", "description", "prompt")


def inert(text: str) -> str:
    """A text of several lines, with its tabs, in which nothing acts."""
    return "\n".join("\t".join(map(visible, line.split("\t"))) for line in text.split("\n"))


def short(text: str, most: int = WIDEST) -> str:
    """The beginning of a text, in one line."""
    line = visible(" ".join(text[: max(_LOOKED_AT, most)].split()))
    return line if len(line) <= most and len(text) <= _LOOKED_AT else f"{line[: most - 1]}…"


def end_of(text: str, most: int = WIDEST) -> str:
    """The end of a text, in one line: there a command says why it failed."""
    line = visible(" ".join(text[-max(_LOOKED_AT, most) :].split()))
    return line if len(line) <= most and len(text) <= _LOOKED_AT else f"…{line[1 - most :]}"


def portions(text: str) -> Iterator[str]:
    """A text bit by bit: to show it takes many times the memory that it has, and can be cut short in between."""
    yield from (text[at : at + _PORTION] for at in range(0, len(text), _PORTION))


def summary(call: ToolCall) -> str:
    """Which tool, and on what."""
    given = _gist(call.input)
    return short(f"{call.name[:_LOOKED_AT]}: {given}" if given else call.name)


def _gist(given: Mapping[str, Any]) -> str:
    for name in _TELLING:
        if given.get(name):
            return _plain(given[name])
    return ", ".join(f"{name[:_LOOKED_AT]}={_plain(value)}" for name, value in list(given.items())[:_FEW])


def _plain(value: object) -> str:
    """A word for a value; the words of a command, if it is that."""
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return " ".join(value[:_LOOKED_AT])[:_LOOKED_AT]
    if isinstance(value, (dict, list)):
        return f"{{{len(value)}}}" if isinstance(value, dict) else f"[{len(value)}]"
    return str(value)[:_LOOKED_AT]


def duration(seconds: float) -> str:
    """How long something took."""
    return f"{seconds:.1f} s" if seconds < 60 else span(seconds)


def spent(usage: Usage) -> str:
    """Tokens and money."""
    words = f"{usage.input + usage.cached + usage.cache_write:,} tokens in, {usage.output:,} out"
    return words if usage.cost is None else f"{words}, ${usage.cost:.4f}"


class Calls:
    """The tools that are at work."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, float]] = {}

    def began(self, call: ToolCall) -> str:
        """In a line."""
        words = summary(call)
        self._open[call.id] = words, time.monotonic()
        return words

    def ended(self, result: ToolResult) -> str:
        """In a line, with what it said if it failed."""
        words, since = self._open.pop(result.id, ("a tool", time.monotonic()))
        line = f"{words} ({duration(time.monotonic() - since)})"
        return f"{line}: {end_of(result.output)}" if result.failed and result.output.strip() else line

    def now(self) -> Iterator[str]:
        """Those that are open, and how long already."""
        for words, since in self._open.values():
            yield f"{words} ({duration(time.monotonic() - since)})"

    def cut(self) -> Iterator[str]:
        """Those that nobody waits for any more."""
        for words in self.now():
            yield f"cut     {words}"
        self._open.clear()


class Written:
    """What comes in pieces, as lines."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0
        self._begun = False
        """Whether the beginning of this line was given already."""
        self._cut = False

    @property
    def rest(self) -> str:
        """What has no end yet."""
        self._parts = ["".join(self._parts)]
        return self._parts[0]

    @rest.setter
    def rest(self, text: str) -> None:
        self._parts, self._size = [text], len(text)

    def feed(self, piece: str) -> list[str]:
        """The lines that are whole now."""
        if self._cut and piece:
            piece, self._cut = piece.removeprefix("\n"), False
        first, *more = piece.split("\n")
        self._parts.append(first)
        self._size += len(first)
        if not more:
            return []
        lines, self.rest = [self.rest, *more[:-1]], more[-1]
        self._begun = False
        return lines

    def overflow(self) -> str:
        """The beginning of a line that is too long to wait for its end; it is not given again."""
        if self._size <= _LONGEST_LINE:
            return ""
        text, self.rest, self._begun = self.rest, "", True
        return text

    def cut(self) -> list[str]:
        """What there is, as the line it will be: something else comes in between, or nothing more."""
        line, self.rest = self.rest, ""
        open, self._begun = bool(line) or self._begun, False
        self._cut = open or self._cut
        return [line] if open else []
