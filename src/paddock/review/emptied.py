"""Directories that are to go: whatever nobody was shown in one keeps it where it is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from paddock.review.bounds import Bounds, Spending
from paddock.review.findings import Found
from paddock.review.tree import MOVED, Tree

Hosts = Mapping[int, Tree]
"""The host directories, by the numbers of their layers: those that are there."""
UNSHOWN = "Something is in it on the host that is not among these changes."
STAYS = (
    "What was not shown is not removed, with overwrite=True neither: move it away, or apply the other changes by path."
)


def unshown(found: Sequence[Found], hosts: Hosts, spending: Spending | None = None) -> Iterator[tuple[Found, str]]:
    """Directories that these changes remove, each with a name that the host has in it and they do not speak of."""
    spending = spending or Bounds()
    going = {(one.layer, one.relative) for one in found if one.host is not None and one.change.operation != "mode"}
    going |= {(one.layer, one.old_relative) for one in found if one.old_relative is not None}
    for one in found:
        host = hosts.get(one.layer)
        if (
            host is None
            or one.host is None
            or one.host.kind != "directory"
            or (one.new and one.new.kind == "directory")
        ):
            continue
        names = _names(host, one.relative)
        spending.spend(entries=len(names))
        for name in names:
            if (one.layer, f"{one.relative}/{name}") not in going:
                yield one, name


def marked(found: Sequence[Found], hosts: Hosts, spending: Spending | None = None) -> tuple[Found, ...]:
    """The same changes, with a conflict for each such directory."""
    stay = {(one.layer, one.relative) for one, _ in unshown(found, hosts, spending)}
    return tuple(_marked(one) if (one.layer, one.relative) in stay else one for one in found)


def _marked(one: Found) -> Found:
    return replace(one, change=replace(one.change, conflict=UNSHOWN))


def _names(host: Tree, path: str) -> list[str]:
    """None where it cannot be looked into, or is none any more: that is told elsewhere."""
    try:
        return sorted(host.listed(path))
    except OSError as error:
        if error.errno not in MOVED and not isinstance(error, PermissionError):
            raise
        return []
