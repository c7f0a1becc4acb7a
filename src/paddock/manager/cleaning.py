"""Workspaces that nobody has used for long. It works beside a manager that runs: locks say what is in use."""

from dataclasses import replace
from pathlib import Path

from paddock.errors import ConflictError, NotFoundError, SandboxError
from paddock.finishing import in_thread
from paddock.manager.about import Workspace
from paddock.manager.entries import Entries
from paddock.manager.workspaces import Workspaces
from paddock.types import Removal

_AHEAD = 86400.0


async def clean(directory: Path, now: float, retention: float | None, *, dry_run: bool = False) -> list[Removal]:
    """Remove the workspaces that were not used for `retention` seconds and that nothing uses; which, or which would be."""
    workspaces, done = Workspaces(directory), []
    if not dry_run:
        await in_thread(workspaces.tidy, unmade=False)
    if retention is None:
        return []
    kept = {entry.workspace for entry in await in_thread(Entries(directory).read) if entry.policy.name == "persistent"}
    for workspace in await in_thread(workspaces.all):
        if workspace.id not in kept and _is_stale(workspaces, workspace, now, retention):
            done += await _cleaned(workspaces, workspace, retention, dry_run)
    return done


def _is_stale(workspaces: Workspaces, workspace: Workspace, now: float, retention: float) -> bool:
    about = workspace.about
    if about.last_used > now + _AHEAD:  # by a clock that was wrong: it would never be old
        workspaces.note(workspace, replace(about, last_used=now))
        return False
    return now - about.last_used >= retention


async def _cleaned(workspaces: Workspaces, workspace: Workspace, retention: float, dry_run: bool) -> list[Removal]:
    place = workspace.about.place
    removal = Removal(
        "workspace", "remove", workspace.id, place.user, place.chat, f"it was not used for {retention:g} seconds"
    )
    try:
        if dry_run:
            return [] if await workspaces.is_used(workspace) else [removal]
        await workspaces.take_away(workspace)
    except (ConflictError, NotFoundError):
        return []
    except SandboxError:
        pass  # it is out of the way; the rest of its files goes next time
    return [removal]
