"""`paddock shell`: a terminal in a sandbox."""

from typing import Annotated

import typer

from paddock.cli.ending import errors_told, wait_for
from paddock.cli.errand import Errand, on_terminal, terminal_type
from paddock.cli.granting import Servers, Tools
from paddock.cli.network import Allowed, Attached, Private, network, secrets
from paddock.cli.order import (
    Backend,
    Cache,
    Connector,
    Cpu,
    Env,
    Expose,
    Image,
    Memory,
    Mounts,
    Order,
    Quiet,
    Review,
    Root,
    Runtime,
    Timeout,
    Workdir,
    Workspace,
    limits,
    seconds,
)

_SHELL = "if command -v bash >/dev/null 2>&1; then exec bash -i; else exec sh -i; fi"


def shell(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="Instead of a shell.", show_default=False)
    ] = None,
    backend: Backend = None,
    workspace: Workspace = None,
    cache: Cache = None,
    root: Root = None,
    review: Review = False,
    mount: Mounts = None,
    image: Image = None,
    runtime: Runtime = None,
    memory: Memory = None,
    cpu: Cpu = None,
    timeout: Timeout = None,
    env: Env = None,
    workdir: Workdir = "/workspace",
    tool: Tools = None,
    mcp: Servers = None,
    allow: Allowed = None,
    private: Private = None,
    secret: Attached = None,
    connector: Connector = None,
    expose: Expose = None,
    quiet: Quiet = False,
) -> None:
    """Open a shell in a sandbox, on this terminal.

    Everything private is removed when it ends. It is bash where the sandbox has it, else sh. All keys go to the program
    inside, Ctrl-C too. There is no limit on the time unless you give one. The exit code is that of the shell.

    Examples:

    \b
      paddock shell
      paddock shell --workspace . --env EDITOR
      paddock shell --review
      paddock shell -- python3
      paddock shell --allow pypi.org --allow '*.pythonhosted.org'
      paddock shell --image debian:13

    With --review it works on the current directory, or --workspace, without writing to it, and asks in the end.

    For a shell in a detached sandbox there is `paddock exec --tty NAME bash`.
    """
    with errors_told():
        order = Order(
            command or ["sh", "-c", _SHELL],
            backend,
            workspace,
            cache,
            root,
            mount,
            env,
            workdir,
            image=image,
            runtime=runtime,
            limits=limits(memory, cpu),
            review=review,
            tool=tool,
            mcp=mcp,
            network=network(allow, private),
            secrets=secrets(secret),
        )
        place = order.sandbox(TERM=terminal_type())
        errand = Errand(
            place,
            order.command,
            seconds(timeout, "--timeout"),
            quiet,
            expose=tuple(expose or ()),
            review=review,
            connector=connector,
        )
        raise typer.Exit(wait_for(on_terminal(errand, hint="Use `paddock run` in pipes and scripts.")))
