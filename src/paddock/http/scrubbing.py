"""Taking secrets out of what a server answers: as many stars instead, so that no length changes."""

import json
from collections.abc import Iterable

SHORTEST = 6
"""What is shorter is in everything, and is left alone."""


class Scrubber:
    """Of one stream: values are found also where they are cut in two by the pieces in which it comes."""

    def __init__(self, values: Iterable[str]) -> None:
        forms = {form for value in values if len(value) >= SHORTEST for form in _forms(value)}
        self._values = sorted((form.encode("ascii", "ignore") for form in forms), key=len, reverse=True)
        self._kept = b""

    def feed(self, data: bytes) -> bytes:
        """As much of it as can be told from a secret."""
        if not self._values:
            return data
        data = self.whole(self._kept + data)
        keep = max(_begun(data, value) for value in self._values)
        self._kept = data[len(data) - keep :]
        return data[: len(data) - keep]

    def rest(self) -> bytes:
        """What was kept back; there is no more."""
        kept, self._kept = self._kept, b""
        return kept

    def whole(self, data: bytes) -> bytes:
        """A text that is complete."""
        for value in self._values:
            data = data.replace(value, b"*" * len(value))
        return data

    def text(self, text: str) -> str:
        """The same, of a `str`."""
        return self.whole(text.encode(errors="surrogatepass")).decode(errors="surrogatepass")


def _forms(value: str) -> set[str]:
    """As it is, and as JSON may have it."""
    quoted = json.dumps(value)[1:-1]
    return {value, quoted, quoted.replace("/", "\\/")}


def _begun(data: bytes, value: bytes) -> int:
    """How many of the last bytes may be the beginning of the value."""
    last = data[-(len(value) - 1) :]
    at = last.find(value[:1])
    while at >= 0:
        if value.startswith(last[at:]):
            return len(last) - at
        at = last.find(value[:1], at + 1)
    return 0
