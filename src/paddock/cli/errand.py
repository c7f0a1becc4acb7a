"""A command in a sandbox, its streams passed through: what `run`, `shell` and `exec` have in common."""

import math
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import typer

from paddock.cli import streams
from paddock.cli.around import connected, exposed, kept_for_later, kept_if_cut_off, note, reviewed
from paddock.cli.ending import show_json
from paddock.errors import ExecTimeoutError, SandboxError
from paddock.sandbox import Creation, Process
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
    async with errand.place as sb, connected(sb, errand.connector):
        note(sb, errand.quiet)
        async with (
            exposed(sb, errand.expose),
            reviewed(sb, errand.review, errand.quiet),
            _limited(errand.limit),
            await sb.start(errand.command, cwd=errand.cwd, env=errand.env, pty=True) as process,
        ):
            result = await converse(process)
    return _code(result, errand.quiet)


async def reported(errand: Errand, kept: int) -> int:
    """The command with its output kept, and one object that tells all."""
    place, review = errand.place, errand.review
    async with place as sb, connected(sb, errand.connector), exposed(sb, errand.expose), kept_if_cut_off(sb, review):
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
            told["review"] = await kept_for_later(sb)
    show_json(told)
    return result.exit_code


async def streamed(errand: Errand) -> int:
    """The command with its streams passed through; its exit code."""
    async with errand.place as sb, connected(sb, errand.connector):
        note(sb, errand.quiet)
        has_input = streams.has_input()
        async with (
            exposed(sb, errand.expose),
            reviewed(sb, errand.review, errand.quiet),
            _limited(errand.limit),
            await sb.start(errand.command, cwd=errand.cwd, env=errand.env, stdin=has_input) as process,
        ):
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


def _code(result: ExecResult, quiet: bool) -> int:
    if result.limit is not None and not quiet:
        typer.echo(f"note: the limit on {result.limit} ended the command", err=True)
    return result.exit_code
