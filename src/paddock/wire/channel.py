"""A channel to a supervisor: frames out, frames in to whoever listens for their id, and one end of it all.

There are two. Over a socket of the same kernel everything happens on the event loop, and descriptors travel. Over a plain
stream a thread reads, so that blocking file calls can be made from any thread, the loop's own too.
"""

import os
import socket
import struct
import threading
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Protocol

from paddock.errors import SandboxDiedError, visible
from paddock.wire.fields import Fields, Malformed, pack_text
from paddock.wire.frames import MAX_DESCRIPTORS, VERSION, Decoder, Frame, Reply, Request, encode

if TYPE_CHECKING:
    import asyncio

_PIECE = 256 << 10
_CONTROL = socket.CMSG_SPACE(MAX_DESCRIPTORS * 4) if hasattr(socket, "CMSG_SPACE") else 0


class Listener(Protocol):
    """Somebody who waits for frames with one id."""

    blocking: bool
    """Whether a thread waits, so that it is told in whatever thread; else it is told on the loop."""

    def frame(self, frame: Frame) -> None:
        """One more frame."""

    def lost(self, error: SandboxDiedError) -> None:
        """There will be no more: the channel has ended."""


class Channel:
    """What both kinds share: who listens, and how it ended."""

    descriptors = False
    """Whether descriptors can travel."""

    def __init__(self, loop: "asyncio.AbstractEventLoop") -> None:
        self.loop = loop
        self.error: SandboxDiedError | None = None
        """Why it ended, once it has."""
        self._ids = count(1)
        self._listeners: dict[int, Listener] = {}
        self._decoder = Decoder()
        self._closing = False
        self._ended = loop.create_future()
        self._last_words = "The sandbox's supervisor ended."

    def new_id(self) -> int:
        """A number that was never used."""
        return next(self._ids)

    def listen(self, id: int, listener: Listener) -> None:
        """Tell `listener` of every frame with this id. After the end it is told of that at once."""
        self._listeners[id] = listener
        error = self.error
        if error is not None and self._listeners.pop(id, None) is not None:
            listener.lost(error)

    def forget(self, id: int) -> None:
        """Nobody waits for this id any more; what still comes is dropped."""
        self._listeners.pop(id, None)

    def send(self, type: int, id: int, payload: bytes = b"", fds: Sequence[int] = ()) -> None:
        """Send a frame; the descriptors stay the caller's. After the end it goes nowhere."""
        raise NotImplementedError

    def close(self) -> None:
        """Hang up, which ends the sandbox."""
        raise NotImplementedError

    async def ask(self, type: int, payload: bytes = b"", id: int | None = None) -> list[Frame]:
        """Send a request and wait for all frames of its answer."""
        answer = _Answer(self, self.new_id() if id is None else id)
        self.send(type, answer.id, payload)
        try:
            return await answer.future
        finally:
            self.forget(answer.id)

    async def ended(self) -> None:
        """Returns when the other side is gone."""
        import asyncio

        await asyncio.shield(self._ended)

    def _dispatch(self, frame: Frame) -> None:
        if frame.type == Reply.ERROR:
            words = Fields(frame.payload).text().decode("utf-8", "replace")
            self._last_words = f"The sandbox's supervisor ended: {visible(words)}."
            return
        listener = self._listeners.get(frame.id)
        if listener is not None:
            listener.frame(frame)
        else:
            for fd in frame.fds:
                os.close(fd)

    def _end(self) -> None:
        """Tell everybody, once."""
        if self.error is None:
            self.error = self._why()
        self._decoder.close()
        for id, listener in list(self._listeners.items()):
            if self._listeners.pop(id, None) is not None:
                listener.lost(self.error)
        if not self._ended.done():
            self._ended.set_result(None)

    def _why(self) -> SandboxDiedError:
        return SandboxDiedError("The sandbox was closed." if self._closing else self._last_words)


class _Answer:
    """The frames that answer one request."""

    blocking = False

    def __init__(self, channel: Channel, id: int) -> None:
        self.id = id
        self.future: asyncio.Future[list[Frame]] = channel.loop.create_future()
        self._frames: list[Frame] = []
        channel.listen(id, self)

    def frame(self, frame: Frame) -> None:
        self._frames.append(frame)
        if not is_more(frame) and not self.future.done():
            self.future.set_result(self._frames)

    def lost(self, error: SandboxDiedError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


_LISTS = frozenset({Reply.PROCESSES, Reply.ENTRIES, Reply.WATCHED})


def is_more(frame: Frame) -> bool:
    """Whether more frames follow that answer the same request."""
    return frame.type in _LISTS and frame.payload[:1] == b"\1"


async def greet(channel: Channel) -> str:
    """Say hello; the supervisor's release. A version that it does not speak ends the channel."""
    payload = struct.pack("<HI", VERSION, 0)
    (frame,) = await channel.ask(Request.HELLO, payload)
    fields = Fields(frame.payload)
    version, _, _ = fields.u16(), fields.u32(), fields.u32()
    if frame.type != Reply.HELLO or version != VERSION:
        raise SandboxDiedError("The supervisor speaks another version of the protocol.", hint="Reinstall Paddock.")
    return fields.text().decode()


class SocketChannel(Channel):
    """Over a Unix socket, on the event loop."""

    descriptors = True

    def __init__(self, sock: socket.socket, loop: "asyncio.AbstractEventLoop") -> None:
        super().__init__(loop)
        sock.setblocking(False)
        self._socket = sock
        self._backlog: deque[tuple[bytes, list[int]]] = deque()
        loop.add_reader(sock.fileno(), self._readable)

    def send(self, type: int, id: int, payload: bytes = b"", fds: Sequence[int] = ()) -> None:
        if self.error is not None:
            return
        data = encode(type, id, payload, len(fds))
        if not self._backlog:
            sent = self._try(data, fds)
            if sent == len(data):
                return
            data, fds = data[sent:], () if sent else fds
            self.loop.add_writer(self._socket.fileno(), self._writable)
        self._backlog.append((data, [os.dup(fd) for fd in fds]))

    def close(self) -> None:
        self._closing = True
        if self.error is None:
            self._socket.shutdown(socket.SHUT_WR)

    def _try(self, data: bytes, fds: Sequence[int]) -> int:
        """Send what fits; how much that was. What the other side does not take because it is gone counts as sent."""
        try:
            if fds:
                control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))]
                return self._socket.sendmsg([data], control)
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            return len(data)  # the reading side notices the end

    def _writable(self) -> None:
        while self._backlog:
            data, fds = self._backlog[0]
            sent = self._try(data, fds)
            if sent:
                _close_all(fds)
                self._backlog[0] = (data[sent:], [])
            if sent < len(data):
                return
            self._backlog.popleft()
        self.loop.remove_writer(self._socket.fileno())

    def _readable(self) -> None:
        try:
            data, control, _, _ = self._socket.recvmsg(_PIECE >> 2, _CONTROL)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data, control = b"", []
        try:
            if data:
                for frame in self._decoder.feed(data, _descriptors(control)):
                    self._dispatch(frame)
                return
        except Malformed as error:
            self._last_words = f"The sandbox's supervisor does not keep to the protocol: {error}."
        self._end()

    def _end(self) -> None:
        if self._socket.fileno() >= 0:
            self.loop.remove_reader(self._socket.fileno())
            self.loop.remove_writer(self._socket.fileno())
            self._socket.close()
            while self._backlog:
                _close_all(self._backlog.popleft()[1])
        super()._end()


class StreamChannel(Channel):
    """Over two plain streams of bytes. A thread reads; whoever sends, sends in their own thread."""

    def __init__(self, reading: int, writing: int, loop: "asyncio.AbstractEventLoop") -> None:
        super().__init__(loop)
        self._reading, self._writing = reading, writing
        self._sending = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="paddock-channel", daemon=True)
        self._thread.start()

    def send(self, type: int, id: int, payload: bytes = b"", fds: Sequence[int] = ()) -> None:
        if fds:
            raise ValueError("no descriptors travel over a plain stream")
        self.send_bytes(encode(type, id, payload))

    def send_bytes(self, data: bytes) -> None:
        """Send whole frames, one after the other."""
        with self._sending:
            try:
                while data and self._writing >= 0:
                    data = data[os.write(self._writing, data) :]
            except OSError:
                return  # the reading side notices the end

    def close(self) -> None:
        self._closing = True
        self._hang_up()

    def _hang_up(self) -> None:
        with self._sending:
            if self._writing >= 0:
                os.close(self._writing)
                self._writing = -1

    def _run(self) -> None:
        try:
            while data := os.read(self._reading, _PIECE):
                self._spread(list(self._decoder.feed(data)))
        except Malformed as error:
            self._last_words = f"The sandbox's supervisor does not keep to the protocol: {error}."
        except OSError:
            pass  # as good as the end
        self.error = self._why()
        self._hang_up()
        os.close(self._reading)
        for id, listener in list(self._listeners.items()):
            if listener.blocking and self._listeners.pop(id, None) is not None:
                listener.lost(self.error)  # here: the loop may be the one that waits
        self._on_loop(self._end)

    def _spread(self, frames: list[Frame]) -> None:
        """Tell those who wait in threads here, and the others on the loop."""
        others = []
        for frame in frames:
            listener = self._listeners.get(frame.id)
            if listener is not None and listener.blocking:
                listener.frame(frame)
            else:
                others.append(frame)
        if others:
            self._on_loop(lambda: self._dispatch_all(others))

    def _dispatch_all(self, frames: list[Frame]) -> None:
        for frame in frames:
            self._dispatch(frame)

    def _on_loop(self, action: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self.loop.call_soon_threadsafe(action)


def _descriptors(control: Sequence[tuple[int, int, bytes]]) -> list[int]:
    found = array("i")
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    for fd in found:
        os.set_inheritable(fd, False)
    return list(found)


def _close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)


def root_payload(path: str) -> bytes:
    """The payload of `ROOT`."""
    return pack_text(os.fsencode(path))
