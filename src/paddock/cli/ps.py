"""`paddock ps`: the detached sandboxes that run, and those that a manager keeps."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from paddock.cli.ending import errors_told, wait_for
from paddock.cli.order import Labels, State, labels
from paddock.cli.showing import Watch, span, table, watched
from paddock.errors import visible
from paddock.manager.reading import directory_of, managed, stopped
from paddock.sandbox import Sandbox
from paddock.types import ManagedInfo, SandboxInfo

_ENDS = ("AGE", "ENDS")
_MANAGED = ("USER", "CHAT", "POLICY", "STATE", "IDLE")


@dataclass(frozen=True, slots=True)
class Listed:
    """One line: a sandbox that runs, or one that is stopped."""

    info: SandboxInfo
    managed: ManagedInfo | None


def ps(
    label: Labels = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but ids.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each, on a line.")] = False,
    watch: Watch = None,
    state: State = None,
) -> None:
    """List the detached sandboxes that run, the oldest first.

    They are made by `paddock run --detach`, in Python, or by a manager: then there are columns for whom, and those that the
    usual one has stopped, or that of --state, are listed too. What those left that have ended is removed on the way.

    \b
      paddock ps
      paddock ps --label team=blue
      paddock ps --watch 2
      paddock rm $(paddock ps -q --label team=blue)
    """
    with errors_told(as_json):
        wanted = labels(label)
        watched(lambda: _lines(_found(wanted, directory_of(state)), quiet, as_json), watch)


def _found(wanted: dict[str, str], directory: Path) -> list[Listed]:
    found = [Listed(info, managed(info)) for info in wait_for(Sandbox.find(labels=wanted))]
    if not wanted:  # what is stopped has no labels
        running = {one.info.id for one in found}
        found += [Listed(_without_sandbox(one), one) for one in stopped(directory, running)]
    return found


def _without_sandbox(kept: ManagedInfo) -> SandboxInfo:
    return SandboxInfo("", None, kept.backend or "-", kept.created)


def _lines(found: list[Listed], quiet: bool, as_json: bool) -> Iterator[str]:
    if as_json:
        yield from (json.dumps(_object(one)) for one in found)
    elif quiet:
        yield from (one.info.id for one in found if one.info.id)
    else:
        yield from table(_rows(found))


def _object(one: Listed) -> dict[str, object]:
    whose = None if one.managed is None else one.managed.to_dict()
    return one.info.to_dict() | {"id": one.info.id or None, "managed": whose}


def _rows(found: list[Listed]) -> list[tuple[str, ...]]:
    with_managed = any(one.managed for one in found)
    middle = _MANAGED if with_managed else ()
    rows = [("ID", "NAME", "BACKEND", *_ENDS, *middle, "LABELS")]
    for one in found:
        info, whose = one.info, _whose(one.managed) if with_managed else ()
        marks = [f"{name}={value}" for name, value in sorted(info.labels.items()) if not name.startswith("paddock.")]
        age = span(time.time() - info.created)
        start = (info.id or "-", visible(info.name or "-"), visible(info.backend), age, _ends(info))
        rows.append((*start, *whose, visible(", ".join(marks)) or "-"))
    return rows


def _whose(kept: ManagedInfo | None) -> tuple[str, ...]:
    if kept is None:
        return ("-",) * len(_MANAGED)
    return visible(kept.user), visible(kept.chat), kept.policy, kept.state, span(time.time() - kept.last_used)


def _ends(info: SandboxInfo) -> str:
    """When it ends by itself."""
    words = []
    if info.lifetime is not None:
        words.append(f"in {span(info.created + info.lifetime - time.time())}")
    if info.idle_timeout is not None:
        words.append(f"idle {span(info.idle_timeout)}")
    return ", ".join(words) or "-"
