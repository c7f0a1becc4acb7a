"""Staged commits on disk: each a directory with what it says and the contents it holds, complete or not there at all."""

import os
import re
import secrets
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from paddock.errors import GitError, visible
from paddock.git import places
from paddock.types.git import StagedCommit

_ID = re.compile("[0-9a-f]{12}")
_SAID = "commit.json"
_VERSION = 1
_LEFT = 3600


def new_id() -> str:
    """Another one for each commit."""
    return secrets.token_hex(6)


def digest(commit: StagedCommit) -> str:
    """The hash over everything that a push would do, and nothing else: two that are the same do the same."""
    said = {
        "repo": commit.repo,
        "branch": commit.branch,
        "base": commit.base,
        "new_branch": commit.new_branch,
        "message": commit.message,
        "who": [commit.name, commit.email, int(commit.created_at)],
        "files": [[file.path, file.operation, file.sha256, file.executable] for file in commit.files],
    }
    return sha256(places.as_json(said)).hexdigest()


def keep(commit: StagedCommit, contents: Mapping[str, bytes]) -> None:
    """Write it, with the contents by their hashes. It appears as a whole."""
    parent = places.directory("staged")
    _sweep(parent)
    beside = parent / f".{commit.id}.new"
    try:
        beside.mkdir(mode=0o700)
        for name, data in contents.items():
            places.write_private(beside / name, data)
        places.write_private(beside / _SAID, places.as_json({"version": _VERSION, **commit.to_dict()}))
        beside.rename(parent / commit.id)
    except BaseException as error:
        shutil.rmtree(beside, ignore_errors=True)
        if isinstance(error, OSError) and not isinstance(error, GitError):
            raise places.no_room(error) from error
        raise


def load(commit_id: str, sandbox: str | None = None) -> StagedCommit:
    """One that was kept. With a sandbox, another's is as unknown as one that never was."""
    if isinstance(commit_id, str) and _ID.fullmatch(commit_id):
        found = _read(places.directory("staged") / commit_id)
        if found is not None and sandbox in (None, found.sandbox):
            return found
    raise GitError(
        f"There is no staged commit '{visible(str(commit_id))[:40]}'.",
        hint="staged() lists them; one that was pushed or discarded is gone.",
        operation="staged",
    )


def contents(commit: StagedCommit) -> dict[str, bytes]:
    """What its files hold, by path. Bytes that are not those that were staged are an error, and so is a changed word."""
    place = places.directory("staged") / commit.id
    found = {}
    for file in commit.files:
        if file.sha256 is not None:
            data = places.read_private(place / file.sha256)
            if data is None or sha256(data).hexdigest() != file.sha256:
                raise _damaged(commit)
            found[file.path] = data
    if digest(commit) != commit.digest:
        raise _damaged(commit)
    return found


def _damaged(commit: StagedCommit) -> GitError:
    return GitError(
        f"The staged commit {commit.id} is damaged on disk.", hint="Discard it and stage again.", operation="staged"
    )


def remove(commit_id: str) -> None:
    """Forget it: first it is no staged commit any more, then its files go."""
    parent = places.directory("staged")
    gone = parent / f".{commit_id}.{secrets.token_hex(4)}.gone"
    with suppress(FileNotFoundError):
        os.rename(parent / commit_id, gone)
    shutil.rmtree(gone, ignore_errors=True)


def _sweep(parent: Path) -> None:
    """Remove what somebody left who was killed in the middle."""
    with suppress(OSError):
        for path in parent.glob(".*"):
            if path.stat().st_mtime < time.time() - _LEFT:
                shutil.rmtree(path, ignore_errors=True)


def all_of(sandbox: str | None = None) -> list[StagedCommit]:
    """Those that wait, the oldest first, without diffs: nothing of what is in the files."""
    found = [_read(path) for path in places.directory("staged").iterdir() if _ID.fullmatch(path.name)]
    mine = [bare(commit) for commit in found if commit is not None and sandbox in (None, commit.sandbox)]
    return sorted(mine, key=lambda commit: (commit.created_at, commit.id))


def bare(commit: StagedCommit) -> StagedCommit:
    """The same without diffs."""
    return replace(commit, files=tuple(replace(file, diff=None) for file in commit.files))


def _read(path: Path) -> StagedCommit | None:
    """None for one that is just being removed, or that another version of Paddock wrote."""
    import json

    try:
        data = json.loads(places.read_private(path / _SAID) or b"{}")
        return StagedCommit.from_dict(data) if data.get("version") == _VERSION else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
