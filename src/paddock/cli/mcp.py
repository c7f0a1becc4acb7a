"""`paddock mcp`: the tools of a sandbox for any MCP client, over standard streams or HTTP."""

import os
import secrets as random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from paddock.bridge import sdk
from paddock.cli import stdout, streams
from paddock.cli.ending import errors_told, wait_for
from paddock.cli.network import Allowed, Attached, Private, network, secrets
from paddock.cli.order import (
    Backend,
    Cache,
    Cpu,
    Env,
    Image,
    Labels,
    Memory,
    Mounts,
    Order,
    Quiet,
    Root,
    Runtime,
    Workdir,
    Workspace,
    labels,
    limits,
    seconds,
)
from paddock.errors import ConfigError, SandboxError
from paddock.finishing import to_the_end
from paddock.sandbox import Creation, Sandbox

if TYPE_CHECKING:
    from paddock.tools.mcp.server import McpTools

TOKEN = "PADDOCK_MCP_TOKEN"  # noqa: S105 - the name of a variable
_WITH_ATTACH = frozenset({"attach", "only", "http", "no_token", "host_name", "quiet"})
"""What is not about how a sandbox is made."""


def mcp(
    context: typer.Context,
    backend: Backend = None,
    workspace: Workspace = None,
    cache: Cache = None,
    root: Root = None,
    review: Annotated[
        bool,
        typer.Option(
            "--review",
            help="Work on --workspace, or the current directory, without writing to it; keep what changed for later.",
        ),
    ] = False,
    mount: Mounts = None,
    image: Image = None,
    runtime: Runtime = None,
    memory: Memory = None,
    cpu: Cpu = None,
    env: Env = None,
    workdir: Workdir = "/workspace",
    allow: Allowed = None,
    private: Private = None,
    secret: Attached = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What to call it; no other that runs has it.")
    ] = None,
    label: Labels = None,
    lifetime: Annotated[
        str | None, typer.Option(metavar="TIME", help="End the sandbox after this, such as 8h, whatever runs.")
    ] = None,
    attach: Annotated[
        str | None, typer.Option("--attach", metavar="SANDBOX", help="Use this detached sandbox, and leave it running.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="TOOL", help="Offer this tool; may be given several times.")
    ] = None,
    http: Annotated[
        str | None, typer.Option("--http", metavar="[HOST:]PORT", help="Listen there instead; port 0 is any.")
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="With --http on the loopback: ask for no token.")
    ] = False,
    host_name: Annotated[
        list[str] | None, typer.Option("--host-name", metavar="NAME", help="With --http: also served under this name.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Offer the tools of a sandbox to an MCP client.

    A client such as an editor or an agent starts this program and speaks to it by its standard streams. The sandbox is made
    for it, as `paddock run` does, and ends with the client. Its tools read, change and find files and run commands; files
    are resources too.

    With --review nothing is written to the workspace. What was changed is kept in the end, and `paddock review` goes on from
    there. With --attach it is a sandbox that runs already.

    With --http it listens, at the path /mcp, and says where. Every request needs a token: that of the variable
    PADDOCK_MCP_TOKEN, or a new one that is shown.

    Examples:

    \b
      paddock mcp --workspace . --review
      paddock mcp --image node:22 --allow api.github.com
      paddock mcp --attach web --only read_file --only grep
      paddock mcp --workspace . --http 8765
    """
    with errors_told():
        sdk.need()
        if attach is not None:
            _need_no_other(context)
        order = Order(
            [],
            backend,
            workspace,
            cache,
            root,
            mount,
            env,
            workdir,
            name,
            labels(label),
            lifetime=seconds(lifetime, "--lifetime"),
            image=image,
            runtime=runtime,
            limits=limits(memory, cpu),
            review=review,
            network=network(allow, private),
            secrets=secrets(secret),
        )
        where = None if http is None else _where(http)
        token = None if no_token else os.environ.get(TOKEN) or random.token_urlsafe(32)
        if where is not None:
            from paddock.tools.mcp.http import need_token

            need_token(where[0], token)
        stdout.lend()
        place = Sandbox.connect(attach) if attach is not None else order.sandbox()
        if where is None:
            wait_for(_over_streams(place, only, review, quiet))
        else:
            wait_for(_over_http(place, only, review, where, token, host_name or [], quiet))


def _need_no_other(context: typer.Context) -> None:
    """With --attach nothing is made, and what was said about making it would be ignored."""
    given = [
        str(option.opts[0])
        for option in context.command.params
        if option.name is not None
        and option.name not in _WITH_ATTACH
        and getattr(context.get_parameter_source(option.name), "name", None) == "COMMANDLINE"
    ]
    if given:
        raise ConfigError(
            f"--attach is about a sandbox that is made already, and cannot be given with {', '.join(given)}.",
            hint="Leave that out, or make another sandbox without --attach.",
        )


async def _over_streams(place: Creation, only: list[str] | None, review: bool, quiet: bool) -> None:
    async with _offered(place, only, review) as tools:
        if not quiet and sys.stdin is not None and sys.stdin.isatty():
            typer.echo("serving MCP on standard streams, for a client to start; Ctrl-C ends it", err=True)
        await tools.serve(_Streams())


async def _over_http(
    place: Creation,
    only: list[str] | None,
    review: bool,
    where: tuple[str, int],
    token: str | None,
    names: list[str],
    quiet: bool,
) -> None:
    import asyncio

    from paddock.tools.mcp.http import listening

    async with _offered(place, only, review) as tools, listening(tools, *where, token, names) as url:
        if not quiet or where[1] == 0:  # what nobody could know otherwise is always said
            typer.echo(f"listening at {url}", err=True)
        if token is not None and token != os.environ.get(TOKEN):
            typer.echo(f"the token is {token}", err=True)
        await asyncio.Event().wait()


@asynccontextmanager
async def _offered(place: Creation, only: list[str] | None, review: bool) -> "AsyncIterator[McpTools]":
    """The sandbox with its tools; what was changed under review is kept, however it ends, or it is said that it is not."""
    from paddock.tools import sandbox_tools
    from paddock.tools.mcp.server import McpTools

    async with place as sb:
        tools = sandbox_tools(sb)
        try:
            yield McpTools(sb, tools.only(*only) if only else tools)
        finally:
            if review:
                await to_the_end(_kept(sb))


async def _kept(sb: Sandbox) -> None:
    from paddock.cli.changes import keep

    try:
        changes = await sb.changes()
        if changes:
            await keep(changes)
    except SandboxError:
        typer.echo("what was changed could not be kept:", err=True)
        raise


def _where(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"--http={text!r} is no port.", hint="Such as 8765, or 127.0.0.1:8765.")
    return host.strip("[]") or "127.0.0.1", int(port)


class _Streams:
    """This program's own streams as a connection."""

    def __init__(self) -> None:
        import asyncio

        self._writing = asyncio.Lock()
        self._aborted = False
        self._incoming = streams.piped()
        self._outgoing = streams.outputs()["stdout"]

    async def read(self, size: int = 65_536) -> bytes:
        """See `Connection`; a piece may be larger."""
        return await anext(self._incoming, b"")

    async def write(self, data: bytes) -> None:
        """See `Connection`. Answers are given at once, and a message is never written into another."""
        async with self._writing:
            if self._aborted:  # what was cut off may be half a line
                raise ConnectionAbortedError
            await self._outgoing.write(data)

    async def end(self) -> None:
        """It ends with the program."""

    def close(self) -> None:
        """It ends with the program."""

    def abort(self) -> None:
        """Nothing more is written."""
        self._aborted = True
