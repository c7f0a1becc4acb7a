"""A request's body: read as JSON, and changed in single fields, with every other byte as it came."""

import json
import re
from collections.abc import Mapping
from typing import Any

from paddock.gateway.errors import BadRequest

_SPACE = re.compile(r"[ \t\n\r]*")
_decoder = json.JSONDecoder()


class Body:
    """An object. A field that is there twice is refused: who reads it next may take the other one."""

    def __init__(self, data: bytes) -> None:
        try:
            self._text = data.decode("utf-8")
            self.value, self._spans = _read(self._text)
        except (UnicodeDecodeError, RecursionError):
            raise BadRequest("The body is no JSON that can be read.") from None
        except (ValueError, IndexError, StopIteration):
            raise BadRequest("The body is no JSON object.") from None
        self._changes: dict[str, Any] = {}

    def get(self, name: str, default: Any = None) -> Any:
        """A field, as it is now."""
        return self._changes.get(name, self.value.get(name, default))

    def text(self, name: str) -> str | None:
        """A field that is a text, if it is one."""
        value = self.get(name)
        return value if isinstance(value, str) else None

    def table(self, name: str) -> Mapping[str, Any]:
        """A field that is an object, if it is one."""
        value = self.get(name)
        return value if isinstance(value, dict) else {}

    def put(self, name: str, value: Any, *, anew: bool = False) -> None:
        """Change a field, or add it; `anew` writes it also if it is the same, as what is in it may be there twice."""
        known = self.value.get(name)
        if anew or name in self._changes or name not in self.value or type(known) is not type(value) or known != value:
            self._changes[name] = value

    def bytes(self) -> bytes:
        """The body with its changes."""
        text = self._text
        added = {name: value for name, value in self._changes.items() if name not in self._spans}
        changed = [(*self._spans[name], value) for name, value in self._changes.items() if name in self._spans]
        for begin, end, value in sorted(changed, key=lambda one: one[0], reverse=True):
            text = text[:begin] + json.dumps(value) + text[end:]
        if added:
            comma = "," if self._spans else ""
            end = text.rindex("}")
            text = text[:end] + comma + json.dumps(added)[1:-1] + text[end:]
        return text.encode()


def _read(text: str) -> tuple[dict[str, Any], dict[str, tuple[int, int]]]:
    """The object, and where the values of its fields stand."""
    values: dict[str, Any] = {}
    spans: dict[str, tuple[int, int]] = {}
    at = _skip(text, _expect(text, _skip(text, 0), "{"))
    more = text[at] != "}"
    at = at if more else at + 1
    while more:
        at = _skip(text, at)
        _expect(text, at, '"')
        name, at = _decoder.raw_decode(text, at)
        at = _skip(text, _expect(text, _skip(text, at), ":"))
        value, end = _decoder.raw_decode(text, at)
        if name in spans:
            raise BadRequest(f"The body has '{name[:40]}' twice.")
        values[name], spans[name] = value, (at, end)
        at = _skip(text, end)
        more = text[at] == ","
        at = at + 1 if more else _expect(text, at, "}")
    if _skip(text, at) != len(text):
        raise ValueError("there is more behind it")
    return values, spans


def _skip(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


def _expect(text: str, at: int, what: str) -> int:
    if text[at : at + 1] != what:
        raise ValueError(f"no {what}")
    return at + 1
