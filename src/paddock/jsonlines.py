"""Lines of JSON that nobody vouches for: how much is in one is known before it is read."""

_MOST_VALUES = 250_000
"""Of one line. Each takes many times the memory, and the time, of the bytes that it is written with."""
_SMALL = 500_000
"""A line that cannot have many more."""


def has_too_many_values(line: bytes) -> bool:
    """Whether a line of JSON is of more values than can be read in passing. What is in texts does not count."""
    if len(line) <= _SMALL:
        return False
    plain = line.replace(rb"\\", b"").replace(rb"\"", b"")
    if plain.count(b'"') > 4 * _MOST_VALUES:
        return True
    outside = b"".join(plain.split(b'"')[::2])
    return sum(map(outside.count, (b",", b"[", b"{"))) > _MOST_VALUES
