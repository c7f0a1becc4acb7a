"""How much there is: counts for `Manager.stats`, and the same from disk for those who have no manager."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from paddock.manager.about import Workspace
from paddock.manager.measuring import measure
from paddock.manager.places import Places
from paddock.manager.workspaces import Workspaces
from paddock.types import ManagedInfo, ManagerStats

_MOST_ENTRIES = 200_000


def measured(workspaces: Workspaces) -> tuple[list[Workspace], bool]:
    """All workspaces with their sizes, and whether that is all: only so many files are looked at."""
    found, complete, left = [], True, _MOST_ENTRIES
    for workspace in workspaces.all():
        size = measure(workspace.directory, entries=left)
        left -= min(size.entries, left)
        complete = complete and size.complete
        found.append(replace(workspace, about=replace(workspace.about, size=size.size)))
    return found, complete


def stats(kept: Iterable[ManagedInfo], leases: int | None, places: Places, workspaces: Workspaces) -> ManagerStats:
    """The numbers."""
    infos = list(kept)
    found, complete = measured(workspaces)
    return ManagerStats(
        total=places.total,
        max_total=places.max_total,
        max_per_user=places.max_per_user,
        leases=leases,
        states=dict(Counter(info.state for info in infos)),
        policies=dict(Counter(info.policy for info in infos)),
        users=places.by_user(),
        workspaces=len(found),
        workspace_bytes=sum(workspace.about.size or 0 for workspace in found),
        measured=complete,
    )
