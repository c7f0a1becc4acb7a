"""Whole streams of an answer: bytes in and deltas out, and deltas in and bytes out."""

import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, Protocol

from paddock.gateway.translate import anthropic, chat, responses
from paddock.gateway.translate.deltas import Began, Delta, Ended, Failed, ToolBegan
from paddock.gateway.translate.failures import failure
from paddock.gateway.translate.model import Ask
from paddock.gateway.translate.names import Names
from paddock.gateway.translate.reading import At, BadRequest, Body, load_json
from paddock.gateway.translate.sse import DONE, MAX_EVENT, Event, Events, TooLong, event_bytes

Translated = Literal["anthropic", "chat", "responses"]

MAX_ANSWER = 64 * 2**20
_LINE = 32  # what a line takes beside its bytes: millions of empty ones are long, too
_LAST = Event("", "[DONE]")
_CUT = "the provider's answer ended before it was complete"


class _Reads(Protocol):
    def event(self, at: At) -> Iterator[Delta]: ...
    def end(self) -> Iterator[Delta]: ...


class _Writes(Protocol):
    def delta(self, delta: Delta) -> Iterator[tuple[str, Body]]: ...


_READERS: dict[Translated, Callable[[], _Reads]] = {
    "anthropic": anthropic.Reader,
    "chat": chat.Reader,
    "responses": responses.Reader,
}
_WRITERS: dict[Translated, Callable[[Ask, int], _Writes]] = {
    "anthropic": anthropic.Writer,
    "chat": chat.Writer,
    "responses": responses.Writer,
}


class AnswerReader:
    """A provider's stream: feed its bytes as they come, and `end` it.

    Nothing is raised for what the provider sends: what cannot be understood, is too long or is cut short is a `Failed`,
    which ends the stream as `Ended` does.
    """

    def __init__(self, wire: Translated, *, max_event: int = MAX_EVENT, max_answer: int = MAX_ANSWER) -> None:
        self._reader = _READERS[wire]()
        self._events = Events(max_event)
        self._left = max_answer
        self._done = False

    @property
    def done(self) -> bool:
        """Whether the last delta was given."""
        return self._done

    def feed(self, data: bytes) -> list[Delta]:
        """The deltas that are complete with `data`."""
        self._left -= len(data) + _LINE * (data.count(b"\n") + data.count(b"\r"))
        if self._left < 0:
            return self._fail("the provider's answer is too long")
        return self._take(self._events.feed(data))

    def end(self) -> list[Delta]:
        """The last deltas, when no more bytes come."""
        deltas = self._take(self._events.end())
        if not self._done:
            deltas += self._take(iter([_LAST]))
        return deltas if self._done else deltas + self._fail(_CUT)

    def _take(self, events: Iterator[Event]) -> list[Delta]:
        deltas: list[Delta] = []
        try:
            for event in () if self._done else events:
                deltas += self._until_done(self._read(event))
                if self._done:
                    break
        except TooLong:
            deltas += self._fail("an event of the provider's answer is too long")
        except BadRequest as error:
            deltas += self._fail(f"the provider's answer cannot be understood: {error}")
        return deltas

    def _read(self, event: Event) -> Iterator[Delta]:
        if event.data.strip() == _LAST.data:
            return self._reader.end()
        return self._reader.event(At(load_json(event.data)))

    def _until_done(self, deltas: Iterator[Delta]) -> list[Delta]:
        taken: list[Delta] = []
        for delta in deltas:
            taken.append(identified(delta))
            if isinstance(delta, Ended | Failed):
                self._done = True
                break
        return taken

    def _fail(self, message: str) -> list[Delta]:
        if self._done:
            return []
        self._done = True
        return [failure(502, message)]


def identified(delta: Delta) -> Delta:
    """`delta` with an id where it needs one: some servers give none to tool calls, and clients need them."""
    if isinstance(delta, ToolBegan) and not delta.id:
        return ToolBegan(f"call_{secrets.token_hex(12)}", delta.name, delta.namespace, delta.custom)
    if isinstance(delta, Began) and not delta.id:
        return Began(f"paddock_{secrets.token_hex(12)}", delta.model, delta.usage)
    return delta


class AnswerWriter:
    """A stream to a client of `wire`, which asked `ask`: write deltas as they come."""

    def __init__(self, wire: Translated, ask: Ask, *, created: int | None = None) -> None:
        self._writer = _WRITERS[wire](ask, int(time.time()) if created is None else created)
        self._names = Names(ask.tools)
        self._wire = wire
        self._began = False

    def write(self, deltas: Iterable[Delta]) -> bytes:
        """The bytes that say `deltas`."""
        return b"".join(chunk for delta in deltas for chunk in self._write(delta))

    def _write(self, delta: Delta) -> Iterator[bytes]:
        if not self._began and not isinstance(delta, Began):
            # A failure that comes first is said within a stream as well: its status has been sent by now.
            yield from self._write(identified(Began()))
        self._began = True
        for name, data in self._writer.delta(self._names.meant(delta)):
            yield event_bytes(name, data)
        if self._wire == "chat" and isinstance(delta, Ended):
            yield DONE


def ping(wire: Translated) -> bytes:
    """What keeps a client of `wire` waiting while the provider says nothing."""
    return event_bytes("ping", {"type": "ping"}) if wire == "anthropic" else b": waiting\n\n"
