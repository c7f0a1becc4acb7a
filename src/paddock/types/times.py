"""Spans of time as people write them."""

import math
import re

from paddock.errors import ConfigError

_TIME = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*(s|m|h|d)?\s*", re.ASCII)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_time(value: float | str, name: str = "time") -> float | None:
    """Seconds from `"90"`, `"1.5h"`, `"10m"` or a plain number; None for `"none"`."""
    if isinstance(value, str) and value.strip().lower() == "none":
        return None
    match = _TIME.fullmatch(value.lower()) if isinstance(value, str) else None
    if match:
        seconds = float(match[1]) * _UNITS[match[2] or "s"]
    else:
        seconds = value if type(value) in (int, float) else 0  # type: ignore[assignment]
    if not 0 < seconds < 1 << 40 or not math.isfinite(seconds):
        raise ConfigError(
            f"{name}={repr(value)[:40]} is not a time.",
            hint="Give seconds above 0, or a number with s, m, h or d such as '10m', or 'none'.",
        )
    return int(seconds) if seconds == int(seconds) else seconds
