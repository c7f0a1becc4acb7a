"""`paddock workspaces`: what a manager keeps for its users when no sandbox runs."""

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Annotated

import typer

from paddock.cli.ending import FAILED, errors_told, show_json, tell, wait_for
from paddock.cli.order import State
from paddock.cli.showing import Watch, size, span, table, watched
from paddock.errors import NotFoundError, SandboxError, visible
from paddock.manager.about import Workspace
from paddock.manager.measuring import measure
from paddock.manager.reading import directory_of
from paddock.manager.workspaces import Workspaces
from paddock.sandbox import Sandbox
from paddock.types import WorkspaceInfo

workspaces = typer.Typer(rich_markup_mode=None, invoke_without_command=True)
Id = Annotated[str, typer.Argument(metavar="WORKSPACE", help="Its id, such as ws-….")]
User = Annotated[str | None, typer.Option(metavar="ID", help="Only those of this user.")]
Json = Annotated[bool, typer.Option("--json", help="Print a JSON object for each, on a line.")]


@workspaces.callback()
def _default(
    context: typer.Context, user: User = None, state: State = None, as_json: Json = False, watch: Watch = None
) -> None:
    """List, show and remove the workspaces of a manager.

    Without a command they are listed, and only then options stand here.

    \b
      paddock workspaces
      paddock workspaces list --user alice --watch 5
      paddock workspaces rm ws-0123456789abcdef0123456789abcdef
    """
    if context.invoked_subcommand is None:
        list_(user, state, as_json, watch)
    elif (user, state, as_json, watch) != (None, None, False, None):
        raise typer.BadParameter("With a command, options stand behind it.", context)


@workspaces.command("list")
def list_(
    user: User = None,
    state: State = None,
    as_json: Json = False,
    watch: Watch = None,
) -> None:
    """List them, the longest unused first."""
    with errors_told(as_json):
        watched(lambda: _lines(Workspaces(directory_of(state)), user, as_json), watch)


@workspaces.command()
def show(id: Id, state: State = None) -> None:
    """Show all that is known about one, with its size, as a JSON object."""
    with errors_told(as_json=True):
        store = Workspaces(directory_of(state))
        found = store.find(id)
        counted = measure(found.directory)
        about = replace(found.about, size=counted.size)
        info = replace(found, about=about).info(in_use=wait_for(store.is_used(found)))
        show_json(info.to_dict() | {"measured": counted.complete, "sandboxes": wait_for(store.users(found))})


@workspaces.command()
def rm(
    ids: Annotated[list[str], typer.Argument(metavar="WORKSPACE", help="Ids of workspaces.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", "-f", help="End sandboxes that use it first.")] = False,
    state: State = None,
) -> None:
    """Remove workspaces, with all files in them.

    One that a sandbox or a lease uses is refused. With --force sandboxes are ended first; a lease of a manager that runs
    still keeps it.
    """
    with errors_told():
        store, code = Workspaces(directory_of(state)), 0
        for id in ids:
            try:
                wait_for(_remove(store, store.find(id), force))
            except SandboxError as error:
                tell(error, as_json=False)
                code = FAILED
            else:
                typer.echo(visible(id))
        raise typer.Exit(code)


async def _remove(store: Workspaces, workspace: Workspace, force: bool) -> None:
    if force:
        await store.refuse_leased(workspace)
        for sandbox in await store.users(workspace):
            with suppress(NotFoundError):
                await Sandbox.remove(sandbox)
    await store.take_away(workspace)


def _lines(store: Workspaces, user: str | None, as_json: bool) -> Iterator[str]:
    infos = sorted(
        (one for one in wait_for(store.infos()) if user in (None, one.user)), key=lambda info: info.last_used
    )
    if as_json:
        yield from (json.dumps(info.to_dict()) for info in infos)
    else:
        head = ("ID", "USER", "CHAT", "AGE", "UNUSED", "SIZE", "USE", "LABELS")
        yield from table([head, *map(_row, infos)])


def _row(info: WorkspaceInfo) -> tuple[str, ...]:
    now = time.time()
    marks = ", ".join(f"{name}={value}" for name, value in sorted(info.labels.items()))
    return (
        info.id,
        visible(info.user),
        visible(f"({info.name})" if info.chat is None else info.chat),
        span(now - info.created),
        span(now - info.last_used),
        size(info.size),
        "in use" if info.in_use else "-",
        visible(marks) or "-",
    )
