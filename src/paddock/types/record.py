"""Plain data out of a frozen dataclass and back, in a shape that stays the same between versions."""

from base64 import b64decode, b64encode
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Self, get_type_hints


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


class Record:
    """A frozen dataclass with a JSON-ready form: bytes as base64, tuples as lists, nested records as objects."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """This value as JSON-ready data."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The value that `to_dict` described; fields that are missing take their defaults, unknown ones are dropped."""
        hints = _hints(cls)  # type: ignore[arg-type]
        known = [field.name for field in fields(cls) if field.init and field.name in data]  # type: ignore[arg-type]
        return cls(**{name: _typed(hints[name], data[name]) for name in known})


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _typed(hint: Any, value: Any) -> Any:
    record = _record(hint)
    if record is not None:
        if isinstance(value, list):
            return tuple(record.from_dict(item) for item in value)
        if isinstance(value, dict):
            if getattr(hint, "__origin__", None) is dict:
                return {key: record.from_dict(item) for key, item in value.items()}
            return record.from_dict(value)
        return value
    if hint is bytes and isinstance(value, str):
        return b64decode(value)
    return tuple(value) if isinstance(value, list) else value


@cache
def _record(hint: Any) -> type[Record] | None:
    """The record that a type is, or holds; many values are of few types."""
    options = getattr(hint, "__args__", ())
    found = next((o for o in (hint, *options) if is_dataclass(o) and isinstance(o, type)), None)
    return found if found is not None and issubclass(found, Record) else None
