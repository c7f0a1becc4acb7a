"""How the host and a container's supervisor come together: by a socket that both see, or through a relay. Found by trying."""

import os
import socket
import time
from typing import TYPE_CHECKING, Any

from paddock.backends.docker.engine import Engine
from paddock.backends.docker.relay import relayed
from paddock.errors import SandboxDiedError, UnavailableError
from paddock.wire.channel import Channel, SocketChannel, StreamChannel, greet, peer_of

if TYPE_CHECKING:
    import asyncio

_SECONDS_ALONE = 0.5
"""So long only a call is waited for; then a relay is tried as well, which the supervisor only takes if it could not call."""
_SECONDS_TO_BEGIN = 30.0
_MISPLACED = 3
"""The exit status of a supervisor that finds itself, or a mount, elsewhere than it should be."""


class Handed:
    """What a supervisor that calls is given first: whose it is, or a socket on which others will come."""

    def __init__(self, what: bytes, fd: int) -> None:
        self.what, self.fd = what, fd

    @classmethod
    def owner(cls) -> "Handed":
        """It ends with this process."""
        return cls(b"O", os.pidfd_open(os.getpid()))

    @classmethod
    def listening(cls, sock: socket.socket) -> "Handed":
        """It stays, for whoever connects there."""
        return cls(b"L", os.dup(sock.fileno()))

    def close(self) -> None:
        """Close our copy."""
        os.close(self.fd)


class Caller:
    """A supervisor that is starting, and may call us."""

    def __init__(self, listening: socket.socket, uid: int, handed: Handed) -> None:
        self._listening, self._uid, self._handed = listening, uid, handed
        self._called: asyncio.Future[socket.socket] | None = None
        self._is_greeted = False

    async def called(self, ending: "asyncio.Future[Any]") -> Channel | None:
        """The channel, if it has called by now; it has a moment, unless it ends before."""
        import asyncio

        if self._called is None:
            loop = asyncio.get_running_loop()
            self._called = loop.create_future()
            loop.add_reader(self._listening.fileno(), self._accept)
        waited: list[asyncio.Future[Any]] = [self._called, ending]
        await asyncio.wait(waited, timeout=_SECONDS_ALONE, return_when=asyncio.FIRST_COMPLETED)
        return self._greeted(self._called.result()) if self._called.done() else None

    def close(self) -> None:
        """Nobody can call any more. Here and now: the number of a closed descriptor is soon another's."""
        if self._called is not None:
            self._called.get_loop().remove_reader(self._listening.fileno())
            if self._called.done() and not self._is_greeted:
                self._called.result().close()
        self._listening.close()
        self._handed.close()

    def _accept(self) -> None:
        """The first who calls and is who it should be."""
        try:
            sock, _ = self._listening.accept()
        except OSError:  # gone again
            return
        if self._called is None or self._called.done() or peer_of(sock)[1] != self._uid:
            sock.close()
        else:
            self._called.set_result(sock)

    def _greeted(self, sock: socket.socket) -> Channel:
        import asyncio

        self._is_greeted = True
        try:
            socket.send_fds(sock, [self._handed.what], [self._handed.fd])
            return SocketChannel(sock, asyncio.get_running_loop())
        except OSError:
            sock.close()
            raise SandboxDiedError("The sandbox ended while it began.") from None


async def meet(
    engine: Engine, container: Any, caller: Caller | None, secret: str, ending: "asyncio.Future[Any]"
) -> Channel:
    """The channel to a supervisor that is starting; `ending` is done when its container has ended."""
    import asyncio

    deadline = time.monotonic() + _SECONDS_TO_BEGIN
    while True:
        channel = None if caller is None else await caller.called(ending)
        if channel is not None:
            return channel
        _check_running(ending)
        try:
            return await over_relay(engine, container.id, secret)
        except (SandboxDiedError, UnavailableError) as error:  # it is not that far, or has just called
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"The container's supervisor cannot be reached: {error.message}", hint="See `paddock doctor`."
                ) from None
        await asyncio.sleep(0.05)


async def over_relay(engine: Engine, container: str, secret: str) -> StreamChannel:
    """The channel to a supervisor that waits for somebody."""
    import asyncio

    reading, writing = await relayed(engine.address, container)
    channel = StreamChannel(reading, writing, asyncio.get_running_loop())
    try:
        await greet(channel, secret)
    except BaseException:
        channel.close()
        raise
    return channel


def _check_running(ending: "asyncio.Future[Any]") -> None:
    """A supervisor that has ended already will not call."""
    if not ending.done():
        return
    code = None if ending.exception() is not None else ending.result().get("StatusCode")
    if code == _MISPLACED:
        raise UnavailableError(
            "The image has a link where Paddock, or one of the mounts, has to be.", hint="Use another image."
        )
    raise UnavailableError(
        "The container's supervisor did not start" + ("." if code is None else f": it ended with {code}."),
        hint="See `paddock doctor`, and the engine's log.",
    )
