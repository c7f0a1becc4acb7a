"""The program of an MCP server: messages over its pipes, its own words, and its end with all that it started."""

import asyncio
import errno
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import IO

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from paddock.bridge.grants import McpServer
from paddock.bridge.lines import Lines, TooLongError
from paddock.errors import visible
from paddock.finishing import to_the_end

MOST_LINE = 64 << 20
_PATIENCE = 2.0
"""Seconds to end by itself when its input ends, and again when it is asked to."""
_POLL = 0.01
_READ = 64 << 10
_LAST, _LONGEST = 5, 500
_MOST_LOGGED, _WINDOW = 200, 10.0
_STARTER = Path(__file__).with_name("server_start.py")
_log = logging.getLogger("paddock.bridge")

Received = SessionMessage | Exception


class Program:
    """One that runs. It has a session of its own, and everything in that ends with it."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._last: deque[str] = deque(maxlen=_LAST)
        self._logged, self._since = 0, 0.0
        self.ended = asyncio.Event()
        self.status: int | None = None
        self.patient = False
        """Whether it is there, and so is given time to end by itself."""

    @property
    def words(self) -> str:
        """What it said last on standard error."""
        return " | ".join(self._last)

    @asynccontextmanager
    async def connected(
        self,
    ) -> AsyncIterator[tuple[MemoryObjectReceiveStream[Received], MemoryObjectSendStream[SessionMessage]]]:
        """A transport for the SDK's client; `OSError` if there is no such program."""
        process = self._started()
        tasks: list[asyncio.Task[None]] = []
        try:
            async with AsyncExitStack() as pipes:
                stdin, stdout, stderr = await _opened(process, pipes)
                inward, read = anyio.create_memory_object_stream[Received](0)
                write, outward = anyio.create_memory_object_stream[SessionMessage](0)
                hearing = asyncio.create_task(self._hear(process, stdout, inward))
                listening = asyncio.create_task(self._listen(stderr))
                tasks += [hearing, listening, asyncio.create_task(_say(outward, stdin))]
                tasks.append(asyncio.create_task(self._watch(process, hearing, inward)))
                with inward, read, write, outward:
                    try:
                        yield read, write
                    finally:
                        read.close()
                        stdin.close()
                        await to_the_end(self._end(process))
                        await asyncio.wait([listening], timeout=_PATIENCE / 10)  # its last words
        finally:
            for task in tasks:
                task.cancel()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
            await to_the_end(self._end(process))
            self._wait_for(process)

    def _started(self) -> "subprocess.Popen[bytes]":
        words = list(self._server.server)
        env = get_default_environment() | dict(self._server.env)
        start = os.path.abspath(os.fspath(self._server.cwd or "."))
        named = os.path.join(start, words[0]) if "/" in words[0] else words[0]
        if shutil.which(named, path=env.get("PATH")) is None:
            raise FileNotFoundError(errno.ENOENT, "there is no such program")
        if sys.platform == "linux" and sys.executable:
            words = [sys.executable, "-I", "-S", str(_STARTER), str(os.getpid()), *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            words, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=start, bufsize=0, start_new_session=True
        )

    async def _hear(
        self,
        process: "subprocess.Popen[bytes]",
        stdout: asyncio.StreamReader,
        inward: MemoryObjectSendStream[Received],
    ) -> None:
        """Its messages. When nobody takes them any more they are still read, so that it can end."""
        lines, wanted = Lines(MOST_LINE), True
        while data := await stdout.read(_READ):
            try:
                found = lines.feed(data) if wanted else []
                for line in found:
                    await inward.send(_message(line))
            except (TooLongError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                wanted = False
                inward.close()
        await _ends(process, _PATIENCE / 4)  # which is why its output has ended, most likely
        self._note_end(process)
        inward.close()

    async def _listen(self, stderr: asyncio.StreamReader) -> None:
        """Its own words: the last are kept, all are logged, and a flood of them is not."""
        lines = Lines(_READ)
        while data := await stderr.read(_READ):
            try:
                found = lines.feed(data)
            except TooLongError:
                continue
            for line in found:
                self._heard(line)
        for line in lines.rest():
            self._heard(line)

    def _heard(self, line: bytes) -> None:
        words = visible(line[:_LONGEST].decode(errors="replace").strip())
        self._last.append(words)
        now = time.monotonic()
        if now - self._since > _WINDOW:
            self._logged, self._since = 0, now
        self._logged += 1
        if self._logged <= _MOST_LOGGED:
            _log.info("the MCP server %s: %s", self._server.called, words)
        elif self._logged == _MOST_LOGGED + 1:
            _log.info("the MCP server %s says too much; some of it is left out", self._server.called)

    async def _watch(
        self,
        process: "subprocess.Popen[bytes]",
        hearing: "asyncio.Task[None]",
        inward: MemoryObjectSendStream[Received],
    ) -> None:
        """When it has ended, what it started is ended as well; that may hold its pipes open for ever."""
        await _exit_of(process.pid)
        _kill(process, signal.SIGKILL)
        await asyncio.wait([hearing], timeout=_PATIENCE)
        self._note_end(process)
        inward.close()

    async def _end(self, process: "subprocess.Popen[bytes]") -> None:
        """End it and its session, first by asking if it is there to be asked; idempotent."""
        if process.returncode is not None:
            return
        if self.patient and not await _ends(process, _PATIENCE):
            _kill(process, signal.SIGTERM)
            await _ends(process, _PATIENCE)
        self._note_end(process)
        _kill(process, signal.SIGKILL)
        await _ends(process, _PATIENCE)

    def _note_end(self, process: "subprocess.Popen[bytes]") -> None:
        found = None if process.returncode is not None else _exit(process.pid)
        if found is not None and self.status is None:
            self.status = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
        self.ended.set()

    def _wait_for(self, process: "subprocess.Popen[bytes]") -> None:
        """Its number is another's from here on."""
        if process.poll() is None:
            _log.warning("the program of the MCP server %s cannot be ended", self._server.called)


def _exit(pid: int) -> "os.waitid_result | None":
    """How it ended, if it has. It is not waited for, so that the number stays its own."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)


async def _ends(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while _exit(process.pid) is None:
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_POLL)
    return True


async def _exit_of(pid: int) -> None:
    """Return when it has ended."""
    if not hasattr(os, "pidfd_open"):  # elsewhere than on Linux, the end of its output says so
        await asyncio.Event().wait()
    loop, ended, fd = asyncio.get_running_loop(), asyncio.Event(), os.pidfd_open(pid)
    try:
        loop.add_reader(fd, ended.set)
        await ended.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)


def _kill(process: "subprocess.Popen[bytes]", number: int) -> None:
    """Signal the whole session; its leader was not waited for, so that it is nobody else's."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


async def _opened(
    process: "subprocess.Popen[bytes]", pipes: AsyncExitStack
) -> tuple[asyncio.StreamWriter, asyncio.StreamReader, asyncio.StreamReader]:
    assert process.stdin is not None  # noqa: S101 - they are pipes
    assert process.stdout is not None  # noqa: S101
    assert process.stderr is not None  # noqa: S101
    loop = asyncio.get_running_loop()
    unused = asyncio.StreamReader()
    transport, protocol = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(unused), process.stdin)
    pipes.callback(_let_go, transport)
    stdin = asyncio.StreamWriter(transport, protocol, unused, loop)
    return stdin, await _reader(process.stdout, pipes), await _reader(process.stderr, pipes)


def _let_go(transport: asyncio.WriteTransport) -> None:
    """Close it without waiting for what nobody reads. One that is closing and has nothing left does that itself."""
    if transport.get_write_buffer_size() or not transport.is_closing():
        transport.abort()


async def _reader(pipe: IO[bytes], pipes: AsyncExitStack) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(_READ)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    pipes.callback(transport.close)
    return reader


def _message(line: bytes) -> Received:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _say(outward: MemoryObjectReceiveStream[SessionMessage], stdin: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError, anyio.ClosedResourceError):
        async for item in outward:
            stdin.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await stdin.drain()
    stdin.close()
