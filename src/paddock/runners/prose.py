"""What an agent says, put together from pieces: each text once, and a blank line between messages."""

import io
from collections.abc import Iterator

from paddock.runners.events import Text
from paddock.runners.names import Names, name

_MOST = 10 << 20
"""Characters of a reply."""
_BLANK = "\n\n"
"""What is between messages."""


class Tail:
    """A text that grows; only its end is kept."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._text = io.StringIO()

    def add(self, piece: str) -> None:
        """More of it."""
        self._text.write(piece[-self._most :])
        if self._text.tell() > 2 * self._most:
            kept = str(self)
            self._text = io.StringIO()
            self._text.write(kept)

    def ends_with(self, words: str) -> bool:
        """Whether these were the last; only they are looked at."""
        size = self._text.tell()
        if len(words) > size:
            return False
        self._text.seek(size - len(words))
        return self._text.read() == words

    def __str__(self) -> str:
        return self._text.getvalue()[-self._most :]


class Prose:
    """The texts of one run."""

    def __init__(self) -> None:
        self._begun = Names()
        self._spoken = Names()
        """Who has said something, and the line breaks that it ended with."""
        self._reply = Tail()
        self._paused = False

    def add(self, block: str, text: str, parent: str | None = None) -> Iterator[Text]:
        """A piece of a block of text. Blank ones before its first word are left out."""
        known, who = _block(block, parent), name(parent)
        text, first = text.replace("\r\n", "\n"), known not in self._begun
        if first and not text.strip():
            return
        before = self._spoken.get(who)
        joint = _BLANK[len(before) :] if first and before is not None else ""
        self._begun.add(known)
        self._spoken.add(who, _line_breaks(f"{before or ''}{joint}{text}"))
        if parent is None:
            self._remember(joint + text)
        yield Text(joint + text, parent)

    def whole(self, block: str, text: str, parent: str | None = None) -> Iterator[Text]:
        """A block in one piece, unless it was told in pieces before."""
        if _block(block, parent) not in self._begun:
            yield from self.add(block, text, parent)

    def pause(self) -> None:
        """A tool is used: what is said afterwards is another message."""
        self._paused = True

    @property
    def reply(self) -> str:
        """What the agent itself said last; of a very long one, the end."""
        return str(self._reply).strip()

    def _remember(self, text: str) -> None:
        if self._paused:
            self._reply, self._paused = Tail(), False
        self._reply.add(text)


def _line_breaks(text: str) -> str:
    """Those at the end of a text, as far as they count."""
    return _BLANK if text.endswith(_BLANK) else text[-1:] if text.endswith("\n") else ""


def _block(block: str, parent: str | None) -> str:
    return name(f"{parent or ''}\n{block}")
