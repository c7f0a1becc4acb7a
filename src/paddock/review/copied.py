"""What a full copy says: which of its paths are not as they were copied."""

import os
from collections.abc import Iterator, Mapping

from paddock.review.began import Applied, Copied
from paddock.review.bounds import Spending, check_depth, weight
from paddock.review.overlay import UNREADABLE, Pair, closed, entries
from paddock.review.tree import Seen, Tree


def pairs(
    upper: Tree, lower: Tree, copied: Mapping[str, Copied], applied: Applied, spending: Spending
) -> Iterator[Pair]:
    """Every path that may be different. What was not touched since it was copied is looked at, and not read."""
    there = set()
    for path, entry in _walked(upper, spending):
        there.add(path)
        was = copied.get(path)
        if was is None or not _is_as_copied(was, entry):
            yield Pair(path, entry, *_under(lower, path))
    device = os.fstat(lower.fd).st_dev
    for path in sorted({*copied, *applied} - there):
        host, trouble = _under(lower, path)
        if host is not None and host.kind == "directory":
            trouble = closed(lower, path, host, device)
        if host is not None:
            yield Pair(path, None, host, trouble)


def _under(lower: Tree, path: str) -> tuple[Seen | None, str | None]:
    """What the host has, or why that cannot be known."""
    try:
        return lower.look(path), None
    except PermissionError:
        return None, UNREADABLE


def _is_as_copied(was: Copied, entry: Seen) -> bool:
    if entry.kind == "directory":
        return was.kind == "directory" and was.mode == entry.mode
    return was.is_untouched(entry)


def _walked(upper: Tree, spending: Spending) -> Iterator[tuple[str, Seen]]:
    pending = [""]
    while pending:
        directory = pending.pop()
        check_depth(directory)
        there = entries(upper, directory)
        if there is None:
            continue
        spending.spend(entries=weight(directory, len(there)))
        for name, entry in there.items():
            path = f"{directory}/{name}" if directory else name
            yield path, entry
            if entry.kind == "directory":
                pending.append(path)
