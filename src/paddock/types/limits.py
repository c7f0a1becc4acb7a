"""Limits on what a sandbox may use, and the sizes they are written in."""

import re
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import ClassVar

from paddock.errors import ConfigError
from paddock.types.record import Record

_SIZE = re.compile(r"\s*(\d{1,19}(?:\.\d{1,9})?)\s*([kmgt]?)(?:i?b)?\s*", re.ASCII)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_size(value: float | str, name: str = "size") -> int:
    """Bytes from `"512m"`, `"1.5g"`, `"64K"`, `"2 GiB"` or a plain number."""
    match = _SIZE.fullmatch(value.lower()) if isinstance(value, str) else None
    size = _bytes(match[1], _UNITS[match[2]]) if match else value if type(value) is int else 0
    if not 0 < size < 1 << 62:
        raise ConfigError(
            f"{name}={_short(value)} is not a size.",
            hint='Give bytes, or a positive number with k, m, g or t, such as "512m" or "1.5g".',
        )
    return size


def _short(value: object) -> str:
    """A value as it may be shown: a number can have more digits than anybody wants to read, or Python to write."""
    if isinstance(value, int) and abs(value) >= 1 << 64:
        return "a huge number"
    return repr(value)[:40]


def _bytes(number: str, unit: int) -> int:
    whole, _, part = number.partition(".")
    return int(whole) * unit + (int(part) * unit // 10 ** len(part) if part else 0)


@dataclass(frozen=True, slots=True)
class Limits(Record):
    """What a sandbox may use in total. Sizes are bytes or text such as `"2g"`.

    A limit that differs from its default was asked for: a backend that cannot hold it refuses, unless `best_effort`.
    """

    memory: int | str | None = None
    cpu: float | None = None
    """Processors, such as 0.5 or 2."""
    pids: int | None = 1024
    disk: int | str | None = None
    tmp: int | str | None = "1g"
    open_files: int | None = 4096
    file_size: int | str | None = None
    best_effort: bool = False

    _sizes: ClassVar[tuple[str, ...]] = ("memory", "disk", "tmp", "file_size")

    def __post_init__(self) -> None:
        for name in self._sizes:
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, parse_size(value, f"Limits.{name}"))
        for name in ("cpu", "pids", "open_files"):
            value = getattr(self, name)
            kinds = (int, float) if name == "cpu" else (int,)
            if value is not None and (type(value) not in kinds or not 0 < value < 1 << 31):
                raise ConfigError(
                    f"Limits.{name}={value!r} is not a positive number.",
                    hint="Give a number above 0, or None.",
                )

    def asked(self) -> frozenset[str]:
        """The names of the limits that were asked for, not left at their defaults."""
        return _asked(self)


@lru_cache(maxsize=64)
def _asked(limits: Limits) -> frozenset[str]:
    default = Limits()
    names = (field.name for field in fields(limits) if field.name != "best_effort")
    return frozenset(name for name in names if getattr(limits, name) not in (None, getattr(default, name)))
