"""What is known about a workspace, and kept beside what a sandbox sees of it."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from paddock.manager.keys import Place
from paddock.types.managed import WorkspaceInfo
from paddock.types.record import Record

ABOUT = ".workspace.json"
_UNKNOWN = Place("", None, "")


@dataclass(frozen=True, slots=True)
class About(Record):
    """What is kept about a workspace."""

    place: Place
    created: float
    last_used: float
    quota: int | None = None
    labels: dict[str, str] = field(default_factory=dict)
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Workspace:
    """One that is there."""

    id: str
    directory: Path
    about: About
    is_new: bool = False
    """Whether it was made for whoever asked for it just now."""

    def info(self, *, in_use: bool) -> WorkspaceInfo:
        """As it is told."""
        about = self.about
        return WorkspaceInfo(
            id=self.id,
            user=about.place.user,
            chat=about.place.chat,
            name=about.place.name,
            path=str(self.directory / "workspace"),
            created=about.created,
            last_used=about.last_used,
            quota=about.quota,
            labels=dict(about.labels),
            size=about.size,
            in_use=in_use,
        )


def read(directory: Path) -> About:
    """What is known. If that cannot be read, the directory's own times have to do."""
    try:
        return About.from_dict(json.loads((directory / ABOUT).read_bytes()))
    except (OSError, ValueError, KeyError, TypeError):
        info = directory.stat()
        return About(_UNKNOWN, info.st_mtime, info.st_mtime)
