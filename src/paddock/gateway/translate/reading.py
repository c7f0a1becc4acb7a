"""JSON that somebody else wrote: read field by field, with the place named where it is not what it has to be."""

import json
from collections.abc import Iterable
from typing import Any, NoReturn

Json = Any
Body = dict[str, Any]

_DEEPEST = 256
_LONGEST_PATH = 200
_LONGEST_WORD = 60
_MOST = 2**48
_MOST_VALUES = 2**18


class BadRequest(ValueError):  # noqa: N818 - the name of the status that it becomes
    """A body that cannot be understood, or asks for what cannot be done; `path` is where, as `$.messages[0].role`."""

    status = 400

    def __init__(self, path: str, problem: str) -> None:
        self.path = path if len(path) <= _LONGEST_PATH else path[:_LONGEST_PATH] + "…"
        self.problem = problem
        super().__init__(f"{self.path}: {problem}")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def values_in(raw: str | bytes | bytearray) -> int:
    """About how many values are in it, without reading it: each takes far more memory and time than its bytes say.

    Commas and brackets in texts count as well.
    """
    if isinstance(raw, str):
        return raw.count(",") + raw.count("[") + raw.count("{")
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{")


def load_json(raw: str | bytes) -> Json:
    """The JSON in `raw`; what is none, or has too much in it or too deep to be handled, is a `BadRequest`."""
    if len(raw) > _MOST_VALUES and values_in(raw) > _MOST_VALUES:
        raise BadRequest("$", "has too many values")
    try:
        value = json.loads(raw, parse_constant=_no_constant)
    except RecursionError:
        raise BadRequest("$", "is nested too deeply") from None
    except ValueError:  # also of bytes that are no text
        raise BadRequest("$", "is no JSON") from None
    if len(raw) > _DEEPEST and _is_deep(value):
        raise BadRequest("$", "is nested too deeply")
    return value


def _is_deep(value: Json) -> bool:
    """Whether it could be too deep to be written again. Level by level, so that this itself goes no deeper."""
    level: list[Json] = [value]
    for _ in range(_DEEPEST):
        level = [inner for outer in level if isinstance(outer, dict | list) for inner in _inside(outer)]
        if not level:
            return False
    return True


def _inside(outer: dict[str, Json] | list[Json]) -> Iterable[Json]:
    return outer.values() if isinstance(outer, dict) else outer


def dump_json(value: Json) -> bytes:
    """`value` as compact JSON in ASCII, so that half a surrogate pair, which providers do send, stays what it was."""
    try:
        return json.dumps(value, separators=(",", ":")).encode()
    except RecursionError:
        raise BadRequest("$", "is nested too deeply") from None


def dump_text(value: Json) -> str:
    """`value` as compact JSON for a model to read."""
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    except RecursionError:
        raise BadRequest("$", "is nested too deeply") from None


class At:
    """A value and where it is. `null` is as good as missing, as in all of these formats.

    `text`, `items` and their like insist, and are for what clients send; those that begin with `any_` take something
    empty for what is not as it should be, and are for what providers send: half of them differ in details.
    """

    __slots__ = ("path", "value")

    def __init__(self, value: Json, path: str = "$") -> None:
        self.value = value
        self.path = path

    def __getitem__(self, key: str) -> "At":
        return At(self.value.get(key) if isinstance(self.value, dict) else None, f"{self.path}.{key}")

    @property
    def missing(self) -> bool:
        """Whether nothing is there."""
        return self.value is None

    def bad(self, problem: str) -> BadRequest:
        """The error that says so of this place."""
        return BadRequest(self.path, problem)

    def object(self) -> Body:
        """An object."""
        if not isinstance(self.value, dict):
            raise self.bad("has to be an object")
        return self.value

    def object_or_none(self) -> Body | None:
        """An object, if there is something."""
        return None if self.missing else self.object()

    def items(self) -> list["At"]:
        """The elements of a list; of nothing, none."""
        if self.value is not None and not isinstance(self.value, list):
            raise self.bad("has to be a list")
        return self.any_items()

    def any_items(self) -> list["At"]:
        """The elements, if it is a list."""
        values = self.value if isinstance(self.value, list) else []
        return [At(value, f"{self.path}[{at}]") for at, value in enumerate(values)]

    def text(self) -> str:
        """A text."""
        if not isinstance(self.value, str):
            raise self.bad("has to be a text")
        return self.value

    def text_or(self, default: str) -> str:
        """A text, or `default` for nothing."""
        return default if self.missing else self.text()

    def text_or_none(self) -> str | None:
        """A text, if there is something."""
        return None if self.missing else self.text()

    def any_text(self) -> str:
        """The text, if it is one."""
        return self.value if isinstance(self.value, str) else ""

    def word(self) -> str:
        """A text that is to be repeated in a message, and so no longer than a word."""
        return self.text()[:_LONGEST_WORD]

    def count_or_none(self) -> int | None:
        """A whole number that is not negative, if there is something."""
        if self.missing:
            return None
        if not isinstance(self.value, int) or isinstance(self.value, bool) or self.value < 0:
            raise self.bad("has to be a whole number, and not negative")
        return self.value

    def any_count(self) -> int:
        """The whole number, if it is one that is not negative; what is beyond anything real is cut off."""
        return (
            min(self.value, _MOST) if isinstance(self.value, int) and self.value > 0 and self.value is not True else 0
        )

    def number_or_none(self) -> float | None:
        """A number, if there is something."""
        if self.missing:
            return None
        if not isinstance(self.value, int | float) or isinstance(self.value, bool):
            raise self.bad("has to be a number")
        return self.value

    def flag_or_none(self) -> bool | None:
        """True or false, if there is something."""
        if self.value is not None and not isinstance(self.value, bool):
            raise self.bad("has to be true or false")
        return self.value

    def flag(self) -> bool:
        """True or false; nothing is false."""
        return bool(self.flag_or_none())


def words(text: str) -> frozenset[str]:
    """The words of `text`."""
    return frozenset(text.split())


def left_out(body: At, known: frozenset[str]) -> list[str]:
    """A warning for each field that is set and not `known`."""
    return [f"{body.path}.{key}: has no counterpart and is left out" for key in _set(body) if key not in known]


def _set(body: At) -> list[str]:
    return [str(key)[:_LONGEST_PATH] for key, value in body.object().items() if value is not None]
