"""Values of lines for which nobody vouches: what is not of the kind that is needed is as good as not there."""

from collections.abc import Iterator, Mapping
from typing import Any

_MOST = 1e18
"""Beyond any number that is meant: arithmetic with what JSON can write down may fail."""


def text(value: object) -> str:
    """A text, or an empty one."""
    return value if isinstance(value, str) else ""


def can_be_said(value: str) -> bool:
    """Whether a text can be written down: bytes that were none, and halves of characters, cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def fields(value: object) -> Mapping[str, Any]:
    """An object, or an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> Iterator[Mapping[str, Any]]:
    """The objects of a list."""
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def count(value: object) -> int:
    """A number of something, or 0."""
    return int(value) if isinstance(value, (int, float)) and 0 < value < _MOST else 0


def amount(value: object) -> float:
    """A sum of money, or 0."""
    return float(value) if isinstance(value, (int, float)) and 0 < value < _MOST else 0.0


def status(value: object) -> int | None:
    """A status of HTTP, or none."""
    return value if type(value) is int and 100 <= value < 600 else None


def output(value: object) -> str:
    """What a tool gave back: a text, or texts among other things."""
    if isinstance(value, list):
        return "\n".join(
            text(item.get("text")) or f"[{text(item.get('type')) or 'something'}]" for item in items(value)
        )
    return text(value)
