"""TLS over any connection, in memory: towards a client inside, or towards a server."""

import asyncio
import ssl
from contextlib import suppress

from paddock.driver import Connection
from paddock.http.server import Turns

_READ = 64 << 10
_PIECE = 64 << 10


class TlsConnection:
    """A connection whose bytes are encrypted on the way. It has the calls of `paddock.driver.Connection`."""

    def __init__(self, connection: Connection, context: ssl.SSLContext, name: str | None = None) -> None:
        """With the name of a server we are the client, without one we are the server."""
        self._connection = connection
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=name is None, server_hostname=name)
        self._sending = asyncio.Lock()
        self._turns = Turns()

    async def begin(self) -> None:
        """The handshake: `ssl.SSLError` if there is no agreement."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._send()
                await self._receive()
            except ssl.SSLError:
                with suppress(OSError):
                    await self._send()  # the other side is told why
                raise
            else:
                return await self._send()

    async def read(self, size: int = _READ) -> bytes:
        """See `Connection`."""
        await self._turns.give_way()  # before: what has been read must not be lost
        while True:
            try:
                return self._tls.read(size)
            except ssl.SSLWantReadError:
                await self._send()
                await self._receive()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""
            except ssl.SSLError as error:
                raise ConnectionResetError(error.reason or "TLS failed") from None

    async def write(self, data: bytes) -> None:
        """See `Connection`."""
        for at in range(0, len(data), _PIECE):
            try:
                self._tls.write(data[at : at + _PIECE])
            except ssl.SSLError as error:
                raise ConnectionResetError(error.reason or "TLS failed") from None
            await self._send()

    async def end(self) -> None:
        """See `Connection`. TLS itself says so first."""
        with suppress(ssl.SSLError):
            self._tls.unwrap()
        with suppress(ConnectionError):
            await self._send()
        await self._connection.end()

    def close(self) -> None:
        """See `Connection`."""
        self._connection.close()

    def abort(self) -> None:
        """See `Connection`."""
        self._connection.abort()

    async def _send(self) -> None:
        async with self._sending:
            if data := self._outgoing.read():
                await self._connection.write(data)

    async def _receive(self) -> None:
        if data := await self._connection.read(_READ):
            self._incoming.write(data)
        else:
            self._incoming.write_eof()


def to_servers() -> ssl.SSLContext:
    """For servers outside, with the certificates that this host trusts."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
