"""Where on this host cgroups of version 2 can be made, and which controllers they can have there."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from paddock.cgroups import files
from paddock.cgroups.hierarchies import own
from paddock.cgroups.removal import NAME

_TRIAL = f"{NAME}trial-"


@dataclass(frozen=True, slots=True)
class Place:
    """A directory of cgroup2 in which we may make others that can be killed as a whole and be born into."""

    directory: str
    controllers: frozenset[str]
    """Those of the wanted ones that cgroups in it can have."""


def parent() -> str | None:
    """The nearest such directory, usually the cgroup of this process; None if there is none."""
    place = find(frozenset())
    return None if place is None else place.directory


def find(wanted: frozenset[str]) -> Place | None:
    """The nearest place that has all the wanted controllers; else the nearest that has most of them."""
    at = own()
    return None if at.unified is None else _search(at.unified, at.top, wanted)


def enable(directory: str, wanted: frozenset[str]) -> frozenset[str]:
    """The wanted controllers that cgroups in `directory` have, after it was told to give them.

    They are not taken away again: somebody else may rely on them by then.
    """
    if not wanted:
        return wanted
    control = os.path.join(directory, "cgroup.subtree_control")
    for name in wanted - _words(control):
        with suppress(OSError):  # not for us, or it has processes of its own and is not the root of all
            files.write(control, f"+{name}")
    return wanted & _words(control)


@cache
def _search(directory: str, top: str, wanted: frozenset[str]) -> Place | None:
    best = None
    # What the top does not have is nowhere: with controllers in version 1 the search ends where it began.
    wanted &= _words(os.path.join(top, "cgroup.controllers"))
    for candidate in _upward(directory, top):
        place = _try(candidate, wanted)
        if place is not None and (best is None or len(place.controllers) > len(best.controllers)):
            best = place
        if best is not None and best.controllers == wanted:
            break
    return best


def _upward(directory: str, top: str) -> Iterator[str]:
    yield directory
    while directory not in (top, "/"):
        directory = os.path.dirname(directory)
        yield directory


def _try(directory: str, wanted: frozenset[str]) -> Place | None:
    """What can be done there, by doing it."""
    clear(directory)
    trial = os.path.join(directory, f"{_TRIAL}{os.getpid()}-{os.urandom(3).hex()}")
    try:
        files.make(trial)
    except OSError:
        return None
    try:
        # To be born elsewhere takes the right to write to the nearest cgroup that is above both: that is `directory`.
        needed = (os.path.join(trial, "cgroup.kill"), os.path.join(directory, "cgroup.procs"))
        if not all(os.access(path, os.W_OK) for path in needed):
            return None
        return Place(directory, enable(directory, wanted))
    finally:
        files.remove(trial)


def clear(directory: str) -> None:
    """Remove what those left who were killed while they tried."""
    with suppress(OSError):
        for name in os.listdir(directory):
            if name.startswith(_TRIAL) and not _lives(name.removeprefix(_TRIAL).partition("-")[0]):
                files.remove(os.path.join(directory, name))


def _lives(pid: str) -> bool:
    return os.path.exists(f"/proc/{pid}")


def _words(path: str) -> frozenset[str]:
    try:
        return frozenset(files.read(path).split())
    except OSError:
        return frozenset()
