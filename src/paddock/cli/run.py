"""`paddock run`: one command in a sandbox of its own, its streams passed through."""

import math
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Annotated

import typer

from paddock.cli import streams
from paddock.cli.ending import errors_told, show_json, wait_for
from paddock.cli.order import (
    Backend,
    Cache,
    Env,
    Mounts,
    Order,
    Quiet,
    Root,
    Timeout,
    Workdir,
    Workspace,
    seconds,
    size,
)
from paddock.config import MAX_OUTPUT, setting
from paddock.errors import ConfigError, ExecTimeoutError, SandboxError
from paddock.sandbox import Process, Sandbox
from paddock.types import ExecResult


def run(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="COMMAND",
            help="A text for the shell, or a program and its arguments. `--` may stand before it.",
            show_default=False,
        ),
    ],
    backend: Backend = None,
    workspace: Workspace = None,
    cache: Cache = None,
    root: Root = None,
    mount: Mounts = None,
    timeout: Timeout = None,
    env: Env = None,
    workdir: Workdir = "/workspace",
    max_output: Annotated[
        str | None, typer.Option(metavar="SIZE", help="With --json: how much of each stream is kept, such as 64k.")
    ] = None,
    tty: Annotated[bool, typer.Option("--tty", "-t", help="Give the command this terminal.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object at the end, and nothing before.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Run a command in a sandbox of its own.

    The sandbox is made for it and removed afterwards. One word is a text for the shell; several are a program and its
    arguments, which no shell looks at. Output is passed through as it comes. Standard input is passed on when it is a pipe
    or a file.

    The exit code is that of the command; 124 when it ran out of time, 125 for an error of Paddock's own, 130 after Ctrl-C.

    Examples:

    \b
      paddock run --backend local -- python3 -V
      paddock run --backend local 'ls -l | wc -l'
      paddock run --workspace . --timeout 10m -- make test
      paddock run --mount ./data:/data --workdir /data --env LANG --json -- wc -l rows.csv
    """
    with errors_told(as_json):
        order = Order(command, backend, workspace, cache, root, mount, env, workdir)
        limit = setting("timeout").value if timeout is None else seconds(timeout)
        kept = MAX_OUTPUT if max_output is None else size(max_output)
        if as_json and tty:
            raise ConfigError("--json and --tty contradict each other.", hint="Give one of them.")
        if as_json:
            code = wait_for(_reported(order, limit, kept))
        elif tty:
            code = wait_for(on_terminal(order, limit, quiet, hint="Leave out --tty."))
        else:
            code = wait_for(_streamed(order, limit, quiet))
        raise typer.Exit(code)


async def on_terminal(order: Order, limit: float | None, quiet: bool, hint: str) -> int:
    """The command on this terminal; its exit code."""
    from paddock.cli.terminal import converse, need_terminal

    need_terminal(hint)
    async with order.sandbox(TERM=os.environ.get("TERM", "dumb")) as sb:
        _note(sb, quiet)
        async with _limited(limit), await sb.start(order.command, pty=True) as process:
            result = await converse(process)
    return _code(result, quiet)


async def _reported(order: Order, limit: float | None, kept: int) -> int:
    """The command with its output kept, and one object that tells all."""
    async with order.sandbox() as sb:
        result = await sb.exec(
            order.command,
            stdin=streams.piped() if streams.has_input() else None,
            timeout=math.inf if limit is None else limit,
            max_output=kept,
        )
        told = {
            "exit_code": result.exit_code,
            "stdout": result.stdout,
            "stderr": result.stderr,
            "truncated": result.truncated,
            "duration": result.duration,
            "usage": result.usage.to_dict(),
            "limit": result.limit,
            "sandbox": sb.id,
            "backend": sb.backend,
            "isolation": sb.isolation.to_dict(),
        }
    show_json(told)
    return result.exit_code


async def _streamed(order: Order, limit: float | None, quiet: bool) -> int:
    """The command with its streams passed through; its exit code."""
    async with order.sandbox() as sb:
        _note(sb, quiet)
        has_input = streams.has_input()
        async with _limited(limit), await sb.start(order.command, stdin=has_input) as process:
            result = await _pass_through(process, has_input)
    return _code(result, quiet)


async def _pass_through(process: Process, has_input: bool) -> ExecResult:
    import asyncio

    outputs = streams.outputs()
    feeder = asyncio.ensure_future(_feed(process)) if has_input else None
    try:
        async for chunk in process:
            await outputs[chunk.stream].write(chunk.data)
        return await process.wait()
    finally:
        if feeder is not None:
            feeder.cancel()
            await asyncio.wait([feeder])


async def _feed(process: Process) -> None:
    with suppress(BrokenPipeError, SandboxError):  # it ended, or reads no more: how it ended, `wait` says
        async for data in streams.piped():
            await process.write(data)
        await process.close_stdin()


@asynccontextmanager
async def _limited(limit: float | None) -> AsyncIterator[None]:
    """Ends what is inside after a time, with the error that says so."""
    import asyncio

    try:
        async with asyncio.timeout(limit):
            yield
    except TimeoutError:
        if limit is None:  # somebody else's
            raise
        raise ExecTimeoutError(
            f"The command was ended after {limit:g} seconds.", hint="Give it more with --timeout, or 'none'."
        ) from None


def _note(sb: Sandbox, quiet: bool) -> None:
    """Somebody who looks on is told when nothing holds the command."""
    if not quiet and sys.stderr is not None and sys.stderr.isatty() and not sb.isolation.files:
        typer.echo(f"note: '{sb.backend}' does not isolate; the command runs as you, on this machine", err=True)


def _code(result: ExecResult, quiet: bool) -> int:
    if result.limit is not None and not quiet:
        typer.echo(f"note: the limit on {result.limit} ended the command", err=True)
    return result.exit_code
