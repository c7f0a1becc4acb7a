"""A channel to a supervisor: frames out, frames in to whoever listens for their id, and one end of it all.

There are two. Over a socket of the same kernel everything happens on the event loop, and descriptors travel. Over a plain
stream a thread reads, so that blocking file calls can be made from any thread, the loop's own too.
"""

import errno
import os
import select
import socket
import struct
import threading
from abc import ABC, abstractmethod
from array import array
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Protocol

from paddock.errors import ClosedError, SandboxDiedError, visible
from paddock.wire.fields import Fields, Malformed, pack_text
from paddock.wire.frames import MAX_DESCRIPTORS, VERSION, Decoder, Frame, Reply, Request, encode

if TYPE_CHECKING:
    import asyncio

_PIECE = 256 << 10
_MAX_ANSWER = 512 << 20
SECONDS_TO_ANSWER = 30.0
"""A supervisor that says nothing for so long is stopped, or worse."""
_CONTROL = socket.CMSG_SPACE(MAX_DESCRIPTORS * 4) if hasattr(socket, "CMSG_SPACE") else 0
_PEER = struct.Struct("iII")
_CLOSE_ON_EXEC: int = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
_NO_ROOM = (errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM)
"""The kernel has none just now. It counts descriptors on their way for each user, in all sandboxes together."""
_AGAIN = 0.2
"""Seconds after which descriptors are offered again."""
_MAY_BRING_DESCRIPTORS = frozenset({Reply.OK, Reply.STARTED, Reply.CONNECTED})


class Listener(Protocol):
    """Somebody who waits for frames with one id."""

    blocking: bool
    """Whether a thread waits, so that it is told in whatever thread; else it is told on the loop."""

    def frame(self, frame: Frame) -> None:
        """One more frame; its descriptors are the listener's. `Malformed` ends the channel, whoever else listens."""

    def lost(self, error: SandboxDiedError) -> None:
        """There will be no more: the channel has ended."""


class Channel(ABC):
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
        self.closing = False
        """Whether it ends because we want it to."""
        self.ends_sandbox = True
        """Whether its end is that of the sandbox, and so of every command."""
        self._ended = loop.create_future()
        self._last_words = "The sandbox's supervisor ended."
        self._owner = os.getpid()

    @property
    def foreign(self) -> bool:
        """Whether this process was forked from the one whose channel it is: then it is not ours to use or to end."""
        return os.getpid() != self._owner

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

    @abstractmethod
    def send(self, type: int, id: int, payload: bytes = b"") -> None:
        """Send a frame. After the end it goes nowhere."""

    def send_with(self, fds: Sequence[int], type: int, id: int, payload: bytes = b"") -> bool:
        """Send a frame with descriptors, which stay the caller's, if that can be done just now; whether it was."""
        raise ValueError("no descriptors travel over a plain stream")

    def hand_over(self, fds: Sequence[int], type: int) -> None:
        """The same, whenever it can be done: what there is to say is that they are there."""
        self.send_with(fds, type, 0)

    @abstractmethod
    def close(self) -> None:
        """Hang up, which ends the sandbox if there is only this channel."""

    @abstractmethod
    def fail(self, error: Malformed) -> SandboxDiedError:
        """End the channel, because what the other side says makes no sense: nothing that it says can be trusted."""

    async def ask(
        self, type: Request, payload: bytes = b"", id: int | None = None, *, descriptors: int = 0
    ) -> list[Frame]:
        """Send a request and wait for all frames of its answer, which are of its type or `FAILED`.

        So many descriptors come with it; they are the caller's.
        """
        return await self.begin(type, payload, id, descriptors=descriptors)()

    def begin(
        self, type: Request, payload: bytes = b"", id: int | None = None, *, descriptors: int = 0
    ) -> "Callable[[], Awaitable[list[Frame]]]":
        """The first half of `ask`: the request is on its way. What is returned waits for its answer, and has to be called."""
        if self.foreign:
            raise ClosedError("The sandbox belongs to the process that this one was forked from.")
        answer = _Answer(self, self.new_id() if id is None else id, _ANSWERS[type], descriptors)
        self.send(type, answer.id, payload)
        return lambda: self._answered(answer)

    async def _answered(self, answer: "_Answer") -> list[Frame]:
        import asyncio

        try:
            if answer.future.done():
                return answer.future.result()
            async with asyncio.timeout(SECONDS_TO_ANSWER):
                return await answer.future
        except TimeoutError:
            answer.drop()
            raise self.fail(Malformed("it does not answer")) from None
        except BaseException:
            answer.drop()
            raise
        finally:
            self.forget(answer.id)

    async def ended(self) -> None:
        """Returns when the other side is gone."""
        import asyncio

        await asyncio.shield(self._ended)

    def _deliver(self, frames: Iterable[Frame]) -> bool:
        """Tell those who listen. False when the channel has to end, and then it is known why."""
        try:
            for frame in frames:
                if frame.fds and frame.type not in _MAY_BRING_DESCRIPTORS:
                    _close_all(frame.fds)
                    raise Malformed("descriptors come where none belong")
                if frame.type == Reply.ERROR:
                    self._heard_error(frame.payload)
                    return False
                self._dispatch(frame)
        except Malformed as error:
            self._blame(error)
            return False
        return True

    def _dispatch(self, frame: Frame) -> None:
        listener = self._listeners.get(frame.id)
        if listener is not None:
            listener.frame(frame)
        else:
            _close_all(frame.fds)

    def _heard_error(self, payload: bytes) -> None:
        fields = Fields(payload)
        words = fields.text().decode("utf-8", "replace")
        fields.end()
        self._last_words = f"The sandbox's supervisor ended: {visible(words)}."

    def _blame(self, error: Malformed) -> None:
        self._last_words = f"The sandbox's supervisor does not keep to the protocol: {error}."

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
        return SandboxDiedError("The sandbox was closed." if self.closing else self._last_words)


_ANSWERS = {
    Request.HELLO: Reply.HELLO,
    Request.ROOT: Reply.OK,
    Request.PROCESSES: Reply.PROCESSES,
    Request.LISTEN: Reply.LISTENING,
    Request.HANG_UP: Reply.OK,
}


class _Answer:
    """The frames that answer one request."""

    blocking = False

    def __init__(self, channel: Channel, id: int, type: Reply, descriptors: int) -> None:
        self.id = id
        self.future: asyncio.Future[list[Frame]] = channel.loop.create_future()
        self._type, self._descriptors = type, descriptors
        self._frames: list[Frame] = []
        self._size = 0
        channel.listen(id, self)

    def frame(self, frame: Frame) -> None:
        if self.future.done():
            _close_all(frame.fds)
            return
        self._frames.append(frame)
        self._size = grown(self._size, frame)
        if frame.type not in (self._type, Reply.FAILED):
            raise Malformed("an answer is of the wrong type")
        if len(frame.fds) != (self._descriptors if frame.type == self._type else 0):
            raise Malformed("an answer has the wrong number of descriptors")
        if not is_more(frame):
            self.future.set_result(self._frames)

    def drop(self) -> None:
        """Nobody wants it any more: close what it brought."""
        for frame in self._frames:
            _close_all(frame.fds)
        self._frames = []

    def lost(self, error: SandboxDiedError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


_LISTS = frozenset({Reply.PROCESSES, Reply.ENTRIES, Reply.WATCHED})


def grown(size: int, frame: Frame) -> int:
    """The size of an answer with one more frame; one that does not end is `Malformed`."""
    size += len(frame.payload)
    if size > _MAX_ANSWER:
        raise Malformed("an answer does not end")
    return size


def is_more(frame: Frame) -> bool:
    """Whether more frames follow that answer the same request."""
    return frame.type in _LISTS and frame.payload[:1] == b"\1"


async def greet(channel: Channel, secret: str = "") -> str:
    """Say hello; the supervisor's release. A version that it does not speak ends the channel."""
    return await hello(channel, secret)()


def hello(channel: Channel, secret: str = "") -> Callable[[], Awaitable[str]]:
    """The first half of `greet`: more requests may follow at once. A supervisor with a secret takes nobody without."""
    told = pack_text(secret.encode("ascii")) if secret else b""
    answered = channel.begin(Request.HELLO, struct.pack("<HI", VERSION, 0) + told)
    return lambda: _heard(channel, answered)


async def _heard(channel: Channel, answered: Callable[[], Awaitable[list[Frame]]]) -> str:
    (frame,) = await answered()
    try:
        fields = Fields(frame.payload)
        version, _, _ = fields.u16(), fields.u32(), fields.u32()
        release = fields.text().decode("utf-8", "replace")
        fields.end()
    except Malformed as error:
        raise channel.fail(error) from None
    if frame.type != Reply.HELLO or version != VERSION:
        raise SandboxDiedError("The supervisor speaks another version of the protocol.", hint="Reinstall Paddock.")
    return release


class SocketChannel(Channel):
    """Over a Unix socket, on the event loop."""

    descriptors = True

    def __init__(self, sock: socket.socket, loop: "asyncio.AbstractEventLoop") -> None:
        super().__init__(loop)
        sock.setblocking(False)
        self._socket = sock
        self._backlog: deque[bytes] = deque()
        self._kept: list[list[int]] = []
        """Descriptors that could not be handed over yet."""
        loop.add_reader(sock.fileno(), self._readable)

    @property
    def peer(self) -> int:
        """The pid of the supervisor on this host, if it connected itself; 0 if it cannot be known."""
        try:
            return peer_of(self._socket)[0]
        except OSError:
            return 0

    def send(self, type: int, id: int, payload: bytes = b"") -> None:
        if self.error is None and not self.foreign:
            data = encode(type, id, payload)
            self._send_later(data if self._backlog else data[self._try(data) :])

    def send_with(self, fds: Sequence[int], type: int, id: int, payload: bytes = b"") -> bool:
        if self.error is not None or self.foreign:
            return True
        data = encode(type, id, payload, len(fds))
        sent = 0 if self._backlog else self._try(data, fds)
        if sent:
            self._send_later(data[sent:])
        return sent > 0

    def hand_over(self, fds: Sequence[int], type: int) -> None:
        if not self.send_with(fds, type, 0):
            with suppress(OSError):  # out of descriptors
                kept = [os.dup(fd) for fd in fds]
                self._kept.append(kept)
                self.loop.call_later(_AGAIN, self._hand_over_again, kept, type)

    def _hand_over_again(self, kept: list[int], type: int) -> None:
        if kept in self._kept:
            self._kept.remove(kept)
            self.hand_over(kept, type)
            _close_all(kept)

    def close(self) -> None:
        self.closing = True
        if self.error is None:
            self._socket.shutdown(socket.SHUT_WR)

    def _try(self, data: bytes, fds: Sequence[int] = ()) -> int:
        """Send what fits; how much that was. What the other side does not take because it is gone counts as sent."""
        try:
            if fds:
                control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))]
                return self._socket.sendmsg([data], control)
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            if error.errno in _NO_ROOM:
                return 0
            return len(data)  # the reading side notices the end

    def _send_later(self, data: bytes) -> None:
        if data:
            if not self._backlog:
                self.loop.add_writer(self._socket.fileno(), self._writable)
            self._backlog.append(data)

    def _writable(self) -> None:
        while self._backlog:
            data = self._backlog[0]
            sent = self._try(data)
            if sent < len(data):
                self._backlog[0] = data[sent:]
                return
            self._backlog.popleft()
        self.loop.remove_writer(self._socket.fileno())

    def fail(self, error: Malformed) -> SandboxDiedError:
        self._blame(error)
        self._end()
        return self.error or self._why()

    def _readable(self) -> None:
        more = True
        while more and self._socket.fileno() >= 0:
            try:
                data, control, _, _ = self._socket.recvmsg(_PIECE >> 2, _CONTROL, _CLOSE_ON_EXEC)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                data, control = b"", []
            if not data or not self._deliver(self._decoder.feed(data, _descriptors(control) if control else ())):
                self._end()
                return
            more = bool(control)  # bytes with descriptors come one message at a time, and mostly several in a row

    def _end(self) -> None:
        if self._socket.fileno() >= 0:
            self.loop.remove_reader(self._socket.fileno())
            self.loop.remove_writer(self._socket.fileno())
            self._socket.close()
            self._backlog.clear()
            while self._kept:
                _close_all(self._kept.pop())
        super()._end()


class StreamChannel(Channel):
    """Over two plain streams of bytes. A thread reads; whoever sends, sends in their own thread, and waits for nobody."""

    def __init__(self, reading: int, writing: int, loop: "asyncio.AbstractEventLoop") -> None:
        super().__init__(loop)
        self._reading, self._writing = reading, writing
        self._sending = threading.Lock()
        self._backlog = bytearray()
        self._woken, self._waking = os.pipe()
        for fd in (self._waking, writing):
            os.set_blocking(fd, False)
        self._thread = threading.Thread(target=self._run, name="paddock-channel", daemon=True)
        self._thread.start()

    def send(self, type: int, id: int, payload: bytes = b"") -> None:
        self.send_bytes(encode(type, id, payload))

    def send_bytes(self, data: bytes) -> None:
        """Send whole frames, one after the other. What does not fit now, the thread sends later."""
        if self.foreign:
            return
        with self._sending:
            if self._writing < 0:
                return
            sent = 0 if self._backlog else self._try(data)
            if sent < len(data):
                self._backlog += memoryview(data)[sent:]
                self._wake()

    def close(self) -> None:
        self.closing = True
        self._hang_up()

    def fail(self, error: Malformed) -> SandboxDiedError:
        self._blame(error)
        return self._give_up()

    def _give_up(self) -> SandboxDiedError:
        with self._sending:
            known = self.error = self.error or self._why()
            self._wake()
        return known

    def _try(self, data: bytes | bytearray) -> int:
        """Send what fits; how much that was. What the other side does not take because it is gone counts as sent."""
        try:
            return os.write(self._writing, data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            return len(data)  # the reading side notices the end

    def _wake(self) -> None:
        if self._waking >= 0:
            with suppress(BlockingIOError):  # it has not even heard the last
                os.write(self._waking, b"!")

    def _hang_up(self) -> None:
        with self._sending:
            if self._writing >= 0:
                os.close(self._writing)
                self._writing = -1
            self._backlog.clear()

    def _run(self) -> None:
        try:
            while self.error is None and (data := self._receive()):
                if not self._spread(data):
                    break
        except OSError:
            pass  # as good as the end
        if self.error is None:
            self.error = self._why()
        self._let_go()
        for id, listener in list(self._listeners.items()):
            if listener.blocking and self._listeners.pop(id, None) is not None:
                listener.lost(self.error)  # here: the loop may be the one that waits
        self._on_loop(self._end)

    def _receive(self) -> bytes:
        """What comes, b"" at the end; meanwhile, send what waits."""
        while self.error is None:
            waits = select.poll()
            waits.register(self._reading, select.POLLIN)
            waits.register(self._woken, select.POLLIN)
            with self._sending:
                if self._backlog:
                    waits.register(self._writing, select.POLLOUT)
            ready = {fd for fd, _ in waits.poll()}
            if self._woken in ready:
                os.read(self._woken, _PIECE)
            if self._reading in ready:
                with suppress(BlockingIOError):
                    return os.read(self._reading, _PIECE)
            if ready - {self._woken}:
                self._flush()
        return b""

    def _flush(self) -> None:
        with self._sending:
            if self._writing >= 0:
                del self._backlog[: self._try(self._backlog)]

    def _let_go(self) -> None:
        self._hang_up()
        with self._sending:
            for fd in (self._reading, self._woken, self._waking):
                os.close(fd)
            self._waking = -1

    def _spread(self, data: bytes) -> bool:
        """Tell those who wait in threads here, and the others on the loop. False when the channel has to end."""
        others: list[Frame] = []
        try:
            for frame in self._decoder.feed(data):
                listener = self._listeners.get(frame.id)
                if frame.type == Reply.ERROR:
                    self._heard_error(frame.payload)
                    return False
                if listener is not None and listener.blocking:
                    listener.frame(frame)
                else:
                    others.append(frame)
        except Malformed as error:
            self._blame(error)
            return False
        finally:
            if others:
                self._on_loop(lambda: self._deliver_here(others))
        return True

    def _deliver_here(self, frames: list[Frame]) -> None:
        if not self._deliver(frames):
            self._give_up()

    def _on_loop(self, action: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self.loop.call_soon_threadsafe(action)


def peer_of(sock: socket.socket) -> tuple[int, int]:
    """The pid and the user of whoever connected, as they are here."""
    pid, uid, _ = _PEER.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return pid, uid


def _descriptors(control: Sequence[tuple[int, int, bytes]]) -> list[int]:
    found = array("i")
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    if not _CLOSE_ON_EXEC:
        for fd in found:
            os.set_inheritable(fd, False)
    return list(found)


def _close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)


def root_payload(path: str) -> bytes:
    """The payload of `ROOT`."""
    return pack_text(os.fsencode(path))
