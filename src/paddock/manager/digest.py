"""A hash of what somebody asked for: the same for the same, also in another process, and for nothing else."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from hashlib import sha256
from typing import Any

from paddock.errors import ConfigError
from paddock.types import Secret

_DEEPEST = 50


def digest(value: Any) -> str:
    """The hash. A secret's value counts, and only as a hash of its own."""
    return sha256(_text(_plain(value, 0)).encode()).hexdigest()[:32]


def _text(plain: Any) -> str:
    return json.dumps(plain, sort_keys=True)


def _plain(value: Any, depth: int) -> Any:
    """As lists that begin with what they are, so that two kinds of values never look the same."""
    if depth > _DEEPEST:
        raise ConfigError("An option is nested too deeply, or holds itself.", hint="Give plain values.")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return ["bytes", value.hex()]
    if isinstance(value, Mapping):
        return ["mapping", sorted((_all(pair, depth) for pair in value.items()), key=_text)]
    if isinstance(value, (set, frozenset)):
        return ["set", sorted(_all(value, depth), key=_text)]
    if isinstance(value, (list, tuple)):
        return ["list", *_all(value, depth)]
    if isinstance(value, Secret):
        hashed = None if value.value is None else sha256(value.value.encode()).hexdigest()
        return ["secret", value.name, _all(value.hosts, depth), hashed, value.header, value.format, value.tls]
    if is_dataclass(value) and not isinstance(value, type):
        return [_name(type(value)), *_all([getattr(value, field.name) for field in fields(value)], depth)]
    return _object(value, depth)


def _all(values: Any, depth: int) -> list[Any]:
    return [_plain(one, depth + 1) for one in values]


def _object(value: Any, depth: int) -> Any:
    """A class or a function is its name; anything else what a copy of it would be made from."""
    if hasattr(value, "__qualname__") and hasattr(value, "__module__") and not hasattr(value, "__self__"):
        return ["name", _name(value)]
    try:
        parts = value.__reduce_ex__(2)
    except TypeError:
        return ["name", _name(type(value))]
    return ["object", _name(type(value)), *_all([parts] if isinstance(parts, str) else map(_listed, parts), depth)]


def _listed(part: Any) -> Any:
    """What is in it, where a copy would be given an iterator."""
    return list(part) if hasattr(part, "__next__") else part


def _name(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"
