"""`paddock rm`: detached sandboxes come to their end."""

from typing import Annotated

import typer

from paddock.cli.ending import FAILED, errors_told, tell, wait_for
from paddock.errors import ConfigError, NotFoundError, SandboxError, visible
from paddock.sandbox import Sandbox


def rm(
    sandboxes: Annotated[
        list[str] | None,
        typer.Argument(metavar="SANDBOX", help="Names or ids of detached sandboxes.", show_default=False),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="End all that run.")] = False,
) -> None:
    """End detached sandboxes, with their commands and their private files.

    Files in directories of this host that they were shown stay. The names or ids of those that were ended are printed; one
    that could not be is told, the others still are, and the exit code is 125.

    \b
      paddock rm web
      paddock rm --all
    """
    with errors_told():
        if bool(sandboxes) == everything:
            raise ConfigError("Name sandboxes to end, or give --all.", hint="`paddock ps` lists those that run.")
        raise typer.Exit(wait_for(_removed(sandboxes)))


async def _removed(names: list[str] | None) -> int:
    """End these, or all; the exit code."""
    code = 0
    for name in names if names is not None and names else [info.id for info in await Sandbox.find()]:
        try:
            await Sandbox.remove(name)
        except NotFoundError as error:
            if names:  # else it has ended by itself meanwhile
                tell(error, as_json=False)
                code = FAILED
        except SandboxError as error:
            tell(error, as_json=False)
            code = FAILED
        else:
            typer.echo(visible(name))
    return code
