"""Listening on the loopback, and serving HTTP to whoever connects."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.http.server import Handle


class StreamConnection:
    """A TCP connection as `paddock.http` wants it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self, size: int = 65_536) -> bytes:
        """The next bytes."""
        return await self._reader.read(size)

    async def write(self, data: bytes) -> None:
        """Send all of it."""
        self._writer.write(data)
        await self._writer.drain()

    async def end(self) -> None:
        """Send no more."""
        self._writer.write_eof()

    def close(self) -> None:
        """Let go of it."""
        self._writer.close()

    async def closed(self) -> None:
        """Return when the rest has been sent."""
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    def abort(self) -> None:
        """Cut it off."""
        self._writer.transport.abort()


class LoopbackServer:
    """Serves while it is open; the end cuts off whoever is still connected."""

    def __init__(self, server: asyncio.Server, tasks: set[asyncio.Task[None]]) -> None:
        self._server = server
        self._tasks = tasks

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        """End it."""
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


async def listen(handle: "Handle") -> LoopbackServer:
    """A server at a port that is free."""
    from paddock.http.server import serve

    tasks: set[asyncio.Task[None]] = set()

    async def attend(connection: StreamConnection) -> None:
        try:
            await serve(connection, handle)
            connection.close()
            await connection.closed()
        except BaseException:
            connection.abort()
            raise

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(attend(StreamConnection(reader, writer)))
        tasks.add(task)  # at once: one that has only just come is ended, too
        task.add_done_callback(tasks.discard)

    return LoopbackServer(await asyncio.start_server(accept, "127.0.0.1", 0), tasks)
