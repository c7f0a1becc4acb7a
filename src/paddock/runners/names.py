"""What names something in the lines of a program: short, and not without number."""

import hashlib

from paddock.runners.shapes import text

_LONGEST = 256
_MOST = 100_000


class TooManyError(Exception):
    """It names more than can be remembered."""


def name(value: object) -> str:
    """A text that names something, or an empty one. A long one is known by its beginning and its hash."""
    given = text(value)
    if len(given) <= _LONGEST:
        return given
    digest = hashlib.sha256(given.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{given[: _LONGEST - len(digest)]}{digest}"


class Names(dict[str, str]):
    """The names that are remembered of a run, and what they stand for. One too many is a `TooManyError`."""

    def __init__(self, most: int = _MOST) -> None:
        super().__init__()
        self._most = most

    def add(self, known: str, means: str = "") -> None:
        """Remember it."""
        if len(self) >= self._most and known not in self:
            raise TooManyError
        self[known] = means

    def discard(self, known: str) -> None:
        """Forget it."""
        self.pop(known, None)
