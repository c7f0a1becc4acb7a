"""What stands around work in a sandbox: models to ask, ports to reach, and a word about what it changed."""

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import typer

from paddock.cli.ending import tell
from paddock.errors import ExecTimeoutError, SandboxError
from paddock.finishing import to_the_end
from paddock.sandbox import Sandbox

if TYPE_CHECKING:
    from paddock.gateway import Attachment


@asynccontextmanager
async def connected(sb: Sandbox, connector: str | None) -> "AsyncIterator[Attachment | None]":
    """With models to ask, if a connector was named."""
    if connector is None:
        yield None
        return
    from paddock.gateway import Gateway

    async with Gateway() as gateway:
        yield await gateway.attach(sb, connector)


@asynccontextmanager
async def exposed(sb: Sandbox, ports: Sequence[int]) -> AsyncIterator[None]:
    """Its ports are reached from this host, and where is said before it begins."""
    async with AsyncExitStack() as stack:
        for port in ports:
            endpoint = await stack.enter_async_context(await sb.expose(port))
            typer.echo(f"port {port} inside is {endpoint.url}", err=True)
        yield


@asynccontextmanager
async def reviewed(sb: Sandbox, review: bool, quiet: bool) -> AsyncIterator[None]:
    """Whatever becomes of the command, what it changed until then is decided about, or kept."""
    from paddock.cli.changes import decide

    if not review:
        yield
        return
    late: ExecTimeoutError | None = None
    try:
        try:
            yield
        except ExecTimeoutError as error:  # its work is not less worth for that
            late = error
        await decide(sb.changes, quiet=quiet)
    except BaseException as error:  # Ctrl-C, a hang-up: nobody is asked, and nothing is lost
        await to_the_end(_keep(sb, error, quiet))
        raise
    if late is not None:
        raise late


@asynccontextmanager
async def kept_if_cut_off(sb: Sandbox, review: bool) -> AsyncIterator[None]:
    """The same for a program, which is told in the end."""
    try:
        yield
    except BaseException as error:
        if review:
            await to_the_end(_keep(sb, error))
        raise


async def _keep(sb: Sandbox, why: BaseException, quiet: bool = False) -> None:
    """What was changed until now, if anything was. Whoever was cut off waits for it, and hears why."""
    import asyncio

    from paddock.cli.changes import keep

    if isinstance(why, asyncio.CancelledError) and not quiet:
        typer.echo("keeping what was changed, which may take a moment", err=True)
    try:
        changes = await sb.changes()
        if changes:
            await keep(changes)
    except SandboxError as error:
        if not isinstance(why, SandboxError):  # else that is told, and mostly is the same
            typer.echo("what was changed could not be kept:", err=True)
            tell(error, as_json=False)


async def kept_for_later(sb: Sandbox) -> dict[str, object]:
    """What was changed, for a program, and where it is kept."""
    changes = await sb.changes()
    kept = await changes.keep() if changes else None
    return {"kept": kept, "digest": changes.digest, "changes": [change.to_dict() for change in changes]}


def note(sb: Sandbox, quiet: bool) -> None:
    """Somebody who looks on is told when nothing holds the command."""
    if not quiet and sys.stderr is not None and sys.stderr.isatty() and not sb.isolation.files:
        typer.echo(f"note: '{sb.backend}' does not isolate; the command runs as you, on this machine", err=True)
