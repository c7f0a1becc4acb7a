"""What the upper directory of an overlay says: which paths are not as the lower one has them."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from paddock.errors import PermissionDeniedError, visible
from paddock.paths import join
from paddock.review.began import Applied
from paddock.review.bounds import Spending, check_depth, weight
from paddock.review.tree import MOVED, Seen, Tree

_OPAQUE = "user.overlay.opaque"
UNREADABLE = "It cannot be read on the host."


@dataclass(frozen=True, slots=True)
class Pair:
    """A path of a layer that may be different: what is there in the sandbox, and what the host has."""

    path: str
    upper: Seen | None
    lower: Seen | None
    trouble: str | None = None
    """Why the host's directory cannot be looked into, if it cannot."""


@dataclass(frozen=True, slots=True)
class _Place:
    path: str
    over: bool
    """Whether the host has a directory there too."""
    hidden: bool
    """Whether the sandbox sees nothing of that one."""
    made: bool
    """Whether it is there because it was applied: what the sandbox never saw in it, it has not deleted."""


def pairs(upper: Tree, lower: Tree, applied: Applied, spending: Spending) -> Iterator[Pair]:
    """Every path that may be different. The host's directories are only looked into where the sandbox hid them."""
    pending = [_Place("", over=True, hidden=False, made=False)]
    while pending:
        place = pending.pop()
        check_depth(place.path)
        there = entries(upper, place.path)
        if there is None:
            continue
        spending.spend(entries=weight(place.path, len(there)))
        below, trouble = _below(lower, place, there)
        opaque = place.hidden or (place.over and place.path != "" and _is_opaque(upper, place.path))
        for name, entry in there.items():
            path, under = _joined(place.path, name), below.get(name)
            if entry.whiteout:
                yield from _gone(lower, path, under, spending)
                continue
            yield from _changed(lower, Pair(path, entry, under, trouble), spending)
            if entry.kind == "directory":
                over = under is not None and under.kind == "directory"
                pending.append(_Place(path, over, opaque and over, applied.is_made(path)))
        if opaque or (place.over and place.made):
            yield from _hidden(lower, place, there, applied, spending)


def everything(lower: Tree, path: str, spending: Spending) -> Iterator[Pair]:
    """All that the host has below a directory, as gone."""
    device = os.fstat(lower.fd).st_dev
    pending = [path]
    while pending:
        here = pending.pop()
        check_depth(here)
        there = lower.listed(here)
        spending.spend(entries=weight(here, len(there)))
        for name, entry in there.items():
            inner, trouble = _joined(here, name), None
            if entry.kind == "directory":
                trouble = closed(lower, inner, entry, device)
                if trouble is None:
                    pending.append(inner)
            yield Pair(inner, None, entry, trouble)


def closed(lower: Tree, path: str, entry: Seen, device: int) -> str | None:
    """Why a directory of the host cannot be looked into."""
    if entry.dev != device:
        return "Something is mounted there on the host."
    try:
        with lower.directory(path):
            return None
    except PermissionError:
        return UNREADABLE
    except OSError as error:
        if error.errno not in MOVED:
            raise
        return "It was changed on the host just now."


def _below(lower: Tree, place: _Place, names: Iterable[str]) -> tuple[dict[str, Seen], str | None]:
    """What the host has of these names, or why that cannot be known."""
    try:
        return (lower.looked(place.path, names) if place.over else {}), None
    except PermissionError:
        return {}, UNREADABLE


def _changed(lower: Tree, pair: Pair, spending: Spending) -> Iterator[Pair]:
    """What is there now; with all that was in a directory before, if it is none any more."""
    yield pair
    if pair.lower is not None and pair.lower.kind == "directory" and pair.upper and pair.upper.kind != "directory":
        yield from _inside(lower, pair, spending)


def _gone(lower: Tree, path: str, under: Seen | None, spending: Spending) -> Iterator[Pair]:
    if under is None:
        return  # the host has not got it either
    if under.kind != "directory":
        yield Pair(path, None, under)
        return
    trouble = closed(lower, path, under, os.fstat(lower.fd).st_dev)
    yield Pair(path, None, under, trouble)
    if trouble is None:
        yield from everything(lower, path, spending)


def _inside(lower: Tree, pair: Pair, spending: Spending) -> Iterator[Pair]:
    if pair.lower is not None and closed(lower, pair.path, pair.lower, os.fstat(lower.fd).st_dev) is None:
        yield from everything(lower, pair.path, spending)


def _hidden(lower: Tree, place: _Place, there: dict[str, Seen], applied: Applied, spending: Spending) -> Iterator[Pair]:
    """What a directory of the host has that the sandbox's one in its place has not."""
    try:
        below = lower.listed(place.path)
    except OSError as error:
        if error.errno not in MOVED and not isinstance(error, PermissionError):
            raise
        return
    spending.spend(entries=weight(place.path, len(below)))
    for name, under in below.items():
        path = _joined(place.path, name)
        if name not in there and (path in applied or not place.made):
            yield from _gone(lower, path, under, spending)


def entries(upper: Tree, path: str) -> dict[str, Seen] | None:
    """None if the directory is gone, or something else, since it was listed: the next look will tell."""
    try:
        return upper.listed(path)
    except PermissionError as error:
        raise PermissionDeniedError(
            f"The sandbox's directory '{visible(path)}' cannot be read.",
            hint="It belongs to another user; whoever may read it has to look.",
        ) from error
    except OSError as error:
        if error.errno not in MOVED or not path:
            raise
        return None


def separate(upper: Tree, path: str) -> None:
    """See that a directory of the sandbox's own never becomes one with the host's, now that the host is to have it too.

    Otherwise what is deleted in it would be back as soon as the kernel forgets that it knew the directory.
    """
    with suppress(OSError), upper.directory(path) as fd:
        os.setxattr(fd, _OPAQUE, b"y")


def _is_opaque(upper: Tree, path: str) -> bool:
    try:
        with upper.directory(path) as fd:
            return os.getxattr(fd, _OPAQUE) == b"y"
    except OSError:
        return False


def _joined(directory: str, name: str) -> str:
    return join(directory, name) if directory else name
