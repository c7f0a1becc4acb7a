"""The cgroups of one sandbox."""

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from paddock.cgroups import files, knobs, places
from paddock.cgroups.hierarchies import of, own
from paddock.cgroups.knobs import Knob
from paddock.cgroups.removal import NAME, remove
from paddock.types import Limits

_DELEGATED = ("cgroup.procs", "cgroup.threads", "cgroup.subtree_control")


@dataclass(frozen=True, slots=True)
class Group:
    """What was made for one sandbox. Which limits it holds, `held` says: what is not in there has no hold."""

    directory: str | None
    """Its cgroup of version 2, to be born into; None where there is none."""
    joined: tuple[str, ...]
    """Its cgroups of version 1. The first process writes itself to `cgroup.procs` of each, before it gives up any rights."""
    held: Mapping[str, str]
    """The names of limits, and by what each is held."""
    paths: tuple[str, ...]
    """All that is to be removed."""
    counters: Mapping[str, tuple[str, str]]
    """The names of limits, and the file and the word in it that count how often each was met."""

    def hits(self) -> dict[str, int]:
        """How often limits were met: `memory` as processes that the kernel killed, `pids` as refused ones."""
        found = {}
        for name, (path, word) in self.counters.items():
            with suppress(OSError):  # it was removed
                found[name] = _count(files.read(path), word)
        return found

    def remove_empty(self) -> bool:
        """Remove it if nothing is in it any more, without waiting for anything. Whether it is gone."""
        try:
            for path in self.paths:
                _remove_empty(path)
        except OSError:
            return False
        return True

    def remove(self) -> None:
        """End what is left in it, and remove it. Once more is fine."""
        failure = None
        for path in self.paths:
            try:
                remove(path)
            except OSError as error:
                failure = failure or error
        if failure is not None:
            raise failure


def _remove_empty(path: str) -> None:
    try:
        files.remove(path)
        return
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
    with os.scandir(path) as entries:
        inner = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    for directory in inner:
        _remove_empty(directory)
    files.remove(path)


@dataclass(frozen=True, slots=True)
class _Part:
    """What was made in one hierarchy."""

    path: str
    entered: str
    held: dict[str, str]
    counters: dict[str, tuple[str, str]]


def make(
    name: str,
    limits: Limits,
    *,
    owner: tuple[int, int] | None = None,
    note: Callable[[tuple[str, ...]], object] | None = None,
) -> Group:
    """Make the cgroups of the sandbox that is known here as `name`.

    Version 2 always, where it can be had: it is killed as a whole, and being born into it costs nothing. Controllers only
    for limits that were asked for: those of version 2 may have to be had further up, where what holds for this process does
    not hold for the sandbox any more, and entering a cgroup of version 1 costs a lone process milliseconds.

    `owner` is the uid and gid that the sandbox runs as, if not ours: they may make cgroups in it, and change no limit.
    `note` is told of all paths before the first is made, so that a sweep finds them after a crash.
    """
    if not name.startswith(NAME) or "/" in name:
        raise ValueError("not a name of ours")
    wanted = frozenset(limit for limit in knobs.NAMES if getattr(limits, limit) is not None)
    place = places.find(wanted if wanted & limits.asked() else frozenset())
    old = _old_parents(limits, frozenset() if place is None else place.controllers)
    parents = ([] if place is None else [place.directory]) + list(old)
    if note is not None:
        note(tuple(os.path.join(parent, name) for parent in parents))
    parts: list[_Part] = []
    try:
        unified = None if place is None else _make_unified(place, name, limits, owner)
        parts += [] if unified is None else [unified]
        for parent, controllers in old.items():
            part = _make_old(os.path.join(parent, name), controllers, limits)
            parts += [] if part is None else [part]
    except BaseException:
        for part in parts:
            with suppress(OSError):
                remove(part.path)
        raise
    return _joined(unified, parts)


def _joined(unified: _Part | None, parts: list[_Part]) -> Group:
    return Group(
        directory=None if unified is None else unified.entered,
        joined=tuple(part.entered for part in parts if part is not unified),
        held={limit: by for part in parts for limit, by in part.held.items()},
        paths=tuple(part.path for part in parts),
        counters={limit: counter for part in parts for limit, counter in part.counters.items()},
    )


def _old_parents(limits: Limits, have: frozenset[str]) -> dict[str, list[str]]:
    """Our own cgroups of version 1 that are needed, with the limits for each: some share a hierarchy."""
    parents: dict[str, list[str]] = {}
    wanted = [limit for limit in knobs.NAMES if limit in limits.asked() and limit not in have]
    mine = own().old if wanted else {}
    for limit in wanted:
        if limit in mine:
            parents.setdefault(mine[limit], []).append(limit)
    return parents


def _make_unified(place: places.Place, name: str, limits: Limits, owner: tuple[int, int] | None) -> _Part | None:
    path = os.path.join(place.directory, name)
    controllers = places.enable(place.directory, place.controllers)
    with suppress(OSError), _made(path):
        directory = _guarded(path, controllers) if controllers else path
        part = _hold(path, directory, 2, {limit: knobs.unified(limit, limits) for limit in sorted(controllers)})
        if owner is not None:
            _delegate(directory, owner)
        return part
    return None


def _guarded(path: str, controllers: frozenset[str]) -> str:
    """A cgroup in the one at `path`, which uses the controllers below itself: so nobody can take them away from above.

    systemd does that to its slices when no unit of its own wants one any more, and the limits would be gone unnoticed.
    """
    places.enable(path, controllers)
    directory = os.path.join(path, "sandbox")
    files.make(directory)
    return directory


def _make_old(path: str, wanted: Iterable[str], limits: Limits) -> _Part | None:
    with suppress(OSError), _made(path):
        part = _hold(path, path, 1, {limit: knobs.old(limit, limits) for limit in wanted})
        if part.held:
            return part
        files.remove(path)
    return None


@contextmanager
def _made(path: str) -> Iterator[None]:
    """A cgroup that goes again if the rest fails."""
    files.make(path)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            remove(path)
        raise


def _hold(path: str, directory: str, version: int, wanted: Mapping[str, Knob]) -> _Part:
    part = _Part(path, directory, {}, {})
    for limit, knob in wanted.items():
        try:
            for file, text in knob.settings:
                files.write(os.path.join(directory, file), text)
        except OSError:  # no such controller here, or a number that the kernel does not take
            continue
        for file, text in knob.extras:
            with suppress(OSError):
                files.write(os.path.join(directory, file), text)
        part.held[limit] = f"cgroup v{version} {knob.settings[-1][0]}"
        if knob.counter is not None:
            part.counters[limit] = (os.path.join(directory, knob.counter[0]), knob.counter[1])
    return part


def _delegate(directory: str, owner: tuple[int, int]) -> None:
    """What the kernel says is to be delegated, and not the files with the limits.

    Without an owner all files are ours, so the sandbox, which is us, might write them if it could name them. It cannot:
    it has no cgroup file system to look at, and its supervisor lets nobody at the descriptor that it has.
    """
    for path in (directory, *(os.path.join(directory, file) for file in _DELEGATED)):
        os.chown(path, *owner)


def watch(pid: int, limits: Limits) -> Group:
    """The cgroups that somebody else made, and that a process is in: nothing but what they count."""
    there = of(pid)
    counters: dict[str, tuple[str, str]] = {}
    for name in knobs.NAMES:
        knob = knobs.old(name, limits) if name in there.old else knobs.unified(name, limits)
        directory = there.old.get(name, there.unified)
        if directory is not None and knob.counter is not None and os.path.exists(f"{directory}/{knob.counter[0]}"):
            counters[name] = (f"{directory}/{knob.counter[0]}", knob.counter[1])
    return Group(None, (), {}, (), counters)


def _count(text: str, word: str) -> int:
    """The number after the word at the beginning of a line."""
    pairs = (line.split() for line in text.splitlines())
    return next((int(pair[1]) for pair in pairs if len(pair) == 2 and pair[0] == word), 0)
