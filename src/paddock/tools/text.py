"""Text as a model gets it: a window of lines, no more characters than it can read, and how to see the rest."""

import re
from dataclasses import dataclass

SAMPLE = 8192
_PRINTED = bytes([7, 8, 9, 10, 12, 13, 27, *range(0x20, 0x7F)])
_ODD = re.compile("[\x00-\x06\x0b\x0e-\x1a\x1c-\x1f\x7f-\x9f\ufffd]")
"""Controls, and what is no UTF-8. Marks, joiners, wide spaces and what Python does not know yet are text."""


def is_binary(data: bytes) -> bool:
    """By content: a NUL anywhere, or more than a tenth of the beginning that nobody can print."""
    if b"\0" in data:
        return True
    sample = data[:SAMPLE]
    if sample.isascii():
        return len(sample.translate(None, _PRINTED)) * 10 > len(sample)
    text = sample.decode("utf-8", "replace")
    return len(_ODD.findall(text)) * 10 > len(text)


def lines_in(data: bytes) -> int:
    """How many lines it has; the last may lack its end."""
    return data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))


@dataclass(frozen=True, slots=True)
class Window:
    """Some lines of a text."""

    content: str
    first: int
    """The number of the first line, from 1."""
    lines: int
    total: int | None
    """How many lines the file has; None if nobody has read to its end."""
    cut: bool = False
    """Whether a single line was too long, and its end is missing."""

    @property
    def last(self) -> int:
        """The number of the last line."""
        return self.first + self.lines - 1

    @property
    def truncated(self) -> bool:
        """Whether there is more behind it."""
        return self.cut or self.total is None or self.last < self.total


def window(data: bytes, first: int, limit: int, most: int, *, ended: bool) -> Window:
    """The lines of `data`, which begins with line `first`: at most `limit`, of at most `most` characters together."""
    count = lines_in(data)
    part = data if count <= limit else b"\n".join(data.split(b"\n", limit)[:limit]) + b"\n"
    content, lines = part.decode("utf-8", "replace"), min(count, limit)
    total = first - 1 + count if ended else None
    if len(content) <= most:
        return Window(content, first, lines, total)
    end = content.rfind("\n", 0, most) + 1
    if not end:
        return Window(content[:most], first, 1, total, cut=True)
    return Window(content[:end], first, content.count("\n", 0, end), total)


def fitting(lines: list[str], most: int) -> list[str]:
    """The first lines, of at most so many characters together; one at least."""
    size = 0
    for number, line in enumerate(lines):
        size += len(line) + 1
        if size > most:
            return lines[: max(number, 1)]
    return lines


def shortened(text: str, most: int) -> str:
    """The beginning and the end of a text that is too long, with how much is missing between them."""
    if len(text) <= most:
        return text
    head, tail = text[: most // 2], text[len(text) - most // 2 :]
    return f"{head}\n[… {len(text) - len(head) - len(tail)} characters left out …]\n{tail}"
