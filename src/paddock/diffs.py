"""Unified diffs of text, in time that has a bound whatever the texts are."""

from collections.abc import Iterator
from dataclasses import dataclass

MOST_BYTES = 1 << 20
"""Of either text: what is larger is not shown line by line."""
_MOST_STEPS = 600
"""Differing lines that are sorted out one by one; texts that differ by more differ as a whole."""
_CONTEXT = 3
_CUT = "\\ No newline at end of file\n"

Op = tuple[str, bytes]
"""' ', '-' or '+', and the line with its end."""


@dataclass(frozen=True, slots=True)
class Diff:
    """A diff, and how many lines of it were added and removed."""

    text: str
    added: int
    removed: int


def is_text(data: bytes) -> bool:
    """Whether it can be shown as lines: UTF-8 without NUL."""
    if b"\0" in data:
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def unified(old: bytes, new: bytes, old_name: str | None, new_name: str | None) -> Diff | None:
    """How `new` comes from `old`; None where one is binary or large. A name of None is a file that is not there."""
    if max(len(old), len(new)) > MOST_BYTES or not (is_text(old) and is_text(new)):
        return None
    ops = line_ops(old, new)
    added, removed = (sum(1 for sign, _ in ops if sign == wanted) for wanted in "+-")
    hunks = "".join(_hunks(ops))
    head = f"--- {_named(old_name)}\n+++ {_named(new_name)}\n" if hunks else ""
    return Diff(head + hunks, added, removed)


def line_ops(old: bytes, new: bytes) -> list[Op]:
    """How the lines of `new` come from those of `old`, in order."""
    return list(_ops(_lines(old), _lines(new)))


def _named(name: str | None) -> str:
    return "/dev/null" if name is None else name


def _lines(data: bytes) -> list[bytes]:
    """With their ends; only the last may have none."""
    *whole, rest = data.split(b"\n")
    return [line + b"\n" for line in whole] + ([rest] if rest else [])


def _ops(old: list[bytes], new: list[bytes]) -> Iterator[Op]:
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    yield from ((" ", line) for line in old[:first])
    yield from _differing(old[first : len(old) - last], new[first : len(new) - last])
    yield from ((" ", line) for line in old[len(old) - last :])


def _differing(old: list[bytes], new: list[bytes]) -> Iterator[Op]:
    """The shortest way from one to the other, by Myers; if it is too long to look for, all of it is replaced."""
    trace = _trace(old, new)
    if trace is None:
        yield from (("-", line) for line in old)
        yield from (("+", line) for line in new)
    else:
        yield from _followed(trace, old, new)


def _trace(old: list[bytes], new: list[bytes]) -> list[dict[int, int]] | None:
    """For each number of steps, how far down every diagonal one gets."""
    reached = {1: 0}
    trace = []
    for steps in range(min(len(old) + len(new), _MOST_STEPS) + 1):
        trace.append(dict(reached))
        for diagonal in range(-steps, steps + 1, 2):
            x = _stepped(reached, diagonal, steps)
            while x < len(old) and x - diagonal < len(new) and old[x] == new[x - diagonal]:
                x += 1
            reached[diagonal] = x
            if x >= len(old) and x - diagonal >= len(new):
                return trace
    return None


def _stepped(reached: dict[int, int], diagonal: int, steps: int) -> int:
    down = diagonal == -steps or (diagonal != steps and reached[diagonal - 1] < reached[diagonal + 1])
    return reached[diagonal + 1] if down else reached[diagonal - 1] + 1


def _followed(trace: list[dict[int, int]], old: list[bytes], new: list[bytes]) -> Iterator[Op]:
    """The way that a trace has found, backwards along it and then turned round."""
    x, y, ops = len(old), len(new), list[Op]()
    for steps in range(len(trace) - 1, -1, -1):
        reached, diagonal = trace[steps], x - y
        down = diagonal == -steps or (diagonal != steps and reached[diagonal - 1] < reached[diagonal + 1])
        before = diagonal + 1 if down else diagonal - 1
        before_x = reached[before]
        before_y = before_x - before
        while x > before_x and y > before_y and x > 0 and y > 0:
            x, y = x - 1, y - 1
            ops.append((" ", old[x]))
        if steps:
            ops.append(("+", new[before_y]) if down else ("-", old[before_x]))
            x, y = before_x, before_y
    return reversed(ops)


def _spans(ops: list[Op]) -> Iterator[tuple[int, int]]:
    """Where the hunks are: what changed, with some lines around it, and together where these meet."""
    begin = end = -1
    for index, (sign, _) in enumerate(ops):
        if sign == " ":
            continue
        if end < 0 or index - _CONTEXT > end:
            if end >= 0:
                yield begin, min(end, len(ops))
            begin = max(index - _CONTEXT, 0)
        end = index + _CONTEXT + 1
    if end >= 0:
        yield begin, min(end, len(ops))


def _hunks(ops: list[Op]) -> Iterator[str]:
    old = new = at = 0
    for begin, end in _spans(ops):
        old, new = _passed(ops, at, begin, old, new)
        after = _passed(ops, begin, end, old, new)
        yield f"@@ -{_range(old, after[0])} +{_range(new, after[1])} @@\n"
        yield from (_line(sign, line) for sign, line in ops[begin:end])
        (old, new), at = after, end


def _passed(ops: list[Op], begin: int, end: int, old: int, new: int) -> tuple[int, int]:
    """The numbers of lines of both texts that lie before `end`, when those before `begin` are known."""
    for index in range(begin, end):
        old += ops[index][0] != "+"
        new += ops[index][0] != "-"
    return old, new


def _range(begin: int, end: int) -> str:
    """The first line of a hunk and how many it has."""
    count = end - begin
    return f"{begin + 1}" if count == 1 else f"{begin + 1 if count else begin},{count}"


def _line(sign: str, line: bytes) -> str:
    text = f"{sign}{line.decode()}"
    return text if text.endswith("\n") else f"{text}\n{_CUT}"
