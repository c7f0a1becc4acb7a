"""Where this process is in the hierarchies of cgroups that are mounted here."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache

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
    try:
        return _own(PROC, files.read(f"{PROC}/cgroup"))
    except OSError:
        return Own()


def of(pid: int) -> Own:
    """The same for another process of this host."""
    try:
        return _own(PROC, files.read(f"/proc/{pid}/cgroup"))
    except OSError:
        return Own()


@lru_cache(maxsize=8)
def _own(proc: str, text: str) -> Own:
    old: dict[str, str] = {}
    unified = top = None
    for controllers, path in map(_line, text.splitlines()):
        for mount in _mounts(proc):
            directory = mount.directory(path) if mount.has(controllers) else None
            if directory is not None and controllers:
                old.update(dict.fromkeys(controllers, directory))
            elif directory is not None:
                unified, top = directory, mount.top
    return Own(unified, top or "", old)


def _line(line: str) -> tuple[frozenset[str], str]:
    _, names, path = line.split(":", 2)
    return frozenset(names.split(",")) - {""}, path


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
