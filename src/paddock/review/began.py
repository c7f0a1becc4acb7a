"""What the host's files were when the sandbox began, and after each apply: whatever is different now is a conflict."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from paddock.errors import SandboxError
from paddock.review.tree import Seen
from paddock.types.review import Layer

CHANGED = "It was changed on the host after the sandbox began."
APPEARED = "It appeared on the host after the sandbox began."
REMOVED = "It was removed on the host after the sandbox began."
SEEMS_REMOVED = "It seems to have been removed on the host after the sandbox began."
"""An overlay does not tell a file whose original is gone from one that was moved here in the sandbox and then edited."""
_VERSION = 1
_FIELDS = 8


def is_same(one: Seen | None, other: Seen | None) -> bool:
    """Whether nothing happened to it in between, as far as that can be seen. Of a directory: that it is one."""
    if one is None or other is None or one.kind != other.kind:
        return one is other
    if one.kind == "directory":
        return True
    if one.kind == "link":
        return one.target == other.target
    if (one.ino, one.ctime_ns) == (other.ino, other.ctime_ns):
        return True
    known = one.sha256 is not None and one.sha256 == other.sha256
    return known and one.kind == "file" and one.mode == other.mode


class Applied:
    """What earlier applies left on the host, kept beside the layer: the base of whatever the sandbox does next."""

    def __init__(self, upper: str) -> None:
        self._path = f"{upper}.applied"
        self._entries: dict[str, Seen | None] = {}
        self._directories: dict[str, int] = {}
        with suppress(OSError, ValueError, KeyError, TypeError), open(self._path, encoding="ascii") as file:
            held = json.load(file)  # one that cannot be read makes for conflicts with ourselves, and for no losses
            if held["version"] == _VERSION:
                self._entries = {path: entry and Seen.from_dict(entry) for path, entry in held["entries"].items()}
                self._directories = held["directories"]

    def __contains__(self, path: str) -> bool:
        return path in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __getitem__(self, path: str) -> Seen | None:
        return self._entries[path]

    def is_made(self, directory: str) -> bool:
        """Whether a directory is on the host because the sandbox made it."""
        entry = self._entries.get(directory)
        return entry is not None and entry.kind == "directory"

    def is_left_so(self, directory: str, ctime_ns: int) -> bool:
        """Whether nobody has put anything into a directory, or taken it out, since we did."""
        return self._directories.get(directory) == ctime_ns

    def add(self, entries: Mapping[str, Seen | None], directories: Mapping[str, int]) -> None:
        """Remember more; at once or not at all. Where the sandbox is gone there is nothing to remember it for.

        Of the directories that these are in, the time of the last change is remembered.
        """
        self._entries.update(entries)
        self._directories.update(directories)
        held = {path: None if entry is None else entry.to_dict() for path, entry in self._entries.items()}
        beside = f"{self._path}.new"
        with suppress(FileNotFoundError):
            fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with open(fd, "w", encoding="ascii") as file:
                json.dump({"version": _VERSION, "entries": held, "directories": self._directories}, file)
            os.rename(beside, self._path)


@dataclass(frozen=True, slots=True)
class Copied:
    """A line of the list of what was copied."""

    kind: str
    mode: int
    size: int
    lower_ctime_ns: int
    upper_ino: int
    upper_ctime_ns: int
    target: str | None

    def is_untouched(self, upper: Seen) -> bool:
        """Whether the copy is as it was made: nobody in a sandbox can set the time of a change."""
        return (self.kind, self.upper_ino, self.upper_ctime_ns) == (upper.kind, upper.ino, upper.ctime_ns)


class Began(Protocol):
    """How what the host has is compared with what the sandbox began with."""

    def conflict(self, path: str, host: Seen | None, *, copied_up: bool, deleted: bool) -> str | None:
        """Why it is another one, if it is. A directory is always the same one, unless it is deleted: then what was put
        into it meanwhile would be lost."""


class SinceMoment:
    """Of an overlay only the moment is known: what the host has changed later was not there then."""

    def __init__(self, since: int, parent_changed: "ParentChanged") -> None:
        self._since = since
        self._parent_changed = parent_changed

    def conflict(self, path: str, host: Seen | None, *, copied_up: bool, deleted: bool) -> str | None:
        if host is None:
            return SEEMS_REMOVED if copied_up and self._parent_changed(path) else None
        counts = deleted or host.kind != "directory"
        return CHANGED if counts and host.ctime_ns > self._since else None


class ParentChanged(Protocol):
    """Whether anything came to or left the host's directory that a path is in."""

    def __call__(self, path: str) -> bool: ...


class SinceCopy:
    """Of a copy it is known for each file."""

    def __init__(self, copied: Mapping[str, Copied]) -> None:
        self._copied = copied

    def conflict(self, path: str, host: Seen | None, *, copied_up: bool, deleted: bool) -> str | None:
        was = self._copied.get(path)
        if host is None:
            return None if was is None else REMOVED
        if was is None:
            return None if host.kind == "directory" and not deleted else APPEARED
        if was.kind != host.kind:
            return CHANGED
        counts = deleted or host.kind != "directory"
        return CHANGED if counts and host.ctime_ns != was.lower_ctime_ns else None


class AfterApply:
    """Where something was applied, that is what counts."""

    def __init__(self, applied: Applied, before: Began) -> None:
        self._applied, self._before = applied, before

    def conflict(self, path: str, host: Seen | None, *, copied_up: bool, deleted: bool) -> str | None:
        if host is not None and host.kind == "directory" and self._applied.is_left_so(path, host.ctime_ns):
            return None
        if path not in self._applied:
            return self._before.conflict(path, host, copied_up=copied_up, deleted=deleted)
        left = self._applied[path]
        if is_same(left, host):
            return CHANGED if deleted and host is not None and host.kind == "directory" else None
        return REMOVED if host is None else APPEARED if left is None else CHANGED


def copied_in(layer: Layer) -> dict[str, Copied]:
    """The list that was written when the copy was made."""
    if layer.base is None:
        raise SandboxError(f"The list of what was copied for {layer.target} is missing.", hint="Create a new sandbox.")
    try:
        with open(layer.base, encoding="ascii") as file:
            return dict(_entries(file))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise SandboxError(
            f"The list of what was copied for {layer.target} cannot be read.", hint="Create a new sandbox."
        ) from error


def _entries(lines: Iterator[str]) -> Iterator[tuple[str, Copied]]:
    if json.loads(next(lines, "{}")).get("version") != _VERSION:
        raise ValueError("another version")
    for line in lines:
        path, *fields = json.loads(line)
        if len(fields) != _FIELDS - 1:
            raise ValueError("not an entry")
        yield path, Copied(*fields)
