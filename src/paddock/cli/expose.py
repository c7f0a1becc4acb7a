"""`paddock expose`: a port of a detached sandbox on this host, for as long as the program runs."""

import asyncio
from typing import Annotated

import typer

from paddock.cli.ending import errors_told, wait_for
from paddock.cli.exec import Name
from paddock.sandbox import Sandbox

_SECONDS_BETWEEN_LOOKS = 2.0


def expose(
    sandbox: Name,
    port: Annotated[int, typer.Argument(metavar="PORT", help="The port inside.", show_default=False)],
    host_port: Annotated[
        int, typer.Option("--host-port", metavar="PORT", help="The port of this host; 0 is any that is free.")
    ] = 0,
) -> None:
    """Reach a port of a detached sandbox from this host, until Ctrl-C.

    The URL is printed. Only this host can connect; every user and every web page on it can. Nothing has to listen inside yet.

    \b
      paddock expose web 8000
      paddock expose web 8000 --host-port 8080
    """
    with errors_told():
        try:
            wait_for(_exposed(sandbox, port, host_port))
        except KeyboardInterrupt:  # which is how it ends
            raise typer.Exit from None


async def _exposed(name: str, port: int, host_port: int) -> None:
    async with Sandbox.connect(name) as sb, await sb.expose(port, host_port) as endpoint:
        typer.echo(endpoint.url)
        while True:
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
            await sb.processes()  # an error once the sandbox has ended
