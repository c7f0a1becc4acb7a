"""What has to be done so that a workspace becomes what a snapshot says: found first, done later."""

from collections.abc import Callable
from dataclasses import dataclass, field

from paddock.dirs.protocol import Node
from paddock.snapshots.entries import Entry

Same = Callable[[Entry, Node], bool]
"""Whether a file or link is what an entry says, where both are of the same kind."""


@dataclass(slots=True)
class Plan:
    """Paths and entries, outermost first in each list."""

    make: list[Entry] = field(default_factory=list)
    """New directories."""
    new: list[Entry] = field(default_factory=list)
    """Files and links where nothing is."""
    replace: list[Entry] = field(default_factory=list)
    """Files and links where something else is that is no directory."""
    clear: list[str] = field(default_factory=list)
    """What is in the way: a directory of a file, or a file of a directory."""
    later: list[Entry] = field(default_factory=list)
    """What takes such a place, and all that is below it."""
    remove: list[str] = field(default_factory=list)
    """What the snapshot does not have."""
    modes: dict[str, int] = field(default_factory=dict)
    """Directories that stay and have other permission bits."""

    def files(self) -> list[Entry]:
        """Those whose content is needed."""
        return [entry for entry in (*self.new, *self.replace, *self.later) if entry.kind == "file"]

    def touched(self) -> set[str]:
        """The directories in which something is to change."""
        paths = [entry.path for entry in (*self.make, *self.new, *self.replace)] + self.clear + self.remove
        return {path.rpartition("/")[0] for path in paths}


def planned(wanted: dict[str, Entry], current: dict[str, Node], same: Same) -> Plan:
    """How to come from `current` to `wanted`."""
    plan, cleared = Plan(), set[str]()
    for path in sorted(wanted):
        entry, node = wanted[path], current.get(path)
        if path.rpartition("/")[0] in cleared:
            plan.later.append(entry)
            cleared.add(path)
        elif node is None:
            (plan.make if entry.kind == "directory" else plan.new).append(entry)
        elif "directory" in (entry.kind, node.kind) and entry.kind != node.kind:
            plan.clear.append(path)
            plan.later.append(entry)
            cleared.add(path)
        elif entry.kind == "directory":
            if entry.mode != node.mode:
                plan.modes[path] = entry.mode
        elif entry.kind != node.kind or not same(entry, node):
            plan.replace.append(entry)
    _remove(plan, wanted, current, set(plan.clear))
    return plan


def _remove(plan: Plan, wanted: dict[str, Entry], current: dict[str, Node], gone: set[str]) -> None:
    for path in sorted(current):
        if path.rpartition("/")[0] in gone:
            gone.add(path)
        elif path not in wanted:
            plan.remove.append(path)
            gone.add(path)
