"""Two versions of a text into one, line by line; where they disagree both stay, between conflict markers."""

from collections.abc import Iterator
from dataclasses import dataclass

from paddock.diffs import MOST_BYTES, is_text, line_ops

_NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Merged:
    """What came of it, and in how many places somebody has to decide."""

    data: bytes
    conflicts: int


@dataclass(frozen=True, slots=True)
class _Piece:
    """A run of lines: those that hold, or both versions where nobody can say."""

    ours: list[bytes]
    theirs: list[bytes] | None = None


def merge(base: bytes | None, ours: bytes, theirs: bytes, labels: tuple[str, str]) -> Merged | None:
    """Both versions in one. Without a base every difference is a conflict. None for what is binary or large."""
    versions = (ours, theirs) if base is None else (base, ours, theirs)
    if any(len(version) > MOST_BYTES or not is_text(version) for version in versions):
        return None
    pieces = list(_two(ours, theirs) if base is None else _three(base, ours, theirs))
    end = b"\r\n" if b"\r\n" in ours and b"\r\n" in theirs else b"\n"
    data = b"".join(line for piece in pieces for line in _written(piece, labels, end))
    return Merged(data, sum(piece.theirs is not None for piece in pieces))


def _written(piece: _Piece, labels: tuple[str, str], end: bytes) -> Iterator[bytes]:
    if piece.theirs is None:
        yield from piece.ours
        return
    yield b"<<<<<<< " + labels[0].encode() + end
    yield from _ended(piece.ours, end)
    yield b"=======" + end
    yield from _ended(piece.theirs, end)
    yield b">>>>>>> " + labels[1].encode() + end


def _ended(lines: list[bytes], end: bytes) -> Iterator[bytes]:
    yield from (line if line.endswith(b"\n") else line + end for line in lines)


def _two(ours: bytes, theirs: bytes) -> Iterator[_Piece]:
    mine: list[bytes] = []
    other: list[bytes] = []
    for sign, line in line_ops(ours, theirs):
        if sign != " ":
            (mine if sign == "-" else other).append(line)
            continue
        if mine or other:
            yield _Piece(mine, other)
            mine, other = [], []
        yield _Piece([line])
    if mine or other:
        yield _Piece(mine, other)


@dataclass(frozen=True, slots=True)
class _Side:
    """One version, and for every line of the base the line that it became, or none."""

    lines: list[bytes]
    where: list[int]


def _side(base: bytes, version: bytes) -> _Side:
    lines: list[bytes] = []
    where: list[int] = []
    for sign, line in line_ops(base, version):
        if sign != "+":
            where.append(len(lines) if sign == " " else _NOWHERE)
        if sign != "-":
            lines.append(line)
    return _Side(lines, where)


def _three(base: bytes, ours: bytes, theirs: bytes) -> Iterator[_Piece]:
    """Lines that both kept part the texts; between them, whoever changed something is right, unless both did."""
    old = _side(base, base).lines
    one, two = _side(base, ours), _side(base, theirs)
    at = mine = other = 0
    for index in range(len(old) + 1):
        last = index == len(old)
        if not last and _NOWHERE in (one.where[index], two.where[index]):
            continue
        to_mine = len(one.lines) if last else one.where[index]
        to_other = len(two.lines) if last else two.where[index]
        yield from _between(old[at:index], one.lines[mine:to_mine], two.lines[other:to_other])
        if not last:
            yield _Piece([old[index]])
        at, mine, other = index + 1, to_mine + 1, to_other + 1


def _between(old: list[bytes], ours: list[bytes], theirs: list[bytes]) -> Iterator[_Piece]:
    if theirs in (old, ours):
        yield _Piece(ours)
    elif ours == old:
        yield _Piece(theirs)
    else:
        yield _Piece(ours, theirs)
