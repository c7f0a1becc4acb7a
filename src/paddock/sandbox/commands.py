"""What a command is given, how long it is waited for, and what is said of it."""

import builtins
import math
import os
import re
import shlex
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence

from paddock import paths
from paddock.driver import HOME
from paddock.errors import ConfigError, ExecTimeoutError, SandboxError, visible
from paddock.sandbox.files import Files, amount
from paddock.sandbox.process import Process
from paddock.types import ExecResult

Command = str | Sequence[str]
Environment = Mapping[str, str] | Iterable[str]
Stdin = str | bytes | AsyncIterable[bytes]

_PROGRAM = re.compile(r"[\w./+-]{1,255}")
_QUOTED = re.compile(r"[\"'\\]")
PATH = "/usr/local/bin:/usr/bin:/bin"
_BASE = {
    "PATH": PATH,
    "HOME": HOME,
    "USER": "agent",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}


def words(command: Command) -> tuple[tuple[str, ...], bool]:
    """The command as words, and whether they are one text for a shell."""
    if isinstance(command, str):
        given: tuple[str, ...] = (command,)
    elif isinstance(command, Sequence) and not isinstance(command, (bytes, bytearray)):
        given = tuple(command)
    else:
        given = ()
    if not given or not all(_is_word(word) for word in given) or not given[0].strip():
        raise ConfigError(
            "A command is a text for the shell, or a list of words.", hint='Such as "ls -l" or ["ls", "-l"].'
        )
    return given, isinstance(command, str)


def _is_word(word: object) -> bool:
    """Whether the kernel can be given this as a text."""
    if not isinstance(word, str) or "\0" in word:
        return False
    try:
        os.fsencode(word)
    except UnicodeEncodeError:
        return False
    return True


def environment(*layers: Environment | None) -> dict[str, str]:
    """The whole environment of a command, from nothing; later layers win."""
    result = dict(_BASE)
    for layer in layers:
        result.update(named(layer))
    return result


def named(env: Environment | None) -> dict[str, str]:
    """A mapping as it is; names alone are taken from this host's environment, and skipped when they are not set there."""
    if env is None:
        return {}
    if isinstance(env, str) or not isinstance(env, Iterable):
        raise ConfigError("env= is a mapping or a list of names.", hint='Such as {"DEBUG": "1"} or ["LANG"].')
    values = dict(env) if isinstance(env, Mapping) else {n: os.environ[n] for n in _names(env) if n in os.environ}
    for name, value in values.items():
        if not _is_word(name) or not _is_word(value) or not name or "=" in name:
            raise ConfigError(f"The environment variable {name!r} cannot be set.", hint="Names and values are text.")
    return values


def _names(env: Iterable[str]) -> Iterator[str]:
    for name in env:
        if not isinstance(name, str):
            raise ConfigError(f"{name!r} is not the name of a variable.", hint='Such as env=["LANG"].')
        yield name


class CommandView:
    """The files as a command that is a Python function sees them: relative paths start at its own directory."""

    def __init__(self, files: Files, cwd: str) -> None:
        self._files = files
        self._cwd = cwd

    def read(self, path: str) -> str:
        return self.read_bytes(path).decode()

    def read_bytes(self, path: str) -> bytes:
        full = self._full(path)
        with self._files.open(full) as reader:
            return reader.read(amount(reader, full, 0, None))

    def write(self, path: str, content: str | bytes, *, mode: int | None = None) -> None:
        self._files.write(self._full(path), content.encode() if isinstance(content, str) else content, mode)

    def list(self, path: str = ".") -> builtins.list[str]:
        return self._files.list(self._full(path))

    def exists(self, path: str) -> bool:
        return self._files.exists(self._full(path))

    def delete(self, path: str, *, recursive: bool = False) -> None:
        self._files.delete(self._full(path), recursive=recursive)

    def _full(self, path: str) -> str:
        return paths.normalise(path, self._cwd)


async def finish(process: Process, stdin: Stdin | None, timeout: float) -> ExecResult:
    """Wait for a command; if it runs out of time or the caller goes away, its whole tree is ended first."""
    import asyncio

    try:
        async with asyncio.timeout(None if timeout == math.inf else timeout):
            return await (process.wait() if stdin is None else _fed(process, stdin))
    except TimeoutError as error:
        if isinstance(error, SandboxError):
            raise
        await _end(process)
        raise ExecTimeoutError(
            f"The command was ended after {timeout:g} seconds.", result=await process.wait()
        ) from None
    except BaseException:
        await _end(process)
        raise


async def _end(process: Process) -> None:
    """Kill it and wait until nothing is left, however often the caller is cancelled meanwhile."""
    import asyncio

    killing, cancelled = asyncio.ensure_future(process.kill()), False
    while not killing.done():
        try:
            await asyncio.wait([killing])
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        killing.exception()  # looked at: the cancellation counts for more
        raise asyncio.CancelledError
    killing.result()


async def _fed(process: Process, stdin: Stdin) -> ExecResult:
    """Wait for a command that is given input meanwhile."""
    import asyncio

    feeder = asyncio.ensure_future(_feed(process, stdin))
    waiter = asyncio.ensure_future(process.wait())
    try:
        await asyncio.wait({waiter, feeder}, return_when=asyncio.FIRST_COMPLETED)
        if feeder.done():
            feeder.result()  # what the caller's own iterable raised, if it did
        return await waiter
    finally:
        for task in (waiter, feeder):
            task.cancel()
        await asyncio.wait({waiter, feeder})


async def _feed(process: Process, stdin: Stdin) -> None:
    try:
        if isinstance(stdin, (str, bytes)):
            await process.write(stdin.encode() if isinstance(stdin, str) else stdin)
        else:
            async for part in stdin:
                if not isinstance(part, bytes):
                    raise ConfigError("The parts of stdin= are bytes.", hint="Encode text first.")
                await process.write(part)
        await process.close_stdin()
    except BrokenPipeError:
        pass  # it ended, or closed its standard input, without reading all of it


def program(command: Command) -> str | None:
    """The program a command begins with: its arguments and variables may hold secrets, and stay out of the log."""
    try:
        argv, shell = words(command)
        first = _split(argv[0]) if shell else list(argv)
    except ValueError:
        return None
    while shell and first and "=" in first[0]:
        first = first[1:]
    return first[0] if first and _PROGRAM.fullmatch(first[0]) else None


def _split(text: str) -> list[str]:
    return shlex.split(text) if _QUOTED.search(text) else text.split()


def last_words(result: ExecResult) -> str:
    last = result.stderr.strip().splitlines()[-1:] or ["nothing"]
    return f"Its last words on standard error: {visible(last[0][:500])}"
