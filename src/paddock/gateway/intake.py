"""What all requests of a sandbox together may take of the host: its memory, and its time. Others have a right to both."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from paddock.driver import Connection
from paddock.errors import LimitReachedError, TooLargeError
from paddock.gateway.translate import values_in

if TYPE_CHECKING:
    from paddock.bridge.share import Share
    from paddock.http.server import Exchange

MAX_BODY = 32 << 20
"""As much as Anthropic takes."""
MOST_HELD = 256 << 20
"""Bytes, about, that the requests of a sandbox take while they run."""
MOST_VALUES = 1 << 18
"""In one request: each becomes an object, and all are read at once."""
_SMALL = 64 << 10
"""What is smaller is always let in: there is a bound on their number."""
_VALUE = 64
_READ = 8 << 10


class Intake:
    """One sandbox's."""

    def __init__(self) -> None:
        from paddock.bridge.share import Share

        self.share = Share()
        self.held = 0

    @contextmanager
    def holding(self) -> Iterator["Held"]:
        """For as long as one request runs."""
        held = Held(self)
        try:
            yield held
        finally:
            self.held -= held.size


class Held:
    """What one request takes."""

    def __init__(self, intake: Intake) -> None:
        self.size = 0
        self._intake = intake

    def add(self, size: int) -> None:
        """So much more; a `LimitReachedError` if there is no room for it now."""
        self.size += size
        self._intake.held += size
        if self.size > _SMALL and self._intake.held > MOST_HELD:
            raise LimitReachedError("The requests that run here are too large together.", limit="memory")

    async def body(self, exchange: "Exchange") -> bytes:
        """All of a request's body."""
        found = bytearray()
        async for chunk in exchange.chunks():
            found += chunk
            self.add(len(chunk))
            if len(found) > MAX_BODY:
                raise TooLargeError(f"The request has more than {MAX_BODY} bytes.", hint="Send less.")
        values = values_in(found)
        if values > MOST_VALUES:
            raise TooLargeError(f"The request has more than {MOST_VALUES} values.", hint="Send less.")
        self.add(_VALUE * values)
        return bytes(found)


class Paced:
    """A connection whose reader takes turns with all others of its sandbox."""

    def __init__(self, connection: Connection, share: "Share") -> None:
        self._connection = connection
        self._share = share
        self._data = b""

    async def read(self, size: int = _READ) -> bytes:
        """What was read waits here for its turn: whoever is cancelled meanwhile finds it again."""
        if not self._data:
            self._data = await self._connection.read(min(size, _READ))
        await self._share.turn()
        data, self._data = self._data, b""
        return data

    async def write(self, data: bytes) -> None:
        await self._connection.write(data)

    async def end(self) -> None:
        await self._connection.end()

    def close(self) -> None:
        self._connection.close()

    def abort(self) -> None:
        self._connection.abort()
