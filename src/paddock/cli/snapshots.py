"""`paddock snapshots`: the kept copies of workspaces, and what they take up."""

import json
import time
from typing import Annotated

import typer

from paddock.cli.ending import FAILED, errors_told, show_json, tell
from paddock.cli.showing import size, span, table
from paddock.errors import NotFoundError, visible
from paddock.snapshots import Store
from paddock.types.snapshots import Snapshot, SnapshotShare

snapshots = typer.Typer(rich_markup_mode=None, invoke_without_command=True)
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@snapshots.callback()
def _about(context: typer.Context) -> None:
    """List and remove snapshots of workspaces, and show what they take up.

    Without a command they are listed. `sb.snapshot()` takes them; those without a name go by themselves after a while.

    \b
      paddock snapshots
      paddock snapshots space
      paddock snapshots rm sn-0123456789ab
      paddock snapshots clean
    """
    if context.invoked_subcommand is None:
        list_()


@snapshots.command("list")
def list_(as_json: Json = False) -> None:
    """List them, the oldest first, with what each has to itself and what it shares with others."""
    with errors_told(as_json):
        store = Store()
        if as_json:
            for snapshot in store.snapshots():
                typer.echo(json.dumps(snapshot.to_dict()))
            return
        shares = {share.id: share for share in store.space().snapshots}
        head = ("ID", "NAME", "SANDBOX", "AGE", "FILES", "SIZE", "OWN", "SHARED", "OVER")
        for line in table([head, *(_row(one, shares.get(one.id)) for one in store.snapshots())]):
            typer.echo(line)


def _row(snapshot: Snapshot, share: SnapshotShare | None) -> tuple[str, ...]:
    return (
        snapshot.id,
        visible(snapshot.name or "-"),
        visible(snapshot.sandbox),
        span(time.time() - snapshot.created),
        str(snapshot.files),
        size(snapshot.size),
        size(share.own if share else None),
        size(share.shared if share else None),
        visible(snapshot.base or "-"),
    )


@snapshots.command()
def space(as_json: Json = False) -> None:
    """Show what all of them take up on this host."""
    with errors_told(as_json):
        found = Store().space()
        if as_json:
            show_json(found.to_dict())
            return
        typer.echo(
            f"{len(found.snapshots)} snapshots, {size(found.total)} on disk, {size(found.unused)} not used by any"
        )
        for id in found.damaged:
            typer.echo(f"{id} is damaged: nothing is collected before it is removed", err=True)


@snapshots.command()
def rm(ids: Annotated[list[str], typer.Argument(metavar="SNAPSHOT", help="Ids.", show_default=False)]) -> None:
    """Remove snapshots, and free what only they had."""
    with errors_told():
        code = 0
        for id in ids:
            try:
                Store().remove(id)
            except NotFoundError as error:
                tell(error, as_json=False)
                code = FAILED
            else:
                typer.echo(visible(id))
        raise typer.Exit(code)


@snapshots.command()
def clean(as_json: Json = False) -> None:
    """Remove what the settings say is not to be kept any longer, and contents that no snapshot uses."""
    with errors_told(as_json):
        store = Store()
        removed = store.expire()
        freed = store.collect()
        if as_json:
            show_json({"removed": [snapshot.id for snapshot in removed], "freed": freed})
            return
        for snapshot in removed:
            typer.echo(f"removed {snapshot.id} of {visible(snapshot.sandbox)}")
        typer.echo(f"{len(removed)} removed, {size(freed)} freed", err=True)
