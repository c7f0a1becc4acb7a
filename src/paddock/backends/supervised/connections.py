"""One connection of a relay: by its own descriptor, or in frames."""

import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from paddock.wire.channel import Channel
from paddock.wire.fields import Malformed, read_failure
from paddock.wire.frames import Frame, Reply, Request

if TYPE_CHECKING:
    import asyncio

WINDOW = 128 << 10
"""Bytes that may be under way in frames, each way, before they are taken."""
_READ = 64 << 10
_PIECE = 64 << 10
_EAGER = 16
"""Calls that had not to wait, after which others have a turn."""
_BROKEN_PIPE = 32  # EPIPE, by Linux's number
_NOW: int = getattr(socket, "MSG_DONTWAIT", 0)
_QUIET: int = getattr(socket, "MSG_NOSIGNAL", 0)
_CUT_OFF = struct.pack("ii", 1, 0)
_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)

Left = Callable[[], object]
"""What is done when a connection is let go of."""


class _Turns:
    """What both kinds share: who waits, whose turn it is, and the end."""

    def __init__(self, loop: "asyncio.AbstractEventLoop", left: Left) -> None:
        self._loop = loop
        self._left: Left | None = left
        self._error: OSError | None = None
        self._reading: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._writing: asyncio.Lock | None = None
        self._eager = 0

    def _turn(self) -> "asyncio.Lock":
        import asyncio

        if self._writing is None:
            self._writing = asyncio.Lock()
        return self._writing

    async def _give_way(self) -> None:
        """Whoever is never made to wait would keep the loop for themselves."""
        import asyncio

        self._eager += 1
        if self._eager >= _EAGER:
            self._eager = 0
            await asyncio.sleep(0)

    async def _readable(self) -> None:
        if self._reading is not None:
            raise RuntimeError("another task reads from this connection")
        self._eager = 0
        self._reading = self._loop.create_future()
        try:
            await self._reading
        finally:
            self._reading = None

    async def _writable(self) -> None:
        self._eager = 0
        self._room = self._loop.create_future()
        try:
            await self._room
        finally:
            self._room = None

    def _check(self) -> None:
        if self._error is not None:
            raise type(self._error)(*self._error.args)

    def _end(self, error: OSError) -> bool:
        """It is over; whether it was not before. Those who wait find out why."""
        if self._error is not None:
            return False
        self._error = error
        left, self._left = self._left, None
        if left is not None:
            left()
        _wake(self._reading)
        _wake(self._room)
        return True


class DescriptorConnection(_Turns):
    """A socket that the supervisor handed over: nothing passes through it any more.

    It may be shared with somebody who changes how it waits. So every call says by itself that it does not.
    """

    def __init__(self, sock: socket.socket, loop: "asyncio.AbstractEventLoop", left: Left) -> None:
        super().__init__(loop, left)
        self._socket = sock
        self._fd = sock.fileno()
        self._owner = os.getpid()
        self._watched = False

    async def read(self, size: int = _READ) -> bytes:
        await self._give_way()  # before: what has been read must not be lost
        while True:
            self._check()
            try:
                return self._socket.recv(size, _NOW)
            except (BlockingIOError, InterruptedError):
                await self._readable()
            except OSError as error:
                raise _broken(error) from None

    async def write(self, data: bytes) -> None:
        async with self._turn():
            view = memoryview(data)
            while len(view):
                self._check()
                try:
                    view = view[self._socket.send(view, _NOW | _QUIET) :]
                except (BlockingIOError, InterruptedError):
                    await self._writable()
                except OSError as error:
                    raise _broken(error) from None
                else:
                    await self._give_way()

    async def end(self) -> None:
        async with self._turn():
            self._check()
            _try(self._socket.shutdown, socket.SHUT_WR)

    def close(self) -> None:
        if self._owner == os.getpid() and self._error is None:
            _try(self._socket.shutdown, socket.SHUT_RDWR)  # a forked child may hold it open
        self.fail(_closed())

    def abort(self) -> None:
        if self._owner == os.getpid() and self._error is None:
            _try(self._socket.setsockopt, socket.SOL_SOCKET, socket.SO_LINGER, _CUT_OFF)
        self.fail(_closed())

    def fail(self, error: OSError) -> None:
        """It is over, for this reason."""
        if self._error is not None:
            return
        if self._owner == os.getpid():  # in a forked child the loop's own descriptor is still the parent's
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)
        self._socket.close()
        self._end(error)

    async def _readable(self) -> None:
        if not self._watched:
            self._watched = True
            self._loop.add_reader(self._fd, self._on_readable)
        await super()._readable()

    async def _writable(self) -> None:
        self._loop.add_writer(self._fd, self._on_writable)
        await super()._writable()

    def _on_readable(self) -> None:
        if not _wake(self._reading):  # nobody wants it now
            self._watched = False
            self._loop.remove_reader(self._fd)

    def _on_writable(self) -> None:
        self._loop.remove_writer(self._fd)
        _wake(self._room)


class FrameConnection(_Turns):
    """A connection whose bytes the supervisor carries, in frames with windows."""

    blocking = False

    def __init__(self, channel: Channel, id: int, left: Left) -> None:
        super().__init__(channel.loop, left)
        self._channel = channel
        self._id = id
        self._data = bytearray()
        self._heard_all = False
        self._allowed = WINDOW
        self._owed = 0
        self._window = WINDOW
        self._ended = False
        self._deaf = False

    async def read(self, size: int = _READ) -> bytes:
        await self._give_way()
        while not self._data and not self._heard_all:
            self._check()
            await self._readable()
        if not self._data:
            self._check()
        data = bytes(self._data[:size])
        del self._data[:size]
        self._took(len(data))
        return data

    async def write(self, data: bytes) -> None:
        async with self._turn():
            view = memoryview(data)
            while len(view):
                self._check()
                if self._deaf or self._ended:
                    raise BrokenPipeError(_BROKEN_PIPE, "the other side takes no more")
                if self._window == 0:
                    await self._writable()
                    continue
                part = bytes(view[: min(self._window, _PIECE)])
                view = view[len(part) :]
                self._window -= len(part)
                self._channel.send(Request.PASS, self._id, part)
                await self._give_way()

    async def end(self) -> None:
        async with self._turn():
            self._check()
            if not self._ended:
                self._ended = True
                self._channel.send(Request.PASS, self._id)

    def close(self) -> None:
        self._hang_up(now=False)

    def abort(self) -> None:
        self._hang_up(now=True)

    def fail(self, error: OSError) -> None:
        """It is over, for this reason."""
        if self._end(error):
            self._channel.forget(self._id)

    def _hang_up(self, *, now: bool) -> None:
        if self._end(_closed()):
            self._channel.forget(self._id)
            self._channel.send(Request.HANG_UP, self._id, bytes([now]))
        self._data.clear()

    def _took(self, size: int) -> None:
        self._owed += size
        if self._owed >= WINDOW // 2 and not self._heard_all and self._error is None:
            owed, self._owed = self._owed, 0
            self._allowed += owed
            self._channel.send(Request.ALLOW, self._id, struct.pack("<I", owed))

    # What the supervisor says

    def frame(self, frame: Frame) -> None:
        if frame.type == Reply.DATA:
            self._received(frame.payload)
        elif frame.type == Reply.WINDOW:
            self._granted(frame.payload)
        elif frame.type == Reply.FAILED:
            code, _ = read_failure(frame.payload)
            if code == _BROKEN_PIPE:
                self._deaf = True
                _wake(self._room)
            else:
                self.fail(ConnectionResetError(code, os.strerror(code)))
        else:
            for fd in frame.fds:
                os.close(fd)
            raise Malformed("an answer is of the wrong type")

    def lost(self, error: Exception) -> None:
        self._end(ConnectionResetError(str(error)))

    def _received(self, data: bytes) -> None:
        self._allowed -= len(data)
        if self._allowed < 0 or self._heard_all:
            raise Malformed("more of a connection than was asked for")
        self._heard_all = not data
        self._data += data
        _wake(self._reading)

    def _granted(self, payload: bytes) -> None:
        if len(payload) != 4:
            raise Malformed("a number is cut off")
        self._window += int.from_bytes(payload, "little")
        if self._window > WINDOW:
            raise Malformed("more of a connection was taken than was sent")
        _wake(self._room)


def handed_over(fd: int) -> socket.socket:
    """The connection that a descriptor is, which is ours from now on; `Malformed` if it is something else."""
    try:
        sock = socket.socket(fileno=fd)
    except OSError:
        os.close(fd)
        raise Malformed("a connection is no socket") from None
    is_stream = sock.type == socket.SOCK_STREAM and sock.family in _FAMILIES
    if not is_stream or sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        sock.close()
        raise Malformed("a connection is a socket of another kind")
    sock.setblocking(False)
    return sock


def _wake(future: "asyncio.Future[None] | None") -> bool:
    """Whether somebody waited."""
    if future is None or future.done():
        return False
    future.set_result(None)
    return True


def _broken(error: OSError) -> OSError:
    """Whatever it was, as what a connection can have."""
    return error if isinstance(error, ConnectionError) else ConnectionResetError(*error.args)


def _closed() -> OSError:
    return ConnectionAbortedError("the connection was closed")


def _try(call: Callable[..., object], *arguments: object) -> None:
    """Of a socket whose other end may be gone already."""
    with suppress(OSError):
        call(*arguments)
