"""Connections with one more property: something read already, or no patience for ever."""

import asyncio

from paddock.driver import Connection


class Ahead:
    """A connection of which some was read already."""

    def __init__(self, connection: Connection, data: bytes = b"") -> None:
        self._connection = connection
        self._data = data
        self.write = connection.write
        self.end = connection.end
        self.close = connection.close
        self.abort = connection.abort

    async def read(self, size: int = 65_536) -> bytes:
        """What there is, before more."""
        if self._data:
            found, self._data = self._data[:size], self._data[size:]
            return found
        return await self._connection.read(size)

    async def exactly(self, size: int) -> bytes:
        """So many bytes; `ConnectionError` if there are fewer."""
        found = b""
        while len(found) < size:
            more = await self.read(size - len(found))
            if not more:
                raise ConnectionResetError("it ended early")
            found += more
        return found


class Patient:
    """A connection that is waited for so long, each time, and not for ever: `TimeoutError`. It counts what passes."""

    def __init__(self, connection: Connection, seconds: float) -> None:
        self._connection = connection
        self._seconds = seconds
        self.end = connection.end
        self.close = connection.close
        self.abort = connection.abort
        self.size = 0

    async def read(self, size: int = 65_536) -> bytes:
        """See `Connection`."""
        async with asyncio.timeout(self._seconds):
            data = await self._connection.read(size)
        self.size += len(data)
        return data

    async def write(self, data: bytes) -> None:
        """See `Connection`."""
        async with asyncio.timeout(self._seconds):
            await self._connection.write(data)
        self.size += len(data)
