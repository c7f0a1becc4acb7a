"""Bytes into lines, however they were cut, with a bound on each."""

from collections.abc import Iterator

MOST = 50 << 20
"""Agents print whole files as one line of JSON."""


class Lines:
    """Takes pieces of a stream, and gives the lines that are whole. One that is too long is left out, and counted."""

    def __init__(self, most: int = MOST) -> None:
        self.skipped = 0
        self._most = most
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that this piece completes, without their ends."""
        *whole, rest = data.split(b"\n")
        for part in whole:
            self._add(part)
            yield from self._taken()
        self._add(rest)

    def rest(self) -> Iterator[bytes]:
        """What is left when the stream has ended."""
        yield from self._taken()

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= self._most:
            self._parts.append(part)
        else:
            self._parts.clear()

    def _taken(self) -> Iterator[bytes]:
        line, size = b"".join(self._parts), self._size
        self._parts, self._size = [], 0
        if size > self._most:
            self.skipped += 1
        elif line.strip():
            yield line.rstrip(b"\r")
