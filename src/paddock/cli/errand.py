"""A command in a sandbox, its streams passed through: what `run`, `shell` and `exec` have in common."""

import math
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

import typer

from paddock.cli import streams
from paddock.cli.ending import show_json
from paddock.errors import ExecTimeoutError, SandboxError
from paddock.finishing import to_the_end
from paddock.sandbox import Creation, Process, Sandbox
from paddock.types import ExecResult


@dataclass(frozen=True, slots=True)
class Errand:
    """A command, and the sandbox that it runs in: one that is still to be made, or to be connected to."""

    place: Creation
    command: str | list[str]
    limit: float | None
    quiet: bool = False
    env: Mapping[str, str] | None = None
    cwd: str | None = None
    expose: Sequence[int] = ()
    """Ports inside that are reached from this host while it runs."""
    review: bool = False
    """Whether somebody decides in the end what becomes of what it changed."""
    connector: str | None = None
    """By which it may ask for models."""


def terminal_type() -> str:
    """What kind of terminal this program runs in, for the command that it is lent to."""
    return os.environ.get("TERM", "dumb")


async def on_terminal(errand: Errand, hint: str) -> int:
    """The command on this terminal; its exit code."""
    from paddock.cli.terminal import converse, need_terminal

    need_terminal(hint)
    async with errand.place as sb, _connected(sb, errand):
        _note(sb, errand.quiet)
        start = sb.start(errand.command, cwd=errand.cwd, env=errand.env, pty=True)
        async with _exposed(sb, errand), _reviewed(sb, errand), _limited(errand.limit), await start as process:
            result = await converse(process)
    return _code(result, errand.quiet)


async def reported(errand: Errand, kept: int) -> int:
    """The command with its output kept, and one object that tells all."""
    async with errand.place as sb, _connected(sb, errand), _exposed(sb, errand), _kept_if_cut_off(sb, errand):
        result = await sb.exec(
            errand.command,
            cwd=errand.cwd,
            env=errand.env,
            stdin=streams.piped() if streams.has_input() else None,
            timeout=math.inf if errand.limit is None else errand.limit,
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
        if errand.review:
            told["review"] = await _kept_for_later(sb)
    show_json(told)
    return result.exit_code


async def streamed(errand: Errand) -> int:
    """The command with its streams passed through; its exit code."""
    async with errand.place as sb, _connected(sb, errand):
        _note(sb, errand.quiet)
        has_input = streams.has_input()
        start = sb.start(errand.command, cwd=errand.cwd, env=errand.env, stdin=has_input)
        async with _exposed(sb, errand), _reviewed(sb, errand), _limited(errand.limit), await start as process:
            result = await pass_through(process, has_input)
    return _code(result, errand.quiet)


async def pass_through(process: Process, has_input: bool) -> ExecResult:
    """Join this program's streams and the command's until the command ends."""
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
async def _connected(sb: Sandbox, errand: Errand) -> AsyncIterator[None]:
    """With models to ask, if a connector was named."""
    if errand.connector is None:
        yield
        return
    from paddock.gateway import Gateway

    async with Gateway() as gateway:
        await gateway.attach(sb, errand.connector)
        yield


@asynccontextmanager
async def _exposed(sb: Sandbox, errand: Errand) -> AsyncIterator[None]:
    """Its ports are reached from this host, and where is said before it begins."""
    async with AsyncExitStack() as stack:
        for port in errand.expose:
            endpoint = await stack.enter_async_context(await sb.expose(port))
            typer.echo(f"port {port} inside is {endpoint.url}", err=True)
        yield


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


@asynccontextmanager
async def _reviewed(sb: Sandbox, errand: Errand) -> AsyncIterator[None]:
    """Whatever becomes of the command, what it changed until then is decided about, or kept."""
    from paddock.cli.changes import decide

    if not errand.review:
        yield
        return
    try:
        yield
        await decide(sb.changes, quiet=errand.quiet)
    except ExecTimeoutError:  # its work is not less worth for that
        await decide(sb.changes, quiet=errand.quiet)
        raise
    except BaseException:  # Ctrl-C, a hang-up: nobody is asked, and nothing is lost
        with suppress(SandboxError):
            await to_the_end(_keep(sb))
        raise


@asynccontextmanager
async def _kept_if_cut_off(sb: Sandbox, errand: Errand) -> AsyncIterator[None]:
    """The same for a program, which is told in the end."""
    try:
        yield
    except BaseException:
        if errand.review:
            with suppress(SandboxError):
                await to_the_end(_keep(sb))
        raise


async def _keep(sb: Sandbox) -> None:
    from paddock.cli.changes import keep

    changes = await sb.changes()
    if changes:
        await keep(changes)


async def _kept_for_later(sb: Sandbox) -> dict[str, object]:
    """What was changed, for a program, and where it is kept."""
    changes = await sb.changes()
    kept = await changes.keep() if changes else None
    return {"kept": kept, "digest": changes.digest, "changes": [change.to_dict() for change in changes]}


def _note(sb: Sandbox, quiet: bool) -> None:
    """Somebody who looks on is told when nothing holds the command."""
    if not quiet and sys.stderr is not None and sys.stderr.isatty() and not sb.isolation.files:
        typer.echo(f"note: '{sb.backend}' does not isolate; the command runs as you, on this machine", err=True)


def _code(result: ExecResult, quiet: bool) -> int:
    if result.limit is not None and not quiet:
        typer.echo(f"note: the limit on {result.limit} ended the command", err=True)
    return result.exit_code
