"""A read-only directory with other mounts in it for which it has no place: its entries, beside those places."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from paddock.backends.namespaces.order import has_directory, names_in
from paddock.backends.namespaces.sources import Sources, open_entry
from paddock.driver import Plan
from paddock.errors import ConfigError
from paddock.paths import below, within

_MOST_ENTRIES = 64


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that is mounted over its place in a frame."""

    target: str
    fd: int


class Frame:
    """A directory of our own with a place for everything that is to be seen in it. The entries are open until `close`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.entries: list[Entry] = []

    def close(self) -> None:
        """Close the entries."""
        for entry in self.entries:
            os.close(entry.fd)
        self.entries = []

    def fill(self, source: int, target: str, inner: list[str]) -> None:
        """Make the places for what is in `source`, which is seen at `target`, and for the mounts in it."""
        names = names_in(source)
        if len(names) > _MOST_ENTRIES:
            raise ConfigError(
                f"{target!r} has no directory for the mount at {inner[0]!r}, and too many entries to put one beside them.",
                hint="Make that directory, or mount it outside.",
            )
        self._fill(self.path, source, target, inner)

    def _fill(self, path: str, source: int, target: str, inner: list[str]) -> None:
        for name in sorted({*names_in(source), *(below(one, target).split("/")[0] for one in inner)}):
            there, place = f"{target}/{name}", os.path.join(path, name)
            deeper = [one for one in inner if within(one, there)]
            mode = _mode(source, name)
            if deeper and there not in deeper and stat.S_ISDIR(mode):
                self._nested(place, source, name, there, deeper)
            elif deeper:
                os.makedirs(os.path.join(place, *below(deeper[0], there).split("/")), exist_ok=True)
            elif stat.S_ISLNK(mode):
                os.symlink(os.readlink(name, dir_fd=source), place)
            elif stat.S_ISDIR(mode) or stat.S_ISREG(mode):
                self._place(place, stat.S_ISDIR(mode))
                self.entries.append(Entry(there, open_entry(source, name)))

    def _nested(self, place: str, source: int, name: str, there: str, deeper: list[str]) -> None:
        os.mkdir(place, 0o755)
        fd = open_entry(source, name)
        try:
            self._fill(place, fd, there, deeper)
        finally:
            os.close(fd)

    def _place(self, path: str, directory: bool) -> None:
        if directory:
            os.mkdir(path, 0o755)
        else:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))


def needed(plan: Plan, sources: Sources) -> Iterator[tuple[str, list[str]]]:
    """The targets of mounts that have to be framed, each with the mounts in it."""
    for target in sources.targets:
        inner = [mount.target for mount in plan.mounts if mount.target != target and within(mount.target, target)]
        if not all(has_directory(sources[target], below(one, target)) for one in inner):
            yield target, inner


def _mode(directory: int, name: str) -> int:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0
