"""The relays of one sandbox: what is listened at inside, and connections both ways."""

import os
import struct
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from paddock.backends.supervised.connections import WINDOW, DescriptorConnection, FrameConnection, handed_over
from paddock.backends.supervised.streams import Budget
from paddock.driver import Handler
from paddock.errors import (
    ClosedError,
    ConfigError,
    ExecTimeoutError,
    ExistsError,
    InvalidPathError,
    LimitReachedError,
    NotFoundError,
    PermissionDeniedError,
    ReadOnlyError,
    SandboxDiedError,
    SandboxError,
)
from paddock.types.ports import RelayAddress
from paddock.wire.channel import Channel
from paddock.wire.fields import Malformed, pack_text, read_failure
from paddock.wire.frames import Frame, Reply, Request

if TYPE_CHECKING:
    import asyncio

MOST_CONNECTIONS = 1024
MOST_ACCEPTED = 896
"""Of these: who connects from inside must not keep the host from connecting."""
_AHEAD = 8
"""Connections that are waited for at each listener, so that the next is there at once."""
_PAUSE = 0.01
_LONG_PAUSE = 0.1
_SECONDS_TO_CONNECT = 30.0
_SECONDS_TO_STOP = 5.0

RelayConnection = DescriptorConnection | FrameConnection
SocketPath = Callable[[str], str]
"""Where a path inside is for the supervisor."""


budget = Budget(4)
"""For connections."""


class Relays:
    """All that one channel has of them. They end with it, and with `close`."""

    blocking = False

    def __init__(self, channel: Channel, socket_path: SocketPath | None = None) -> None:
        self.channel = channel
        self._socket_path = socket_path
        self._connections: set[RelayConnection] = set()
        self._listeners: set[RelayListener] = set()
        self._actions: list[Callable[[], Awaitable[None]]] = []
        self._closed = self._watching = False

    async def listen(self, address: RelayAddress, handler: Handler) -> "RelayListener":
        """See `RelayingDriver`."""
        self._begin()
        id_ = self.channel.new_id()
        try:
            (frame,) = await self.channel.ask(Request.LISTEN, self._packed(address), id_)
            port = self._heard_port(frame, address)
        except BaseException:
            self.channel.send(Request.HANG_UP, id_, b"\0")
            raise
        if self._closed:
            raise ClosedError("The sandbox was closed.")
        listener = RelayListener(self, id_, address if address.path else RelayAddress.loopback(port), handler)
        self._listeners.add(listener)
        listener.fill_up()
        return listener

    async def connect(self, address: RelayAddress) -> RelayConnection:
        """See `RelayingDriver`."""
        import asyncio

        self._begin()
        if address.path is None and address.port == 0:
            raise ConfigError("0 is no port to connect to.", hint="Ports are numbers from 1 to 65535.")
        packed, deadline = self._packed(address), time.monotonic() + _SECONDS_TO_CONNECT
        while True:
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    return await self._attempt(packed)
            except _Refused as refused:
                if refused.number not in _BUSY or time.monotonic() > deadline:
                    raise _why_not_connected(refused.number, address) from None
            except TimeoutError:
                raise ExecTimeoutError(
                    f"Nobody accepts connections at {address} inside.", hint="Look at what listens there."
                ) from None
            await asyncio.sleep(_PAUSE)  # too many are before us there, which cannot be waited for

    def on_close(self, action: Callable[[], Awaitable[None]]) -> Callable[[], None]:
        """See `RelayingDriver`."""
        self._begin()
        self._actions.append(action)
        return lambda: self._actions.remove(action) if action in self._actions else None

    async def close(self) -> None:
        """End all of them; no task and no descriptor is left."""
        self._closed = True
        actions, self._actions = self._actions, []
        try:
            if not self.channel.foreign:
                for action in actions:
                    await self._do(action)
                for listener in list(self._listeners):
                    await listener.close()
        finally:
            self._cut_all(ConnectionAbortedError("the sandbox was closed"))

    async def _do(self, action: Callable[[], Awaitable[None]]) -> None:
        try:
            await action()
        except Exception as error:  # noqa: BLE001 - told, and no reason to leave the rest
            context = {"message": "What was to be done before the sandbox closes failed", "exception": error}
            self.channel.loop.call_exception_handler(context)

    def may_accept(self, awaited: int) -> bool:
        """Whether there is room for one more from inside."""
        if self._closed or len(self._connections) + awaited >= MOST_CONNECTIONS:
            return False
        return sum(listener.serving for listener in self._listeners) + awaited < MOST_ACCEPTED

    def ask(self, type: Request, packed: bytes, settle: "_Settle") -> "_Pending":
        """Ask for one connection; `settle` is told what came of it, unless it is given up."""
        return _Pending(self, type, packed, settle)

    def forget(self, listener: "RelayListener") -> None:
        """It has been closed."""
        self._listeners.discard(listener)

    def opened(self, by_descriptor: bool, id_: int, fds: tuple[int, ...]) -> RelayConnection:
        """A connection that has come. It holds what it was given until it is let go of."""
        connection: RelayConnection
        if by_descriptor:
            sock = handed_over(fds[0])
            connection = DescriptorConnection(sock, self.channel.loop, lambda: self._left(connection, by_descriptor))
        else:
            connection = FrameConnection(self.channel, id_, lambda: self._left(connection, by_descriptor))
            self.channel.listen(id_, connection)
        self._connections.add(connection)
        return connection

    def _left(self, connection: RelayConnection, by_descriptor: bool) -> None:
        self._connections.discard(connection)
        if by_descriptor:
            budget.give_back()
        for listener in self._listeners:
            listener.fill_up_soon()

    def _begin(self) -> None:
        if self._closed:
            raise ClosedError("The sandbox was closed.")
        if self.channel.error is not None:
            raise self.channel.error
        if self.channel.foreign:
            raise ClosedError("The sandbox belongs to the process that this one was forked from.")
        if not self._watching:
            self._watching = True
            self.channel.listen(self.channel.new_id(), self)

    def _packed(self, address: RelayAddress) -> bytes:
        path = address.path or ""
        if path and self._socket_path is not None:
            path = self._socket_path(path)
        return pack_text(os.fsencode(path)) + struct.pack("<H", address.port)

    def _heard_port(self, frame: Frame, address: RelayAddress) -> int:
        try:
            if frame.type == Reply.FAILED:
                raise _why_not_listening(read_failure(frame.payload)[0], address)
            (port,) = struct.unpack("<H", frame.payload)
        except (Malformed, struct.error):
            raise self.channel.fail(Malformed("a listener without its port")) from None
        return int(port)

    async def _attempt(self, packed: bytes) -> RelayConnection:
        if len(self._connections) >= MOST_CONNECTIONS:
            raise LimitReachedError(f"This sandbox has {MOST_CONNECTIONS} connections.", limit="connections")
        answer: asyncio.Future[RelayConnection] = self.channel.loop.create_future()
        pending = self.ask(Request.CONNECT, packed, lambda _, came: _tell(answer, came))
        try:
            return await answer
        except BaseException:
            pending.give_up()
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                answer.result().abort()
            raise

    def _cut_all(self, error: OSError) -> None:
        for connection in list(self._connections):
            if isinstance(error, ConnectionAbortedError) and not self.channel.foreign:
                connection.abort()
            else:
                connection.fail(error)

    # What the supervisor says: nothing to us. But it may be gone.

    def frame(self, frame: Frame) -> None:
        for fd in frame.fds:
            os.close(fd)
        raise Malformed("an answer that nobody asked for")

    def lost(self, error: SandboxDiedError) -> None:
        self._cut_all(ConnectionResetError(str(error)))
        for listener in list(self._listeners):
            listener.stop()


class _Refused(Exception):  # noqa: N818 - it never leaves this module
    """What the supervisor said to one request."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


Came = RelayConnection | SandboxDiedError | _Refused
_Settle = Callable[["_Pending", Came], object]


class _Pending:
    """One connection that was asked for."""

    blocking = False

    def __init__(self, relays: Relays, type: Request, packed: bytes, settle: _Settle) -> None:
        self._relays = relays
        self._settle: _Settle | None = settle
        channel = relays.channel
        self._by_descriptor = channel.descriptors and budget.take()
        self._id = channel.new_id()
        channel.listen(self._id, self)
        if self._settle is not None:
            channel.send(type, self._id, packed + struct.pack("<BI", self._by_descriptor, WINDOW))

    def give_up(self) -> None:
        """Nobody wants it any more. What comes all the same is closed, here or by the supervisor."""
        if self._settle is not None:
            self._settle = None
            self._relays.channel.forget(self._id)
            self._relays.channel.send(Request.HANG_UP, self._id, b"\1")
            self._return()

    def frame(self, frame: Frame) -> None:
        if frame.type == Reply.FAILED and not frame.fds:
            code, _ = read_failure(frame.payload)
            self._relays.channel.forget(self._id)
            self._came(_Refused(code))
        elif frame.type == Reply.CONNECTED and not frame.payload and len(frame.fds) == self._by_descriptor:
            self._relays.channel.forget(self._id)
            self._came(self._connection(frame.fds))
        else:
            for fd in frame.fds:
                os.close(fd)
            raise Malformed("a connection that comes in another way")

    def lost(self, error: SandboxDiedError) -> None:
        self._came(error)

    def _connection(self, fds: tuple[int, ...]) -> RelayConnection:
        try:
            return self._relays.opened(self._by_descriptor, self._id, fds)
        except Malformed:
            self._came(SandboxDiedError("The sandbox's supervisor does not keep to the protocol."))
            raise

    def _came(self, came: Came) -> None:
        settle, self._settle = self._settle, None
        if isinstance(came, Exception):
            self._return()
        if settle is not None:
            settle(self, came)

    def _return(self) -> None:
        if self._by_descriptor:
            self._by_descriptor = False
            budget.give_back()


def _tell(answer: "asyncio.Future[RelayConnection]", came: Came) -> None:
    if answer.done():
        if not isinstance(came, Exception):
            came.abort()
    elif isinstance(came, Exception):
        answer.set_exception(came)
    else:
        answer.set_result(came)


class RelayListener:
    """Something that is listened at inside, and those who came there."""

    def __init__(self, relays: Relays, id_: int, address: RelayAddress, handler: Handler) -> None:
        self.address = address
        self._relays = relays
        self._id = id_
        self._handler = handler
        self._awaited: set[_Pending] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.Handle | None = None
        self._open = True

    @property
    def serving(self) -> int:
        """How many there are."""
        return len(self._tasks)

    def fill_up(self) -> None:
        """Wait for as many as there is room for. Others stay with the kernel inside, which has a bound as well."""
        self._timer = None
        while self._open and len(self._awaited) < _AHEAD and self._relays.may_accept(len(self._awaited)):
            self._wait_for_one()

    def fill_up_soon(self, pause: float = 0.0) -> None:
        """The same, when whoever makes room now is done with it."""
        if self._open and self._timer is None:
            self._timer = self._relays.channel.loop.call_later(pause, self.fill_up)

    def stop(self) -> None:
        """Accept nobody any more; whoever is served has to end by themselves."""
        if not self._open:
            return
        self._open = False
        if self._timer is not None:
            self._timer.cancel()
        for pending in self._awaited:
            pending.give_up()
        self._awaited.clear()

    async def close(self) -> None:
        """See `Listener`."""
        import asyncio

        channel = self._relays.channel
        hung_up = channel.begin(Request.HANG_UP, b"\0", self._id) if self._open and channel.error is None else None
        self.stop()
        self._relays.forget(self)
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=_SECONDS_TO_STOP)
        finally:
            if hung_up is not None:
                with suppress(SandboxDiedError):  # then nothing listens there either
                    await hung_up()

    def _wait_for_one(self) -> None:
        self._awaited.add(self._relays.ask(Request.ACCEPT, struct.pack("<I", self._id), self._came))

    def _came(self, pending: _Pending, came: Came) -> None:
        self._awaited.discard(pending)
        if not isinstance(came, Exception):
            task = self._relays.channel.loop.create_task(self._serve(came))
            self._tasks.add(task)
            task.add_done_callback(self._served)
            self.fill_up_soon()
        elif isinstance(came, _Refused):  # descriptors are short inside, say
            self.fill_up_soon(_LONG_PAUSE)

    def _served(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self.fill_up_soon()

    async def _serve(self, connection: RelayConnection) -> None:
        try:
            await self._handler(connection)
        except ConnectionError:  # which is how connections end
            connection.abort()
        except Exception as error:  # noqa: BLE001 - one connection's trouble is told, and is nobody else's
            connection.abort()
            context = {"message": f"The handler of {self.address} failed", "exception": error}
            self._relays.channel.loop.call_exception_handler(context)
        except BaseException:
            connection.abort()
            raise
        else:
            connection.close()


# Linux's numbers, which the supervisor says whatever this host is.
_IN_USE, _REFUSED = 98, 111  # EADDRINUSE, ECONNREFUSED
_MISSING, _DENIED = (2, 20), (1, 13)  # ENOENT, ENOTDIR; EPERM, EACCES
_READ_ONLY, _TOO_LONG, _SENSELESS = 30, 36, 22  # EROFS, ENAMETOOLONG, EINVAL
_USED_UP = (12, 23, 24, 28, 105)  # ENOMEM, ENFILE, EMFILE, ENOSPC, ENOBUFS
_BUSY = (11,)  # EAGAIN


def _why_not_listening(code: int, address: RelayAddress) -> SandboxError:
    where = f"{address} inside"
    if code == _IN_USE:
        return ExistsError(f"Something listens at {where} already.", hint="Choose another, or port 0 for any.")
    if code in _MISSING:
        return NotFoundError(f"There is no directory for {where}.", hint="/run/paddock is there for sockets.")
    if code == _READ_ONLY:
        return ReadOnlyError(f"No socket can be made at {where}.", hint="/run/paddock is there for sockets.")
    return _why_not(code, f"Nothing can listen at {where}")


def _why_not_connected(code: int, address: RelayAddress) -> SandboxError:
    if code == _REFUSED or code in _MISSING:
        return NotFoundError(
            f"Nothing listens at {address} inside.", hint="Start it, and wait with wait_for_port() until it listens."
        )
    return _why_not(code, f"{address} inside cannot be connected to")


def _why_not(code: int, words: str) -> SandboxError:
    if code in _DENIED:
        return PermissionDeniedError(f"{words}: the sandbox's user may not.", hint="Ports below 1024 may be root's.")
    if code == _TOO_LONG:
        return InvalidPathError(f"{words}: a socket's path has 107 bytes at most.", hint="Choose a shorter path.")
    if code in _USED_UP:
        return LimitReachedError(f"{words}: {os.strerror(code)}.", limit="connections")
    if code == _SENSELESS:
        return ConfigError(f"{words}.", hint="Name a port, or an absolute path.")
    return SandboxError(f"{words}: {os.strerror(code)}.", hint="Try again.")
