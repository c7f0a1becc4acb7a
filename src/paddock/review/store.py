"""Reviews that are kept for later: all that was shown, with its contents, in the state directory."""

import json
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from paddock import state
from paddock.config import setting
from paddock.dirs.remove import remove_tree
from paddock.errors import ConfigError, ExistsError, NotFoundError, SandboxError, UnavailableError, visible
from paddock.review import journal
from paddock.review.bounds import Bounds, Spending
from paddock.review.carry import is_still, is_there
from paddock.review.durable import sync_directory
from paddock.review.emptied import marked
from paddock.review.findings import Findings, Found
from paddock.review.host import Host
from paddock.review.plan import Root
from paddock.review.shown import Opener, copy_out
from paddock.review.tree import MOVED
from paddock.types.record import Record

_ABOUT = "review.json"
_CONTENTS = "contents"
_UNFINISHED = ".new"
_PREFIX = "rv-"
_ID = re.compile(f"{_PREFIX}[0-9a-f]{{6}}")
_VERSION = 1
_MOST_NAME = 64
CHANGED = "It was changed on the host after it was kept."
GONE = "The host directory is gone."


@dataclass(frozen=True, slots=True)
class KeptInfo(Record):
    """What there is to know about a kept review without opening it."""

    id: str
    created: float
    """In seconds since 1970."""
    size: int
    """Bytes of its contents on this host."""
    changes: int
    directories: tuple[str, ...]
    """The host directories that it is about."""
    name: str | None = None


@dataclass(frozen=True, slots=True)
class KeptReview(Record):
    """One, opened: as it was shown, with conflicts as they are now."""

    info: KeptInfo
    findings: Findings


def keep(findings: Findings, contents: Opener, name: str | None) -> str:
    """Write one, with everything that is needed to apply it when the sandbox is gone; its id."""
    if name is not None and not (0 < len(name) <= _MOST_NAME and name.isprintable()):
        raise ConfigError(
            f"A review cannot be named '{visible(name)}'.", hint=f"Use 1 to {_MOST_NAME} printable characters."
        )
    if name is not None and any(info.name == name for info in infos()):
        raise ExistsError(
            f"A review named '{visible(name)}' is kept already.", hint="Choose another name, or discard that one."
        )
    place = state.private(state.state_directory() / "reviews")
    id = _PREFIX + secrets.token_hex(3)
    beside = place / (id + _UNFINISHED)
    try:
        (beside / _CONTENTS).mkdir(mode=0o700, parents=True)
        size = _copy(findings, contents, beside / _CONTENTS, Bounds())
        lowers = tuple(sorted({layer.lower for layer in findings.layers}))
        info = KeptInfo(id, time.time(), size, len(findings.found), lowers, name)
        _write(beside, KeptReview(info, findings))
        sync_directory(beside, all=True)
        os.rename(beside, place / id)
    except BaseException as error:
        _remove(beside)
        if isinstance(error, OSError) and not isinstance(error, SandboxError):
            raise UnavailableError(
                f"The review cannot be kept: {error.strerror}.",
                hint="Free some space, or set PADDOCK_STATE to an absolute path elsewhere.",
            ) from error
        raise
    return id


def _copy(findings: Findings, contents: Opener, to: Path, spending: Spending) -> int:
    """Each content once, under its hash."""
    size = 0
    with contents() as shown:
        for one in findings.found:
            if not one.is_applicable:
                continue
            shown.check(one, spending)
            path = to / (one.change.sha256 or "")
            if one.new is not None and one.new.kind == "file" and not path.exists():
                copy_out(shown, one, path, spending, sync=False)
                size += one.change.size
    return size


def infos() -> tuple[KeptInfo, ...]:
    """All that are kept, the oldest first."""
    found = []
    for path in _directory().glob(f"{_PREFIX}*/{_ABOUT}"):
        with suppress(SandboxError):
            found.append(_read(path.parent).info)
    return tuple(sorted(found, key=lambda info: (info.created, info.id)))


def load(id_or_name: str) -> KeptReview:
    """The one with this id, or else this name, compared with what the host has now. Unknown is a `NotFoundError`."""
    review = _read(_directory() / _id(id_or_name))
    with ExitStack() as stack:
        hosts, closed = {}, {}
        for number, layer in enumerate(review.findings.layers):
            try:
                hosts[number] = stack.enter_context(Host.at(layer.lower))
            except OSError as error:
                closed[number] = GONE if error.errno in MOVED else f"The host directory: {error.strerror}."
        found = [
            _in_conflict(one, closed[one.layer]) if one.layer in closed else _compared(one, hosts[one.layer])
            for one in review.findings.found
        ]
        return replace(review, findings=replace(review.findings, found=marked(found, hosts)))


def check_there(findings: Findings) -> None:
    """Raise what `apply` would if a host directory is not there; such a review can be looked at all the same."""
    with journal.opened([Root.of(layer) for layer in findings.layers]):
        pass


def _in_conflict(one: Found, why: str) -> Found:
    return replace(one, change=replace(one.change, conflict=why))


def _compared(one: Found, host: Host) -> Found:
    try:
        same = is_there(host, one.relative, one.new) or is_still(host, one.relative, one.host)
        if one.old_relative is not None:
            same = same and (host.look(one.old_relative) is None or is_still(host, one.old_relative, one.old_host))
    except PermissionError:
        same = False
    if same:
        return one
    old = None if one.old_relative is None else host.look(one.old_relative)
    one = _in_conflict(one, one.change.conflict or CHANGED)
    return replace(one, host=host.look(one.relative), old_host=old)


def without(id: str, paths: frozenset[str]) -> None:
    """Some of it is applied: the rest is kept, with its contents, and nothing where nothing is left to be applied."""
    place = _directory() / id
    review = _read(place)
    findings = review.findings.without(paths)
    if not findings.found:
        discard(id)
        return
    needed = {one.change.sha256 for one in findings.found if one.new is not None and one.new.kind == "file"}
    with os.scandir(place / _CONTENTS) as entries:
        sizes = {entry.name: entry.stat(follow_symlinks=False).st_size for entry in entries}
    size = sum(size for name, size in sizes.items() if name in needed)
    _write(place, KeptReview(replace(review.info, changes=len(findings.found), size=size), findings))
    for name in sizes.keys() - needed:
        os.unlink(place / _CONTENTS / name)


def discard(id_or_name: str) -> str:
    """Forget one, also one that cannot be read or whose host directory is gone; its id."""
    place = _directory() / _id(id_or_name)
    beside = place.with_name(place.name + _UNFINISHED)
    with suppress(FileNotFoundError):
        os.rename(place, beside)
    _remove(beside)
    return place.name


def sweep() -> None:
    """Remove what those left who were killed while they kept or forgot one. An hour is long enough to be done."""
    for path in _directory().glob(f"{_PREFIX}*{_UNFINISHED}"):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - 3600:
                _remove(path)


class KeptContents:
    """What was kept, by its hash. Nobody changes it; it is compared all the same."""

    def __init__(self, id: str) -> None:
        self._place = _directory() / id / _CONTENTS

    def check(self, one: Found, spending: Spending) -> None:
        """It is what was shown, since that is what was kept."""

    @contextmanager
    def opened(self, one: Found) -> Iterator[int]:
        fd = os.open(self._place / (one.change.sha256 or ""), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            yield fd
        finally:
            os.close(fd)


def _id(id_or_name: str) -> str:
    known = infos()
    if isinstance(id_or_name, str) and _ID.fullmatch(id_or_name) and (_directory() / id_or_name).is_dir():
        return id_or_name
    named = [info.id for info in known if info.name == id_or_name]
    if named:
        return named[-1]
    there = ", ".join(info.id if info.name is None else f"{info.id} ({info.name})" for info in known)
    raise NotFoundError(
        f"No review '{visible(str(id_or_name))}' is kept.",
        hint=f"There are: {visible(there)}." if there else "None is kept.",
    )


def _directory() -> Path:
    return Path(setting("state").value) / "reviews"


def _read(place: Path) -> KeptReview:
    try:
        data: dict[str, Any] = json.loads((place / _ABOUT).read_bytes())
        if data.pop("version") == _VERSION:
            return KeptReview.from_dict(data)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SandboxError(f"The review {place.name} cannot be read.", hint="Discard it.") from error
    raise SandboxError(
        f"The review {place.name} is of another version of Paddock.", hint="Use that one, or discard it."
    )


def _write(place: Path, review: KeptReview) -> None:
    beside = place / (_ABOUT + _UNFINISHED)
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with open(fd, "w", encoding="ascii") as file:
        json.dump({"version": _VERSION, **review.to_dict()}, file)
        file.flush()
        os.fsync(fd)
    os.rename(beside, place / _ABOUT)


def _remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            remove_tree(parent, os.fsencode(path.name))
        finally:
            os.close(parent)
