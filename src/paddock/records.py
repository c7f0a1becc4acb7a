"""Records of detached sandboxes: what another process needs to work with one, and which of them live."""

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from paddock import state
from paddock.errors import ExistsError, NotFoundError, UnavailableError, visible
from paddock.types import Limits, Mount, Network, SandboxInfo, Secret
from paddock.types.record import Record

VERSION = 1
_ID = re.compile("sb-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class SandboxRecord(Record):
    """Everything about a detached sandbox that has to be known to connect to it. Only its owner can read it."""

    info: SandboxInfo
    mounts: tuple[Mount, ...]
    protected: tuple[str, ...]
    limits: Limits
    network: Network
    env: dict[str, str]
    """What was given to `create`, values and all: every command has it, whoever starts it."""
    workdir: str
    timeout: float | None
    max_output: int
    review: bool = False
    image: str | None = None
    secrets: tuple[Secret, ...] = ()
    """Which there are. Their values are kept nowhere."""
    port: int = 0
    """Where commands find the way out, if there is one."""
    held: dict[str, Any] = field(default_factory=dict)
    """What the backend has to know besides."""
    version: int = VERSION


def keep(record: SandboxRecord) -> None:
    """Write it. Its private directory is held, so it lives. A name that another living one has is an `ExistsError`."""
    _sweep()
    with state.records_alone():
        _refuse_taken(record.info)
        _write(state.record_path(record.info.id), record)


def replace_kept(record: SandboxRecord) -> None:
    """Write it once more, with what is known by now."""
    _write(state.record_path(record.info.id), record)


def change(sandbox: str, **fields: Any) -> None:
    """Write down what is different now; nothing if it is not kept any more."""
    with state.records_alone():
        record = _read(state.record_path(sandbox)) if state.is_held(sandbox) else None
        if record is not None:
            replace_kept(replace(record, **fields))


def living() -> list[SandboxRecord]:
    """Those that run, the oldest first. What others left, who have ended by themselves, is removed on the way."""
    found = []
    for path in state.records():
        if not state.is_living(path):
            state.sweep_one(path.stem)
        elif (record := _read(path)) is not None:
            found.append(record)
    return sorted(found, key=lambda record: (record.info.created, record.info.id))


def find(id_or_name: str) -> SandboxRecord:
    """The one that runs and has this id, or else this name."""
    if isinstance(id_or_name, str) and _ID.fullmatch(id_or_name):  # which nothing else can have as its name
        return _by_id(id_or_name)
    found = [record for record in living() if id_or_name == record.info.name]
    for record in found:
        return record
    raise ended(id_or_name)


def _by_id(sandbox: str) -> SandboxRecord:
    """That one alone: where many run, reading all records takes longer than connecting."""
    record = _read(state.record_path(sandbox)) if state.is_held(sandbox) else None
    if record is None:
        state.sweep_one(sandbox)
        raise ended(sandbox)
    return record


def ended(id_or_name: str) -> NotFoundError:
    """The error for one that is not there any more, or never was."""
    return NotFoundError(
        f"No detached sandbox '{visible(str(id_or_name))}' runs.",
        hint="It may have ended. Sandbox.find() and `paddock ps` list those that run; create a new one.",
    )


def _sweep() -> None:
    for path in state.records():
        if not state.is_living(path):
            state.sweep_one(path.stem)


def _refuse_taken(info: SandboxInfo) -> None:
    if info.name is None:
        return
    for path in state.records():
        if _has_name(path, info.name) and state.is_living(path):
            raise ExistsError(
                f"A sandbox named '{info.name}' runs already: {path.stem}.",
                hint=f"Choose another name, connect to it, or end it: `paddock rm {info.name}`.",
            )


def _has_name(path: Path, name: str) -> bool:
    """Everybody is asked for every new one, so that a record is taken apart only if the name is somewhere in it."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        data = path.read_bytes()
        return f'"{name}"'.encode() in data and json.loads(data)["info"]["name"] == name
    return False


def _read(path: Path) -> SandboxRecord | None:
    """None for one that is just being removed, or that another version of Paddock wrote."""
    try:
        data = json.loads(path.read_bytes())
        return SandboxRecord.from_dict(data) if data["version"] == VERSION else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(path: Path, record: SandboxRecord) -> None:
    """At once or not at all, and for nobody else's eyes."""
    beside = path.with_name(path.name + state.UNFINISHED)
    try:
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "w", encoding="ascii") as file:
            json.dump(record.to_dict(), file)
        os.rename(beside, path)
    except OSError as error:
        raise UnavailableError(
            f"The record of the sandbox cannot be written: {error.strerror}.",
            hint="Free some space, or set PADDOCK_STATE to an absolute path elsewhere.",
        ) from error
