"""`paddock clean`: workspaces that nobody has used for long."""

import time
from typing import Annotated

import typer

from paddock.cli.ending import errors_told, show_json, wait_for
from paddock.cli.order import State, seconds
from paddock.config import setting
from paddock.errors import visible
from paddock.manager.cleaning import clean as cleaned
from paddock.manager.locks import holder
from paddock.manager.reading import directory_of
from paddock.types import Removal


def clean(
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Only say what would be removed.")] = False,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Not used for so long: seconds, 12h, 7d. Without it: the setting."),
    ] = None,
    state: State = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each, on a line.")] = False,
) -> None:
    """Remove workspaces of a manager that nobody has used for long.

    What a lease or a sandbox uses is never removed, nor what belongs to a persistent sandbox. A manager may run meanwhile;
    it looks after its sandboxes itself, and does the same once a day.

    \b
      paddock clean --dry-run
      paddock clean --older-than 30d
    """
    with errors_told(as_json):
        retention = setting("manager_retention").value if older_than is None else seconds(older_than, "--older-than")
        directory = directory_of(state)
        done = wait_for(cleaned(directory, time.time(), retention, dry_run=dry_run))
        for removal in done:
            if as_json:
                show_json(removal.to_dict())
            else:
                typer.echo(_line(removal, dry_run))
        if not as_json:
            _note(holder(directory), len(done), dry_run)


def _line(removal: Removal, dry_run: bool) -> str:
    whose = visible(f"{removal.user}/{removal.chat}" if removal.chat else removal.user)
    return f"{'would remove' if dry_run else 'removed'} {removal.id} of {whose}: {removal.reason}"


def _note(manager: int | None, count: int, dry_run: bool) -> None:
    """What somebody wants to know who looks on."""
    if not count:
        typer.echo(f"nothing {'would be' if dry_run else 'was'} removed", err=True)
    if manager is not None:
        typer.echo(f"note: a manager runs, process {manager}; it looks after its sandboxes itself", err=True)
