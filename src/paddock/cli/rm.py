"""`paddock rm`: detached sandboxes come to their end, also those that a manager keeps."""

from pathlib import Path
from typing import Annotated

import typer

from paddock.cli.ending import FAILED, errors_told, show_json, tell, wait_for
from paddock.cli.order import State
from paddock.errors import ConfigError, ConflictError, NotFoundError, SandboxError, visible
from paddock.manager.reading import directory_of, forget_stopped, is_of, managed
from paddock.sandbox import Sandbox


def rm(
    sandboxes: Annotated[
        list[str] | None,
        typer.Argument(metavar="SANDBOX", help="Names or ids of detached sandboxes.", show_default=False),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="End all that run.")] = False,
    user: Annotated[str | None, typer.Option(metavar="ID", help="Those that a manager keeps for this user.")] = None,
    chat: Annotated[str | None, typer.Option(metavar="ID", help="With --user: only that of this chat.")] = None,
    state: State = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each, on a line.")] = False,
) -> None:
    """End detached sandboxes, with their commands and their private files.

    Files in directories of this host that they were shown stay, and so do the workspaces of a manager. The names or ids of
    those that were ended are printed; one that could not be is told, the others still are, and the exit code is 125.

    With --user it is what one manager keeps, the usual one or that of --state; what it has stopped is forgotten, and told
    as USER/CHAT.

    \b
      paddock rm web
      paddock rm --all
      paddock rm --user alice --chat 7
    """
    with errors_told(as_json):
        _check(sandboxes, everything, user, chat, state)
        work = _removed(sandboxes, as_json) if user is None else _of_user(directory_of(state), user, chat, as_json)
        raise typer.Exit(wait_for(work))


def _check(
    sandboxes: list[str] | None, everything: bool, user: str | None, chat: str | None, state: str | None
) -> None:
    ways = {"names of sandboxes": bool(sandboxes), "--all": everything, "--user": user is not None}
    given = [way for way, is_given in ways.items() if is_given]
    if len(given) > 1:
        raise ConfigError(f"{given[0]} and {given[1]} contradict each other.", hint="Give one of them.")
    for option, value in (("--chat", chat), ("--state", state)):
        if value is not None and user is None:
            raise ConfigError(f"{option} is only for --user.", hint="Say whose it is with --user, or leave it out.")
    if not given:
        raise ConfigError("Name sandboxes to end, or give --all, or --user.", hint="`paddock ps` lists those that run.")


async def _removed(names: list[str] | None, as_json: bool) -> int:
    """End these, or all; the exit code."""
    code = 0
    for name in names if names is not None and names else [info.id for info in await Sandbox.find()]:
        try:
            await Sandbox.remove(name)
        except NotFoundError as error:
            if names:  # else it has ended by itself meanwhile
                tell(error, as_json)
                code = FAILED
        except SandboxError as error:
            tell(error, as_json)
            code = FAILED
        else:
            _tell_ended(name, as_json)
    return code


async def _of_user(directory: Path, user: str, chat: str | None, as_json: bool) -> int:
    """End what one manager keeps for somebody, and forget what is stopped; the exit code."""
    ours = [info for info in await Sandbox.find() if is_of(info, directory)]
    kept = [found for info in ours if (found := managed(info)) is not None]
    ids = [one.sandbox for one in kept if one.user == user and chat in (None, one.chat) and one.sandbox]
    code = await _removed(ids, as_json) if ids else 0
    try:
        forgotten = await forget_stopped(directory, user, chat)
    except ConflictError as error:
        tell(error, as_json)
        return FAILED
    for entry in forgotten:
        if entry.sandbox not in ids:  # which was told
            _tell_forgotten(entry.key.user, entry.chat, as_json)
    if not ids and not forgotten:
        whose = f"'{visible(user)}'" if chat is None else f"the chat '{visible(chat)}' of '{visible(user)}'"
        raise NotFoundError(f"The manager keeps nothing for {whose}.", hint="`paddock ps` lists what it keeps.")
    return code


def _tell_ended(name: str, as_json: bool) -> None:
    if as_json:
        show_json({"action": "end", "sandbox": name, "user": None, "chat": None})
    else:
        typer.echo(visible(name))


def _tell_forgotten(user: str, chat: str, as_json: bool) -> None:
    if as_json:
        show_json({"action": "forget", "sandbox": None, "user": user, "chat": chat})
    else:
        typer.echo(visible(f"{user}/{chat}"))
