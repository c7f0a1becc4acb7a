"""One command under a supervisor."""

import errno
import os
import signal
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING

from paddock.backends.supervised.blame import Blame
from paddock.backends.supervised.output import Output, Stream
from paddock.backends.supervised.streams import FrameStreams, Streams, TerminalStreams
from paddock.errors import (
    ClosedError,
    ConfigError,
    ConflictError,
    LimitReachedError,
    NotFoundError,
    PermissionDeniedError,
    SandboxDiedError,
    SandboxError,
    UnsupportedError,
)
from paddock.types import Chunk, ExecResult, Usage
from paddock.wire.channel import SECONDS_TO_ANSWER, Channel
from paddock.wire.fields import Fields, Malformed, read_failure
from paddock.wire.frames import Frame, Reply, Request, Stage

if TYPE_CHECKING:
    import asyncio

_SECONDS_TO_KILL = 30.0
_ENDED = struct.Struct("<IIQQQ")
_STREAMS: dict[bytes, Stream] = {b"\1": "stdout", b"\2": "stderr"}


class CommandRun:
    """A command from its start to the end of its tree, as the supervisor tells of it."""

    blocking = False

    def __init__(
        self,
        channel: Channel,
        id: int,
        words: tuple[str, ...],
        output: Output,
        streams: Streams,
        blame: Blame,
        hits_before: Mapping[str, int],
        *,
        background: bool,
    ) -> None:
        self.id = id
        self.words = words
        self.pid = 0
        self._channel = channel
        self._output = output
        self._streams = streams
        self._blame = blame
        self._hits_before = hits_before
        self._result: ExecResult | None = None
        self._error: SandboxError | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._started = False
        self._since = perf_counter()
        self._killing = False
        self._gone = False
        self._background = background
        self._when_ended: Callable[[], object] = _nothing
        output.on_caught_up = streams.resume
        output.on_left = self._resume_later
        channel.listen(id, self)

    @property
    def exit_code(self) -> int | None:
        return None if self._result is None else self._result.exit_code

    @property
    def running(self) -> bool:
        """Whether it was not seen to end."""
        return self._result is None and self._error is None

    def chunks(self) -> AsyncIterator[Chunk]:
        return self._output.read()

    async def write(self, data: bytes) -> None:
        await self._streams.write(data)

    async def close_stdin(self) -> None:
        await self._streams.close_stdin()

    async def resize(self, rows: int, columns: int) -> None:
        self._streams.resize(rows, columns)

    async def signal(self, number: int) -> None:
        if self.running:
            self._channel.send(Request.SIGNAL, self.id, bytes([number]))

    async def kill(self) -> None:
        import asyncio

        if isinstance(self._error, ConflictError):
            raise self._error
        if self._gone or self._channel.error is not None:
            return
        self._killing = True
        self._channel.listen(self.id, self)
        self._channel.send(Request.KILL, self.id)
        try:
            async with asyncio.timeout(_SECONDS_TO_KILL):
                while not self._gone and self._channel.error is None:
                    await self._news()
        except TimeoutError:
            await self._why_alive()
        if isinstance(self._error, (PermissionDeniedError, ConflictError)):
            raise self._error

    async def _why_alive(self) -> None:
        """It was not ended in time: because of the supervisor, which is found out by asking it, or of the command."""
        await self._channel.ask(Request.PROCESSES)
        raise PermissionDeniedError(
            "A process of the command could not be ended: the kernel holds it, or it left the command's cgroup.",
            hint="Look at it on the host, or close the sandbox.",
        )

    async def started(self, *, or_kill: bool) -> None:
        """It runs, or has ended; what kept it from starting is raised. If nobody waits any more, kill it, or let it be."""
        import asyncio

        try:
            async with asyncio.timeout(SECONDS_TO_ANSWER):
                while not self._started and self.running:
                    await self._news()
        except TimeoutError:
            raise self._channel.fail(Malformed("it does not answer")) from None
        except BaseException:
            if or_kill:
                self._channel.send(Request.KILL, self.id)
            raise
        if self._error is not None:
            raise self._error

    def begin(self) -> None:
        """Whoever started it has it now, and may read from the beginning on."""
        self._output.held = False
        self._streams.resume()

    def leave(self) -> None:
        """It is nobody's from now on, unless it could not be run at all."""
        if self.running:
            self._error = ConflictError("The command was left to itself.", hint="Call process() with its pid.")
            self._gone = True
            self._channel.forget(self.id)
            self._finish()
            self._tell()

    async def wait(self) -> ExecResult:
        while self._result is None:
            if self._error is not None:
                raise self._error
            await self._news()
        return self._result

    def when_ended(self, action: Callable[[], object]) -> None:
        """Call `action` when the command itself has ended, or now if it has."""
        self._when_ended = action if self.running else _nothing
        if not self.running:
            action()

    def _resume_later(self) -> None:
        """A reader is gone, which any thread may find out."""
        with suppress(RuntimeError):  # the loop is closed
            self._channel.loop.call_soon_threadsafe(self._output.caught_up)

    async def _news(self) -> None:
        future = self._channel.loop.create_future()
        self._waiters.append(future)
        await future

    def _tell(self) -> None:
        waiters, self._waiters = self._waiters, []
        for future in waiters:
            if not future.done():
                future.set_result(None)

    # What the supervisor says

    def frame(self, frame: Frame) -> None:
        if frame.type == Reply.ENDED:
            self._ended(frame.payload)
        elif frame.type == Reply.OUTPUT and isinstance(self._streams, FrameStreams):
            self._streams.received(_stream(frame.payload[:1]), frame.payload[1:])
        elif frame.type == Reply.WINDOW and isinstance(self._streams, FrameStreams):
            self._streams.granted(_u32(frame.payload))
        elif frame.type == Reply.STARTED:
            self._began(frame)
        elif frame.type == Reply.GONE:
            if self.running:
                raise Malformed("a command is gone that has not ended")
            self._gone = True
            self._channel.forget(self.id)
            self._tell()
        elif frame.type == Reply.FAILED:
            self._failed(frame.payload)
        else:
            for fd in frame.fds:
                os.close(fd)
            raise Malformed("an answer is of the wrong type")

    def lost(self, error: SandboxDiedError) -> None:
        if self.running:
            self._finish()
            if not self._channel.closing:
                self._error = error
            elif self._background and not self._channel.ends_sandbox:
                self._error = ClosedError("The connection was closed, and the command runs on.", hint="Connect again.")
            else:  # which killed it
                self._result = self._kept(128 + signal.SIGKILL, perf_counter() - self._since, Usage())
        self._tell()

    def _began(self, frame: Frame) -> None:
        wanted = isinstance(self._streams, TerminalStreams) and not self._started and self.running
        if not wanted or len(frame.fds) != 1 or not os.isatty(frame.fds[0]):
            for fd in frame.fds:
                os.close(fd)
            if wanted or frame.fds:
                raise Malformed("a command starts without its terminal, or with what is none")
        self.pid = _u32(frame.payload)
        if isinstance(self._streams, TerminalStreams) and wanted:
            self._streams.open(frame.fds[0])
        self._started = True
        self._tell()

    def _ended(self, payload: bytes) -> None:
        if len(payload) != _ENDED.size:
            raise Malformed("the end of a command has fields that it should not, or lacks some")
        self.pid, exit_code, cpu, memory, duration = _ENDED.unpack(payload)
        self._once()
        self._read_rest()
        limit = None if self._killing else self._blame.limit(exit_code, self._hits_before)
        self._result = self._kept(exit_code, duration / 1e6, Usage(cpu / 1e6, memory), limit)
        if not self._killing:
            self._channel.forget(self.id)
        self._tell()
        if self._background:
            self._let_go()
        else:  # after whoever waits for it, and perhaps sends the next command
            self._channel.loop.call_soon(self._let_go)

    def _failed(self, payload: bytes) -> None:
        code, stage = read_failure(payload)
        if stage == Stage.NONE and code == errno.EPIPE:
            if isinstance(self._streams, FrameStreams):
                self._streams.broken()
            return
        if stage == Stage.NONE and code in _NOT_OURS:
            self._once()
            self._gone, self._error = True, _NOT_OURS[code]()
            self._finish()
        elif stage == Stage.NONE:  # it could not be killed
            self._gone, unended = True, self.running
            self._error = self._error or PermissionDeniedError(
                "A process of the command runs as another user and cannot be ended.",
                hint="End it yourself, or use a backend that isolates processes.",
            )
            if unended:  # nothing more is heard of it
                self._finish()
        elif stage == Stage.PROGRAM and code in _NOT_RUN:
            self._once()
            exit_code, words = _NOT_RUN[code]
            self._output.take("stderr", f"paddock: {self.words[0]}: {words}\n".encode("utf-8", "replace"))
            self._finish()
            self._result = self._kept(exit_code, 0.0, Usage())
        else:
            self._once()
            terminal = isinstance(self._streams, TerminalStreams)
            if terminal and code == errno.ETOOMANYREFS:  # it runs: only what we were to have of it could not be sent
                self._channel.send(Request.KILL, self.id)
            self._error = _why_not(code, stage, terminal=terminal)
            self._finish()
        if not self._killing or self._gone:
            self._channel.forget(self.id)
        self._tell()

    def _once(self) -> None:
        if not self.running:
            raise Malformed("a command ends twice")

    def _finish(self) -> None:
        self._read_rest()
        self._let_go()

    def _read_rest(self) -> None:
        self._streams.finish()
        self._output.end()

    def _let_go(self) -> None:
        self._streams.close()
        self._when_ended()
        self._when_ended = self._output.on_caught_up = self._output.on_left = (
            _nothing  # nothing points in a circle: memory is free at once
        )

    def _kept(self, exit_code: int, duration: float, usage: Usage, limit: str | None = None) -> ExecResult:
        output = self._output
        stdout, stderr = output.kept("stdout"), output.kept("stderr")
        return ExecResult(exit_code, stdout, stderr, output.truncated, duration, usage, limit)


def _nothing() -> None:
    pass


_NOT_RUN = {
    errno.ENOENT: (127, "command not found"),
    errno.ENOTDIR: (127, "command not found"),
    errno.ELOOP: (127, "command not found"),
    errno.ENAMETOOLONG: (127, "command not found"),
    errno.EACCES: (126, "permission denied"),
    errno.EPERM: (126, "permission denied"),
    errno.ENOEXEC: (126, "not a program for this machine"),
    errno.EISDIR: (126, "is a directory"),
    errno.ETXTBSY: (126, "is being written to"),
}
"""A program that cannot be run ends as it would under a shell."""


_LIMITS = {
    errno.EAGAIN: "pids",
    errno.ENOSPC: "pids",
    errno.ENOMEM: "memory",
    errno.EMFILE: "open_files",
    errno.ENFILE: "open_files",
}
"""What was used up when a command could not be started."""

_NOT_OURS: dict[int, Callable[[], SandboxError]] = {
    3: lambda: NotFoundError("The command has ended.", hint="processes() lists those that run."),
    95: lambda: UnsupportedError(
        "What this command prints goes to the connection that started it.", hint="Attach to it there."
    ),
    116: lambda: ConflictError(
        "The command was taken over by another connection.", hint="Attach to it again to take it back."
    ),
}
"""ESRCH, ENOTSUP and ESTALE, by Linux's numbers: it is not there to be attached to, cannot be, or was by somebody else."""


def _stream(number: bytes) -> Stream:
    if number not in _STREAMS:
        raise Malformed("output of no known stream")
    return _STREAMS[number]


def _u32(payload: bytes) -> int:
    fields = Fields(payload)
    value = fields.u32()
    fields.end()
    return value


def _why_not(code: int, stage: int, *, terminal: bool = False) -> SandboxError:
    words = os.strerror(code)
    if terminal and stage == Stage.RESOURCES and code == errno.ENOSPC:
        return LimitReachedError(
            "The command could not be started: there are no more terminals on this host.",
            hint="End commands that have one, or start it without pty=True.",
            limit="terminals",
        )
    if terminal and code == errno.ETOOMANYREFS:
        return LimitReachedError(
            "The command could not be started: the kernel keeps its terminal from us.",
            hint="Another program of this user, perhaps in a sandbox, has sent many descriptors that nobody takes. "
            "End it, or start the command without pty=True.",
            limit="terminals",
        )
    if code in _LIMITS:
        return LimitReachedError(f"The command could not be started: {words}.", limit=_LIMITS[code])
    if stage == Stage.DIRECTORY:
        return NotFoundError("The directory to start in is gone, or cannot be entered.", hint="Look at cwd=.")
    if code in (errno.ETIMEDOUT, errno.EOWNERDEAD):
        return SandboxError(
            "The command could not be started: other processes of the sandbox keep stopping or killing it.",
            hint="End those, or close the sandbox.",
        )
    if code == errno.E2BIG:
        return ConfigError("The command and its environment are too long for this system.", hint="Use stdin or a file.")
    return SandboxError(f"The command could not be started: {words}.", hint="Try again.")
