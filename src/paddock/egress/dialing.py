"""Connecting to an address that was looked at, and to no other."""

import asyncio
import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice

from paddock.types.addresses import Address

MOST_TRIED = 16
_CUT_OFF = struct.pack("ii", 1, 0)


class Upstream:
    """A connection to another machine, with the calls of `paddock.driver.Connection`."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._loop = asyncio.get_running_loop()

    async def read(self, size: int = 65_536) -> bytes:
        """See `Connection`."""
        try:
            return await self._loop.sock_recv(self._socket, size)
        except OSError as error:
            raise _broken(error) from None

    async def write(self, data: bytes) -> None:
        """See `Connection`."""
        try:
            await self._loop.sock_sendall(self._socket, data)
        except OSError as error:
            raise _broken(error) from None

    async def end(self) -> None:
        """See `Connection`."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """See `Connection`; nobody may be reading or writing."""
        self._socket.close()

    def abort(self) -> None:
        """See `Connection`; nobody may be reading or writing."""
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _CUT_OFF)
        self._socket.close()


def _broken(error: OSError) -> ConnectionError:
    return error if isinstance(error, ConnectionError) else ConnectionResetError(*error.args)


async def dial(addresses: Iterable[Address], port: int, seconds: float) -> Upstream:
    """The first of these that answers: `OSError` if none does, `TimeoutError` if that is not known in time."""
    failed: OSError = ConnectionRefusedError("no address")
    async with asyncio.timeout(seconds):
        for address in islice(addresses, MOST_TRIED):
            try:
                return await _dialled(address, port)
            except TimeoutError:
                failed = ConnectionRefusedError("no answer")  # the kernel gave up, and not we
            except OSError as error:
                failed = error
    raise failed


async def _dialled(address: Address, port: int) -> Upstream:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(sock, (str(address), port))
    except BaseException:
        sock.close()
        raise
    return Upstream(sock)
