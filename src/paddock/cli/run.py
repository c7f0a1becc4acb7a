"""`paddock run`: one command in a sandbox of its own, its streams passed through; or a sandbox that stays."""

from typing import Annotated

import typer

from paddock.cli.ending import errors_told, show_json, wait_for
from paddock.cli.errand import Errand, on_terminal, reported, streamed, terminal_type
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
    Labels,
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
    labels,
    limits,
    seconds,
    size,
)
from paddock.config import MAX_OUTPUT, setting
from paddock.errors import ConfigError
from paddock.sandbox import Sandbox


def run(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND",
            help="A text for the shell, or a program and its arguments. `--` may stand before it.",
            show_default=False,
        ),
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
    max_output: Annotated[
        str | None, typer.Option(metavar="SIZE", help="With --json: how much of each stream is kept, such as 64k.")
    ] = None,
    tty: Annotated[bool, typer.Option("--tty", "-t", help="Give the command this terminal.")] = False,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Leave the sandbox running, with the command in the background.")
    ] = False,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What to call it; no other that runs has it.")
    ] = None,
    label: Labels = None,
    idle_timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="With --detach: end it after so long without use, such as 30m.")
    ] = None,
    lifetime: Annotated[
        str | None, typer.Option(metavar="TIME", help="End the sandbox after this, such as 8h, whatever runs.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object at the end, and nothing before.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Run a command in a sandbox of its own.

    The sandbox is made for it and removed afterwards. One word is a text for the shell; several are a program and its
    arguments, which no shell looks at. Output is passed through as it comes. Standard input is passed on when it is a pipe
    or a file.

    With --detach the sandbox stays, and its id is printed: `paddock ps`, `exec`, `attach`, `cp` and `rm` work with it. The
    command is started in it, if you give one; what it prints last is kept, and how it ended, for `paddock attach`.

    With --review it works on --workspace, or the current directory, and does not write to it. When the command has ended you
    see what it changed, and choose: apply, keep for later, or discard. Where nobody can be asked it is kept, and
    `paddock review` goes on from there.

    With --tool and --mcp what runs inside may use tools of yours, through the MCP server that `paddock-bridge
    "$PADDOCK_BRIDGE"` speaks to; `paddock tools` shows which. They stay outside: only what they answer gets in.

    With --allow it may connect to these hosts, through a proxy of Paddock's that the usual programs find by themselves, and
    to no others. With --secret a header with a value of yours is added to requests for a host on their way out; the sandbox
    never has the value. `paddock logs --denied` shows what was refused.

    With --connector it may ask for models, with a token that is good in this sandbox alone; the key stays here.

    The exit code is that of the command; 124 when it ran out of time, 125 for an error of Paddock's own, 130 after Ctrl-C.

    Examples:

    \b
      paddock run -- python3 -V
      paddock run 'ls -l | wc -l'
      paddock run --workspace . --timeout 10m -- make test
      paddock run --workspace . --review -- ./agent.sh
      paddock run --mount ./data:/data --workdir /data --env LANG --json -- wc -l rows.csv
      paddock run --review --tool ./tools.py:echo --mcp 'python3 server.py' -- ./agent.sh
      paddock run --review --connector claude -- claude -p 'fix the tests'
      paddock run --allow pypi.org --allow '*.pythonhosted.org' -- pip install --user requests
      paddock run --review --allow api.github.com --secret GITHUB_TOKEN=https://api.github.com -- ./agent.sh
      paddock run --workspace . --image node:22 --memory 2g -- npm test
      paddock run --workspace . --expose 8000 -- python3 -m http.server --bind 127.0.0.1 8000
      paddock run -d --name web --idle-timeout 30m -- python3 -u -m http.server
    """
    with errors_told(as_json):
        order = Order(
            command or [],
            backend,
            workspace,
            cache,
            root,
            mount,
            env,
            workdir,
            name,
            labels(label),
            seconds(idle_timeout, "--idle-timeout"),
            seconds(lifetime, "--lifetime"),
            image,
            runtime,
            limits(memory, cpu),
            review,
            tool,
            mcp,
            network(allow, private),
            secrets(secret),
        )
        kept = MAX_OUTPUT if max_output is None else size(max_output)
        if detach:
            given = {"--timeout": timeout is not None, "--tty": tty, "--review": review}
            _refuse_with_detach(
                *given.items(),
                ("--tool", bool(tool)),
                ("--mcp", bool(mcp)),
                ("--connector", bool(connector)),
                ("--expose", bool(expose)),
                ("--allow", bool(allow)),
                ("--secret", bool(secret)),
            )
            raise typer.Exit(wait_for(_left_running(order, kept, as_json)))
        if not command:
            raise typer.BadParameter("there is no command.", param_hint="COMMAND")
        limit = setting("timeout").value if timeout is None else seconds(timeout, "--timeout")
        if as_json and tty:
            raise ConfigError("--json and --tty contradict each other.", hint="Give one of them.")
        place = order.sandbox(TERM=terminal_type()) if tty else order.sandbox()
        ports = tuple(expose or ())
        errand = Errand(place, order.command, limit, quiet, expose=ports, review=review, connector=connector)
        if as_json:
            code = wait_for(reported(errand, kept))
        elif tty:
            code = wait_for(on_terminal(errand, hint="Leave out --tty."))
        else:
            code = wait_for(streamed(errand))
        raise typer.Exit(code)


def _refuse_with_detach(*options: tuple[str, bool]) -> None:
    for option, given in options:
        if given:
            raise ConfigError(f"{option} and --detach contradict each other.", hint="Give one of them.")


async def _left_running(order: Order, kept: int, as_json: bool) -> int:
    """A sandbox that stays, with the command in it. If that cannot be started, nothing stays."""
    async with order.sandbox(detached=True) as sb:
        try:
            process = await sb.start(order.command, max_output=kept, leave=True) if order.words else None
        except BaseException:
            await Sandbox.remove(sb.id)
            raise
        told = {"sandbox": sb.id, "name": sb.name, "backend": sb.backend, "pid": process and process.pid}
    if as_json:
        show_json(told)
    else:
        typer.echo(told["sandbox"])
    if process is not None and process.exit_code is not None:  # it could not be run: nobody else will hear of it
        result = await process.wait()
        typer.echo(
            f"{result.stdout}{result.stderr}note: the command has ended, with exit code {result.exit_code}", err=True
        )
    return 0
