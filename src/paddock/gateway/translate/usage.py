"""The tokens of a response that is passed through, whatever its format."""

from json import JSONDecoder

from paddock.gateway.translate.deltas import Usage
from paddock.gateway.translate.failures import Wire
from paddock.gateway.translate.reading import At, BadRequest, Json, load_json
from paddock.gateway.translate.tokens import anthropic_usage, chat_usage, gemini_usage, responses_usage

# A document of more than the first is not kept, except its end: every format says its usage after what can be long.
_KEPT_WHOLE = 256 * 2**10
_KEPT_END = 64 * 2**10
_PIECE = 64 * 2**10
_TRIES = 8
_DECODER = JSONDecoder()


class UsageReader:
    """Feed it the bytes of a response, a stream or whole, and `end` it; `usage` is what the provider said it took.

    Nothing is raised for any bytes, and no more than a few hundred kilobytes of them are kept at a time.
    """

    def __init__(self, wire: Wire) -> None:
        self.usage: Usage | None = None
        self._wire = wire
        self._key = b'"usageMetadata"' if wire == "gemini" else b'"usage"'
        self._streamed: bool | None = None
        self._kept = bytearray()
        self._whole = True

    def feed(self, data: bytes) -> None:
        """More bytes."""
        if self._streamed is None and (begun := data.lstrip()):
            self._streamed = begun[:1] not in (b"{", b"[")
        for at in range(0, len(data), _PIECE):
            self._piece(data[at : at + _PIECE])

    def end(self) -> None:
        """No more bytes come."""
        kept, whole = bytes(self._kept), self._whole
        self._kept.clear()
        self._whole = True
        if self._key not in kept:
            return
        for line in kept.split(b"\n") if self._streamed else [kept]:
            if self._key in line:
                self._read(line.removeprefix(b"data:"), whole)
            whole = True  # only the first can have begun before what was kept

    def _piece(self, data: bytes) -> None:
        if not self._streamed:
            self._keep(data)
            return
        lines, end, rest = data.replace(b"\r", b"\n").rpartition(b"\n")
        self._keep(lines)
        if end:
            self.end()
        self._keep(rest)

    def _keep(self, data: bytes) -> None:
        self._kept += data
        self._whole &= len(self._kept) <= _KEPT_WHOLE
        if not self._whole:
            del self._kept[: -_KEPT_END - _PIECE]

    def _read(self, document: bytes, whole: bool) -> None:
        if whole:
            try:
                value = load_json(document)
            except BadRequest:
                return  # also what looks like a part of a whole one, and is none
            for item in value if isinstance(value, list) else [value]:
                self._take(At(item))
        elif (value := self._last_object(document)) is not None:
            self._said(At(value))

    def _take(self, at: At) -> None:
        places = {"anthropic": [at["message"]["usage"]], "responses": [at["response"]["usage"]]}.get(self._wire, [])
        for place in (*places, at["usageMetadata" if self._wire == "gemini" else "usage"]):
            if isinstance(place.value, dict):
                self._said(place)

    def _said(self, usage: At) -> None:
        if self._wire == "anthropic":
            self.usage = anthropic_usage(usage, self.usage)
        else:
            read = {"chat": chat_usage, "responses": responses_usage, "gemini": gemini_usage}[self._wire]
            self.usage = read(usage)

    def _last_object(self, document: bytes) -> Json:
        """The last object of that key. A text that looks like it is no danger: its quotes would have backslashes."""
        end = len(document)
        for _ in range(_TRIES):
            end = document.rfind(self._key, 0, end)
            if end < 0:
                return None
            rest = document[end + len(self._key) :].lstrip().removeprefix(b":").lstrip().decode(errors="replace")
            try:
                value, _ = _DECODER.raw_decode(rest)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                return value
        return None
