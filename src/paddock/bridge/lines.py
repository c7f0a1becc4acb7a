"""What a client sends: lines to messages. Everything here is bounded before it is looked at, and answers with a code."""

import json
import re
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

MAX_LINE = 1 << 20
MAX_DEPTH = 64
MAX_ID = 256
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602

Id = int | str

_STRINGS = re.compile(
    rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL
)  # one without end matches too: else trying again takes for ever
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NOT_BRACKETS = bytes(set(range(256)) - set(_STEPS))
_LARGEST_ID = 1 << 53


class TooLongError(Exception):
    """A line that is longer than any may be."""


class RefusedError(Exception):
    """A line that is no message. Who sent it is told why, if an answer is owed at all."""

    def __init__(self, code: int, words: str, id: Id | None = None) -> None:
        super().__init__(words)
        self.code, self.words, self.id = code, words, id


@dataclass(frozen=True, slots=True)
class Message:
    """One that is well formed: with a method and an id a request, without id a notification, without method an answer."""

    data: dict[str, Any]
    method: str | None
    id: Id | None


class Lines:
    """Bytes as they come, to whole lines. What is kept is never more than one line."""

    def __init__(self, longest: int = MAX_LINE) -> None:
        self._longest = longest
        self._kept = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that these bytes complete, without those that are blank; `TooLongError` if one is too long."""
        first, *others = data.split(b"\n")
        self._keep(first)
        found = []
        for part in others:
            found.append(bytes(self._kept))
            self._kept.clear()
            self._keep(part)
        return [line for line in found if line.strip()]

    def rest(self) -> list[bytes]:
        """What was sent last, if no line end followed."""
        last = bytes(self._kept)
        self._kept.clear()
        return [last] if last.strip() else []

    def _keep(self, part: bytes) -> None:
        if len(self._kept) + len(part) > self._longest:
            self._kept.clear()
            raise TooLongError
        self._kept += part


def parse(line: bytes) -> Message:
    """The message that a line is, or `RefusedError`."""
    data = _json(line)
    if not isinstance(data, dict):
        raise RefusedError(INVALID_REQUEST, "a message is one JSON object")
    id = _id(data)
    method = data.get("method")
    if data.get("jsonrpc") != "2.0":
        raise RefusedError(INVALID_REQUEST, 'a message has "jsonrpc": "2.0"', id)
    if "method" not in data:
        if id is None or ("result" in data) == ("error" in data):
            raise RefusedError(INVALID_REQUEST, "a message has a method, or is the answer to one", id)
        return Message(data, None, id)
    if not isinstance(method, str):
        raise RefusedError(INVALID_REQUEST, "a method is text", id)
    if not isinstance(data.get("params", {}), dict):
        if id is None:  # a notification is never answered, so it is one that says nothing
            return Message(data | {"params": {}}, method, None)
        raise RefusedError(INVALID_PARAMS, "params is an object", id)
    return Message(data, method, id)


def _json(line: bytes) -> Any:
    if _is_too_deep(line):
        raise RefusedError(PARSE_ERROR, f"a message nests at most {MAX_DEPTH} deep")
    try:
        text = line.decode()
        data = json.loads(text, parse_constant=_no_number)
        if "\\u" in text:
            json.dumps(data, ensure_ascii=False).encode()  # half a surrogate pair is no text that anybody could pass on
    except (ValueError, RecursionError):
        raise RefusedError(PARSE_ERROR, "a message is a line of JSON in UTF-8") from None
    return data


def _is_too_deep(line: bytes) -> bool:
    """Whether brackets nest too deep; what is in strings does not count."""
    if line.count(b"[") + line.count(b"{") <= MAX_DEPTH:
        return False
    brackets = _STRINGS.sub(b"", line).translate(None, _NOT_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MAX_DEPTH


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _id(data: dict[str, Any]) -> Id | None:
    """The id; None if there is none, which makes it a notification."""
    if "id" not in data:
        return None
    id = data["id"]
    is_number = type(id) is int and abs(id) < _LARGEST_ID
    if is_number or (isinstance(id, str) and len(id) <= MAX_ID):
        return id  # type: ignore[no-any-return]
    raise RefusedError(INVALID_REQUEST, f"an id is a whole number, or text of at most {MAX_ID} characters")
