"""Where this process is in the hierarchies of cgroups that are mounted here."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache

from paddock.cgroups import files
from paddock.paths import below, within

PROC = "/proc/self"
_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Own:
    """The cgroups of this process, as directories."""

    unified: str | None = None
    """In version 2."""
    top: str = ""
    """Where version 2 is mounted."""
    old: Mapping[str, str] = field(default_factory=dict)
    """In version 1, by the name of the controller."""


@dataclass(frozen=True, slots=True)
class _Mount:
    root: str
    """The part of the hierarchy that is seen there."""
    top: str
    controllers: frozenset[str]
    """None of them is version 2."""

    def has(self, controllers: frozenset[str]) -> bool:
        return controllers <= self.controllers if controllers else not self.controllers

    def directory(self, path: str) -> str | None:
        if not within(path, self.root) or ".." in path.split("/"):
            return None
        return os.path.normpath(os.path.join(self.top, below(path, self.root)))


def own() -> Own:
    """What the kernel says now: a process can be moved."""
    old: dict[str, str] = {}
    unified = top = None
    with suppress(OSError):
        for controllers, path in _lines(PROC):
            for mount in _mounts(PROC):
                directory = mount.directory(path) if mount.has(controllers) else None
                if directory is not None and controllers:
                    old.update(dict.fromkeys(controllers, directory))
                elif directory is not None:
                    unified, top = directory, mount.top
    return Own(unified, top or "", old)


def _lines(proc: str) -> Iterator[tuple[frozenset[str], str]]:
    for line in files.read(f"{proc}/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        yield frozenset(names.split(",")) - {""}, path


@cache
def _mounts(proc: str) -> tuple[_Mount, ...]:
    found = []
    for line in files.read(f"{proc}/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        kind, *_, options = after.split(" ")
        if kind in ("cgroup", "cgroup2"):
            root, top = map(_plain, before.split(" ")[3:5])
            found.append(_Mount(root, top, frozenset(options.split(",") if kind == "cgroup" else ())))
    return tuple(reversed(found))  # the first that is mounted counts


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)
