"""A command that runs in the background."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Literal, Self

from paddock.driver import Running
from paddock.errors import ConfigError
from paddock.types import Chunk, ExecResult

_KILLED = 128 + 9


class Process:
    """A running command. As a context manager it is killed at the end of the block if it still runs."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._limit: str | None = None

    @property
    def pid(self) -> int:
        """Its number in this sandbox, for `Sandbox.process`."""
        return self._running.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended, or None while it runs."""
        return self._running.exit_code

    def __aiter__(self) -> AsyncIterator[Chunk]:
        """The output as it comes, until the command ends."""
        return _Whole(self._running.chunks())

    async def write(self, data: str | bytes) -> None:
        """Send to its standard input (which has to be open: `stdin=True` or a pty)."""
        await self._running.write(data.encode() if isinstance(data, str) else data)

    async def close_stdin(self) -> None:
        """End its standard input."""
        await self._running.close_stdin()

    async def resize(self, rows: int, columns: int) -> None:
        """Tell a pty its size."""
        if not (0 < rows <= 65535 and 0 < columns <= 65535):
            raise ConfigError(f"{rows} by {columns} is not a window size.", hint="Give 1 to 65535 for each.")
        await self._running.resize(rows, columns)

    async def signal(self, number: int) -> None:
        """Send a signal to the command's own process."""
        if not isinstance(number, int) or not 0 < number < 65:
            raise ConfigError(f"{number!r} is not a signal.", hint="Such as signal.SIGTERM.")
        await self._running.signal(int(number))

    async def kill(self) -> None:
        """End its whole tree; returns when nothing of it is left."""
        await self._running.kill()

    async def wait(self) -> ExecResult:
        """How it ended and the output that was kept."""
        result = await self._running.wait()
        killed = self._limit is not None and result.exit_code == _KILLED
        return replace(result, limit=self._limit) if killed else result

    def _ends_by(self, limit: str) -> None:
        """The sandbox is about to be closed for this, and the command with it."""
        if self.exit_code is None:
            self._limit = limit

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: Any) -> None:
        if self.exit_code is None:
            await self.kill()
        await self.wait()


class _Whole(AsyncIterator[Chunk]):
    """Pieces whose texts do not cut a character in two, wherever the bytes were cut. The bytes are as they came."""

    def __init__(self, chunks: AsyncIterator[Chunk]) -> None:
        self._chunks = chunks
        self._tails: dict[Literal["stdout", "stderr"], bytes] = {"stdout": b"", "stderr": b""}

    async def __anext__(self) -> Chunk:
        try:
            chunk = await anext(self._chunks)
        except StopAsyncIteration:
            return self._last()
        carried = self._tails[chunk.stream]
        end = (carried + chunk.data)[-_LONGEST:] if len(chunk.data) < _LONGEST else chunk.data[-_LONGEST:]
        held = _unfinished(end)
        if not held and not carried:
            return chunk
        self._tails[chunk.stream] = end[len(end) - held :]
        return Chunk(chunk.stream, chunk.data, carried, held)

    def _last(self) -> Chunk:
        for stream, tail in self._tails.items():
            if tail:
                self._tails[stream] = b""
                return Chunk(stream, b"", tail)
        raise StopAsyncIteration


_LONGEST = 4


def _unfinished(data: bytes) -> int:
    """How many bytes at the end are the beginning of a character whose rest is still to come."""
    for count, byte in enumerate(reversed(data[-_LONGEST + 1 :]), 1):
        if byte & 0xC0 != 0x80:  # the first byte of one, or a character of its own
            needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return count if needed > count else 0
    return 0
