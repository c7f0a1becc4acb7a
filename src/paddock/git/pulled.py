"""What was last pulled into a workspace, or pushed from it, file by file: with it, it is known who changed what."""

import json
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from paddock.git import places
from paddock.git.targets.protocol import DIRECTORY, Entry, blob_id
from paddock.types.git import PushResult, StagedCommit
from paddock.types.record import Record

_KEPT = 90 * 86400


@dataclass(frozen=True, slots=True)
class PulledFile(Record):
    """The content that a file had."""

    blob: str
    executable: bool = False
    told: str | None = None
    """What the branch had when a later pull said so and could not merge it; '' if that was nothing."""

    def is_at(self, entry: Entry | None) -> bool:
        """Whether a branch still has this, or else only what was told."""
        if entry is None or entry.mode == DIRECTORY:
            return self.told == ""
        same = entry.is_file and (entry.blob, entry.executable) == (self.blob, self.executable)
        return same or entry.blob == self.told


@dataclass(frozen=True, slots=True)
class Pulled(Record):
    """From one branch into one workspace."""

    repo: str
    branch: str
    commit: str
    files: dict[str, PulledFile] = field(default_factory=dict)


def recall(workspace: str, repo: str, branch: str) -> Pulled | None:
    """What is known; None if nothing is."""
    return _read(workspace, places.hashed(f"{repo}\0{branch}"))


def everything(workspace: str) -> list[Pulled]:
    """From all branches."""
    place = places.directory("pulled", places.hashed(workspace))
    found = [_read(workspace, path.stem) for path in sorted(place.glob("*.json"))]
    return [pulled for pulled in found if pulled is not None]


def remember(workspace: str, new: Pulled) -> None:
    """Add this to what is known."""
    _update(workspace, new.repo, new.branch, lambda old: replace(new, files={**old.files, **new.files}))


def remember_push(commit: StagedCommit, result: PushResult, contents: Mapping[str, bytes]) -> None:
    """What the workspace of a commit gave to the branch is as if it had been pulled from there.

    Not so where `restage` merged in what others did: the workspace does not have that, and a pull has yet to bring it.
    """
    mine = [file for file in commit.files if file.path not in commit.merged]
    pushed = {
        file.path: PulledFile(blob_id(contents[file.path]), file.executable) for file in mine if file.path in contents
    }
    gone = {file.path for file in mine} - set(pushed)

    def added(old: Pulled) -> Pulled:
        files = {path: file for path, file in {**old.files, **pushed}.items() if path not in gone}
        at = result.commit_sha if old.commit in ("", commit.base) else old.commit
        return replace(old, files=files, commit=at)

    if commit.workspace:
        _update(commit.workspace, commit.repo, commit.branch, added)


def _update(workspace: str, repo: str, branch: str, change: Callable[[Pulled], Pulled]) -> None:
    name = places.hashed(f"{repo}\0{branch}")
    sweep()
    with places.alone(places.hashed(f"pulled\0{workspace}"), 60):
        data = places.as_json(change(_read(workspace, name) or Pulled(repo, branch, "")).to_dict())
        places.write_private(places.directory("pulled", places.hashed(workspace)) / f"{name}.json", data)


def forget(workspace: str) -> None:
    """The workspace is gone."""
    shutil.rmtree(places.directory("pulled", places.hashed(workspace)), ignore_errors=True)


def sweep() -> None:
    """Forget workspaces into which nothing was pulled for long."""
    with suppress(OSError):
        for place in places.directory("pulled").iterdir():
            newest = max((path.stat().st_mtime for path in place.iterdir()), default=0.0)
            if newest < time.time() - _KEPT:
                shutil.rmtree(place, ignore_errors=True)


def _read(workspace: str, name: str) -> Pulled | None:
    data = places.read_private(places.directory("pulled", places.hashed(workspace)) / f"{name}.json")
    if data is None:
        return None
    with suppress(ValueError, KeyError, TypeError):
        found = json.loads(data)
        files = {path: PulledFile.from_dict(file) for path, file in found.pop("files").items()}
        return replace(Pulled.from_dict(found), files=files)
    return None
