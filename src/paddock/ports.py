"""Ports inside, reached from this host: forwarding to one, and waiting until something listens there."""

import errno
import os
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from paddock.driver import Connection, RelayingDriver
from paddock.errors import ConfigError, ExecTimeoutError, NotFoundError, SandboxError
from paddock.types.ports import Endpoint, RelayAddress

if TYPE_CHECKING:
    import asyncio

HOST = "127.0.0.1"
_READ = 64 << 10
_MOST_WAITING = 128
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25
_SECONDS_TO_CONNECT = 1.0
"""What one try is given at the least: nobody who listens answers in no time."""
_SECONDS_TO_STOP = 5.0
SECONDS_TO_ANSWER = 300.0
"""How long a server inside may be silent after its client has ended: that may be gone, and the server may never end."""


async def expose(driver: RelayingDriver, port: int, host_port: int = 0) -> Endpoint:
    """Listen on this host's loopback, at this port or one that is free, and forward every connection to a port inside.

    Nothing has to listen inside yet: a connection that finds nobody there is closed. Other machines cannot get here; other
    users of this host can.
    """
    import asyncio

    RelayAddress.loopback(host_port)  # if it is a port at all
    forwarding = _Forwarding(driver, _inside(port))
    try:
        server = await asyncio.start_server(forwarding.accept, HOST, host_port, limit=_READ, backlog=_MOST_WAITING)
    except OSError as error:
        raise ConfigError(
            f"Port {host_port} of this host cannot be listened at: {os.strerror(error.errno or errno.EADDRINUSE)}.",
            hint="Choose another, or 0 for one that is free.",
        ) from None
    forwarding.server = server
    try:
        forwarding.forget = driver.on_close(forwarding.close)
    except BaseException:
        await forwarding.close()
        raise
    return Endpoint(HOST, server.sockets[0].getsockname()[1], port, forwarding.close)


async def wait_for_port(driver: RelayingDriver, port: int, timeout: float = 30.0) -> None:
    """Return when something inside accepts connections at this port; `ExecTimeoutError` if nothing does in time.

    It is found out by connecting, and what listens there sees a connection that is closed at once.
    """
    import asyncio

    if type(timeout) not in (int, float) or not timeout >= 0:
        raise ConfigError(f"timeout={timeout!r} is not a time.", hint="Give seconds, 0 or more.")
    address, pause, deadline = _inside(port), _FIRST_PAUSE, time.monotonic() + timeout
    while True:
        try:
            async with asyncio.timeout(max(deadline - time.monotonic(), _SECONDS_TO_CONNECT)):
                connection = await driver.connect(address)
        except (NotFoundError, TimeoutError):
            left = deadline - time.monotonic()
            if left <= 0:
                raise ExecTimeoutError(
                    f"Nothing listens at port {port} inside after {timeout:g} seconds.",
                    hint="Look at the output of what should listen, or wait longer with timeout=.",
                ) from None
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 1.5, _LONGEST_PAUSE)
        else:
            connection.close()
            return


def _inside(port: int) -> RelayAddress:
    address = RelayAddress.loopback(port)
    if port == 0:
        raise ConfigError("0 is no port to connect to.", hint="Ports are numbers from 1 to 65535.")
    return address


class _Forwarding:
    """A listener on this host, and the connections that came there."""

    def __init__(self, driver: RelayingDriver, address: RelayAddress) -> None:
        self.server: asyncio.Server | None = None
        self.forget: Callable[[], object] = _nothing
        """Tells the driver that there is nothing to close any more."""
        self._driver = driver
        self._address = address
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def accept(self, reader: "asyncio.StreamReader", writer: "asyncio.StreamWriter") -> None:
        """One more connection."""
        import asyncio

        if self._closed:
            _cut_off(writer)
            return
        task = asyncio.ensure_future(self._forward(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """See `Endpoint`."""
        import asyncio

        if self._closed:
            return
        self._closed = True
        self.forget()
        if self.server is not None:
            self.server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_SECONDS_TO_STOP)

    async def _forward(self, reader: "asyncio.StreamReader", writer: "asyncio.StreamWriter") -> None:
        try:
            inside = await self._driver.connect(self._address)
        except SandboxError:
            writer.close()
            return
        except BaseException:
            _cut_off(writer)
            raise
        try:
            await _both_ways(reader, writer, inside)
        except BaseException:
            inside.abort()
            _cut_off(writer)
            raise
        inside.close()
        writer.close()


async def _both_ways(reader: "asyncio.StreamReader", writer: "asyncio.StreamWriter", inside: Connection) -> None:
    """Until both sides have ended. One that breaks ends the other; one that only listens no more may go on talking."""
    import asyncio

    inwards = asyncio.ensure_future(_inwards(reader, inside))
    outwards = _Outwards(inside, writer)
    watching = asyncio.ensure_future(outwards.watch(inwards))
    try:
        try:
            await outwards.run()
        except ConnectionError:  # whichever it was, the other hears of it
            inside.abort()
            _cut_off(writer)
        await inwards
    finally:
        inwards.cancel()
        watching.cancel()


async def _inwards(reader: "asyncio.StreamReader", inside: Connection) -> None:
    try:
        while data := await reader.read(_READ):
            try:
                await inside.write(data)
            except ConnectionError:  # it takes no more, and its last words are still on their way
                return
        with suppress(ConnectionError):
            await inside.end()
    except ConnectionError:
        inside.abort()


class _Outwards:
    """What a server inside says, to its client."""

    def __init__(self, inside: Connection, writer: "asyncio.StreamWriter") -> None:
        self._inside = inside
        self._writer = writer
        self._heard = 0

    async def run(self) -> None:
        """Until it has said all."""
        while data := await self._inside.read(_READ):
            self._heard += 1
            self._writer.write(data)
            await self._writer.drain()
        with suppress(OSError):  # gone meanwhile
            self._writer.write_eof()

    async def watch(self, inwards: "asyncio.Task[None]") -> None:
        """When nothing more comes from the client, it is not for ever that nothing comes from the server."""
        import asyncio

        await asyncio.wait([inwards])
        heard = -1
        while heard != self._heard:
            heard = self._heard
            await asyncio.sleep(SECONDS_TO_ANSWER)
        self._inside.abort()


def _cut_off(writer: "asyncio.StreamWriter") -> None:
    """End it so that the other side hears that this was not all."""
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _nothing() -> None:
    pass
