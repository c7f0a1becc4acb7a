"""Commands that are Python functions, run as if they were processes."""

import inspect
import io
import threading
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from paddock.driver import CommandFiles, Spawn
from paddock.errors import UnsupportedError
from paddock.types import Chunk, ExecResult, ProcessInfo

Returned = ExecResult | int | str | bytes | None
Stream = Literal["stdout", "stderr"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a command: what it was given, and where its output goes."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    files: CommandFiles
    """The sandbox's files, with the same rules as for the caller."""
    stdin: io.BytesIO
    """All of standard input."""
    emit: Callable[[Stream, bytes], None] = field(repr=False)

    def print(self, *values: object, stream: Stream = "stdout", end: str = "\n") -> None:
        """Print to the command's own output."""
        if stream not in ("stdout", "stderr"):
            raise ValueError(f"a command prints to stdout or stderr, and not to {stream!r}")
        self.emit(stream, (" ".join(map(str, values)) + end).encode("utf-8", "surrogateescape"))


CommandFunction = Callable[[Call], Returned | Awaitable[Returned]]
"""Returns an exit code, or text for standard output (exit code 0), or a whole `ExecResult`; None is exit code 0.

A plain function runs in a thread and cannot be stopped; an async one is cancelled when the command is killed.
"""


def _without_stop_iteration(function: "CommandFunction", call: "Call") -> Any:
    try:
        return function(call)
    except StopIteration as error:  # which a future cannot carry
        raise RuntimeError("the command raised StopIteration") from error


def not_found(known: list[str]) -> CommandFunction:
    """What runs when no function has the command's name: the same answer as a shell's."""

    def missing(call: Call) -> int:
        names = ", ".join(known) or "none"
        call.print(f"{call.argv[0]}: command not found (registered commands: {names})", stream="stderr")
        return 127

    return missing


class FunctionRun:
    """One run of a function, with a process's manners: bounded output, a status, a kill that works at once."""

    def __init__(self, pid: int, function: CommandFunction, argv: tuple[str, ...], command: Spawn) -> None:
        import asyncio

        self.pid = pid
        self.info = ProcessInfo(pid, argv, time.time())
        self._function = function
        self._command = command
        self._argv = argv
        self._started = time.monotonic()
        self._input = bytearray()
        self._kept: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._truncated = False
        self._chunks: list[Chunk] = []
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._news = asyncio.Event()
        self._result: asyncio.Future[ExecResult] = self._loop.create_future()
        self._stdin_closed = asyncio.Event()
        if not command.stdin:
            self._stdin_closed.set()
        self._task = self._loop.create_task(self._run())

    @property
    def exit_code(self) -> int | None:
        return self._result.result().exit_code if self._result.done() else None

    def when_done(self, action: Callable[[], object]) -> None:
        """Call `action` when it has ended."""
        self._result.add_done_callback(lambda _: action())

    async def chunks(self) -> AsyncIterator[Chunk]:
        position = 0
        while True:
            while position < len(self._chunks):
                position += 1
                yield self._chunks[position - 1]
            if self._result.done():
                return
            self._news.clear()
            await self._news.wait()

    async def write(self, data: bytes) -> None:
        if self._stdin_closed.is_set():
            raise BrokenPipeError("standard input is closed")
        self._input += data

    async def close_stdin(self) -> None:
        self._stdin_closed.set()

    async def resize(self, rows: int, columns: int) -> None:
        raise UnsupportedError("The backend 'memory' has no terminals.", backend="memory", capability="pty")

    async def signal(self, number: int) -> None:
        self._end(128 + number)

    async def kill(self) -> None:
        self._end(128 + 9)

    async def wait(self) -> ExecResult:
        import asyncio

        return await asyncio.shield(self._result)

    async def _run(self) -> None:
        await self._stdin_closed.wait()
        call = Call(
            argv=self._argv,
            cwd=self._command.cwd,
            env=self._command.env,
            files=self._command.files,
            stdin=io.BytesIO(bytes(self._input)),
            emit=self._emit,
        )
        try:
            self._finish(await self._call(call))
            return
        except SystemExit as leave:
            returned = leave.code if isinstance(leave.code, int) else int(bool(leave.code))
            if isinstance(leave.code, str):
                self._take("stderr", f"{leave.code}\n".encode())
        except Exception:  # noqa: BLE001 - a program that crashes is a result too
            self._take("stderr", traceback.format_exc().encode())
            returned = 1
        except BaseException:
            self._end(1)  # nobody waits in vain, whatever it raised
            raise
        self._finish(returned)

    async def _call(self, call: Call) -> Returned:
        import asyncio

        if inspect.iscoroutinefunction(self._function):
            result: Returned = await self._function(call)
            return result
        value: Any = await asyncio.to_thread(_without_stop_iteration, self._function, call)
        returned: Returned = await value if inspect.isawaitable(value) else value
        return returned

    def _emit(self, stream: Stream, data: bytes) -> None:
        """Output from the function, in whatever thread it runs."""
        if threading.get_ident() == self._thread:
            self._take(stream, bytes(data))
        else:
            self._loop.call_soon_threadsafe(self._take, stream, bytes(data))

    def _take(self, stream: Stream, data: bytes) -> None:
        room = self._command.max_output - len(self._kept[stream])
        self._truncated = self._truncated or len(data) > room
        if room > 0 and not self._result.done():
            self._kept[stream] += data[:room]
            self._chunks.append(Chunk(stream, data[:room]))
            self._news.set()

    def _finish(self, returned: Returned) -> None:
        if isinstance(returned, ExecResult):
            self._take("stdout", returned.stdout_bytes)
            self._take("stderr", returned.stderr_bytes)
            self._end(returned.exit_code)
        elif isinstance(returned, (str, bytes)):
            text = returned.encode("utf-8", "surrogateescape") if isinstance(returned, str) else returned
            self._take("stdout", text)
            self._end(0)
        elif returned is None or isinstance(returned, int):
            self._end(int(returned or 0) & 0xFF)
        else:
            raise TypeError(f"a command returns an int, text, bytes, None or an ExecResult, and not {returned!r}")

    def _end(self, exit_code: int) -> None:
        if self._result.done():
            return
        self._result.set_result(
            ExecResult(
                exit_code=exit_code,
                stdout_bytes=bytes(self._kept["stdout"]),
                stderr_bytes=bytes(self._kept["stderr"]),
                truncated=self._truncated,
                duration=time.monotonic() - self._started,
            )
        )
        self._task.cancel()
        self._news.set()
