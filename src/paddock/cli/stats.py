"""`paddock stats`: how much a manager keeps."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from paddock.cli.ending import errors_told, wait_for
from paddock.cli.order import State
from paddock.cli.showing import Watch, size, table, watched
from paddock.errors import visible
from paddock.manager.reading import Overview, directory_of, look
from paddock.sandbox import Sandbox

_MOST_USERS = 10


def stats(
    state: State = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    watch: Watch = None,
) -> None:
    """Show how many sandboxes a manager keeps, for whom, and what the workspaces hold.

    It is read from disk and from what runs, whether a manager runs or not. The limits are those of the settings here.

    \b
      paddock stats
      paddock stats --watch 5
      paddock stats --json
    """
    with errors_told(as_json):
        directory = directory_of(state)
        watched(lambda: _lines(directory, as_json), watch)


def _lines(directory: Path, as_json: bool) -> Iterator[str]:
    found = look(directory, wait_for(Sandbox.find()))
    if as_json:
        yield json.dumps(found.stats.to_dict() | {"manager": found.manager})
    else:
        yield from (line.rstrip() for line in table(list(_rows(found))))


def _rows(found: Overview) -> Iterator[tuple[str, str]]:
    told = found.stats
    yield "manager", "none runs" if found.manager is None else f"process {found.manager}"
    yield "sandboxes", f"{told.total} of {told.max_total}"
    for name, counts in (("states", told.states), ("policies", told.policies)):
        yield name, ", ".join(f"{count} {word}" for word, count in sorted(counts.items())) or "-"
    yield "workspaces", f"{told.workspaces}, {'' if told.measured else 'more than '}{size(told.workspace_bytes)}"
    users = sorted(told.users.items(), key=lambda pair: (-pair[1], pair[0]))
    for user, count in users[:_MOST_USERS]:
        most = "" if told.max_per_user is None else f" of {told.max_per_user}"
        yield visible(user), f"{count}{most}"
    if len(users) > _MOST_USERS:
        yield "…", f"{len(users) - _MOST_USERS} more users"
