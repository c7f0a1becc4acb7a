"""The four wires: which one a path belongs to, and reading and writing each."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from paddock.gateway.translate import AnswerWriter, Ask, BadRequest, Delta, Wire, dump_json, read_request, write_answer
from paddock.gateway.translate.reading import Json
from paddock.testing.models import gemini

_ENDS: Mapping[str, Wire] = {
    "/messages": "anthropic",
    "/chat/completions": "chat",
    "/responses": "responses",
    ":generateContent": "gemini",
    ":streamGenerateContent": "gemini",
}
_COUNTED: Mapping[str, str] = {
    "/messages/count_tokens": "input_tokens",
    "/responses/input_tokens": "input_tokens",
    ":countTokens": "totalTokens",
}
"""Requests that only count, and what the number is called."""


class Writes(Protocol):
    """A stream that is written."""

    def write(self, deltas: Iterable[Delta]) -> bytes:
        """The bytes that say `deltas`."""


def wire_of(path: str) -> Wire | None:
    """The wire that is asked at a path, whatever stands before it."""
    plain = path.partition("?")[0]
    return next((wire for end, wire in _ENDS.items() if plain.endswith(end)), None)


def counted(path: str) -> str | None:
    """What a number of tokens is called in the answer, if the path only asks for that."""
    plain = path.partition("?")[0]
    return next((name for end, name in _COUNTED.items() if plain.endswith(end)), None)


def read(wire: Wire, path: str, body: Json) -> Ask:
    """What is asked; a body that is wrong is a `BadRequest`."""
    if wire != "gemini":
        return read_request(wire, body)
    if not isinstance(body, dict):
        raise BadRequest("$", "has to be an object")
    return gemini.read_request(path, body)


def writer(wire: Wire, ask: Ask) -> Writes:
    """A stream for who asked."""
    return gemini.Writer(ask) if wire == "gemini" else AnswerWriter(wire, ask)


def whole(wire: Wire, ask: Ask, deltas: Iterable[Delta]) -> bytes:
    """A whole answer."""
    body = gemini.write_answer(ask, deltas) if wire == "gemini" else write_answer(wire, ask, deltas)
    return dump_json([body] if wire == "gemini" and ask.stream else body)


def is_events(wire: Wire, path: str, ask: Ask) -> bool:
    """Whether the answer is to be a stream of events; Gemini's is a list unless they are asked for."""
    return ask.stream and (wire != "gemini" or "alt=sse" in path.partition("?")[2])
