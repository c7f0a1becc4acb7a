"""`paddock attach`: the output of a command in a detached sandbox."""

from typing import Annotated

import typer

from paddock.cli import streams
from paddock.cli.ending import errors_told, wait_for
from paddock.cli.exec import Name
from paddock.errors import NotFoundError
from paddock.sandbox import Process, Sandbox


def attach(
    sandbox: Name,
    pid: Annotated[
        int | None, typer.Argument(metavar="PID", help="Which command, if several run.", show_default=False)
    ] = None,
) -> None:
    """Show what a command in a detached sandbox prints, from what was kept of it on.

    It is the command that `paddock run --detach` began, or that another program started in the background. Without PID it is
    the oldest that runs, or else the last that ended with nobody there to see it, which is shown once. Ctrl-C lets go of it,
    and it runs on. If it ends, the exit code is its own.

    \b
      paddock attach web
    """
    with errors_told():
        raise typer.Exit(wait_for(_attached(sandbox, pid)))


async def _attached(name: str, pid: int | None) -> int:
    outputs = streams.outputs()
    async with Sandbox.connect(name) as sb:
        process = await _found(sb, pid)
        async for chunk in process:
            await outputs[chunk.stream].write(chunk.data)
        return (await process.wait()).exit_code


async def _found(sb: Sandbox, pid: int | None) -> Process:
    if pid is not None:
        return await sb.process(pid)
    listed = await sb.processes()
    if not listed:
        raise NotFoundError("No command runs there.", hint="Start one with `paddock run --detach`, or in Python.")
    running = [info for info in listed if info.exit_code is None]
    oldest = min(
        running, key=lambda info: info.started, default=listed[0]
    )  # of those that ended, the last is the first
    return await sb.process(oldest.pid)
