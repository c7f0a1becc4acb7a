"""How a command's input and output travel: through pipes of the host's own, or in frames."""

import errno
import fcntl
import os
import resource
import struct
import termios
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from paddock.backends.supervised.output import Output, Stream
from paddock.wire.channel import Channel
from paddock.wire.fields import Malformed
from paddock.wire.frames import MAX_DATA, Request

if TYPE_CHECKING:
    import asyncio

WINDOW = 1 << 20
INPUT_WINDOW = 256 << 10
MOST_KEPT = 1 << 20
"""Of each stream, by the supervisor, for those who attach."""
END_OF_INPUT = b"\x04"
_READ = 64 << 10
_MOST_LEFT = 4 << 20
_LARGE_PIPE = 1 << 20
_TURNS = 16
_NOTHING_YET = (errno.EAGAIN, errno.EINTR)
_BOTH: tuple[Stream, Stream] = ("stdout", "stderr")
_PATIENCE, _LONGEST_PATIENCE = 0.002, 0.008
"""Seconds after which a command's pipes are looked at, twice as long each time; after the last they are read as it goes."""


class Streams(Protocol):
    """The input and output of one command."""

    def pause(self) -> None:
        """Read no more for now: somebody is behind."""

    def resume(self) -> None:
        """Read on."""

    def finish(self) -> None:
        """The command has ended: read what is left."""

    def close(self) -> None:
        """Let go of everything."""

    async def write(self, data: bytes) -> None:
        """Send all of it, or `BrokenPipeError`."""

    async def close_stdin(self) -> None:
        """No more input."""

    def resize(self, rows: int, columns: int) -> None:
        """The size of the terminal."""


class Budget:
    """A share of the descriptors that this process may have; beyond that bytes travel in frames."""

    def __init__(self, share: int) -> None:
        self._share = share
        self._used = 0

    def take(self) -> bool:
        if self._used >= resource.getrlimit(resource.RLIMIT_NOFILE)[0] // self._share:
            return False
        self._used += 1
        return True

    def give_back(self) -> None:
        self._used -= 1


budget = Budget(8)
"""For the pipes of commands."""


class Pipes:
    """The pipes of one command: our ends, and the command's, which are sent to it."""

    def __init__(self, count: int) -> None:
        """Two, for output and errors, or one more before them for input; or none."""
        self.ours: list[int] = []
        self.theirs: list[int] = []
        """In the order in which they are sent."""
        try:
            while len(self.ours) < count:
                ours, theirs = os.pipe()
                self.ours.append(ours)
                self.theirs.append(theirs)
            if count > len(_BOTH):  # the first one goes the other way
                self.ours[0], self.theirs[0] = self.theirs[0], self.ours[0]
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """They are not used after all."""
        for fd in (*self.ours, *self.theirs):
            os.close(fd)

    def sent(self) -> None:
        """The command has its ends: ours are all we need."""
        while self.theirs:
            os.close(self.theirs.pop())
        for fd in self.ours:
            os.set_blocking(fd, False)


class PipeStreams:
    """Pipes of the host's own, whose other ends the command holds: nothing passes through the supervisor."""

    def __init__(self, channel: Channel, output: Output, pipes: Sequence[int] = ()) -> None:
        """With our ends of the pipes."""
        self._channel = channel
        self._loop = channel.loop
        self._output = output
        self._watched = False
        self._timer: asyncio.TimerHandle | None = None
        self._input = Feed(self._loop)
        self._reading: dict[int, Stream] = dict(zip(pipes[-2:], _BOTH, strict=False))
        if len(pipes) > len(_BOTH):
            self._input.open(pipes[0])

    def pause(self) -> None:
        if self._watched:
            self._watched = False
            for fd in self._reading:
                self._loop.remove_reader(fd)

    def resume(self) -> None:
        if not self._watched:
            self._watched = True
            for fd in self._reading:
                self._loop.add_reader(fd, self._readable, fd)

    def resume_later(self, seconds: float = _PATIENCE) -> None:
        """Read on once something was printed: most commands end before, and then all of it is read at once."""
        self._timer = self._loop.call_later(seconds, self._look, seconds)

    def _look(self, seconds: float) -> None:
        if seconds >= _LONGEST_PATIENCE or any(_holds_something(fd) for fd in self._reading):
            self.resume()
        else:
            self.resume_later(2 * seconds)

    def finish(self) -> None:
        held = [fd for fd in self._reading if self._drain(fd)]
        self.pause()
        if held:  # by children that live on: what they print is dropped, but they must be able to print it
            self._channel.hand_over(held, Request.DROP)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.pause()
        while self._reading:
            os.close(self._reading.popitem()[0])
        self._input.close()

    async def write(self, data: bytes) -> None:
        await self._input.write(data)

    async def close_stdin(self) -> None:
        await self._input.end()

    def resize(self, rows: int, columns: int) -> None:
        pass  # there is no terminal

    def _add(self, fd: int, stream: Stream) -> None:
        self._reading[fd] = stream
        if self._watched:
            self._loop.add_reader(fd, self._readable, fd)

    def _readable(self, fd: int) -> None:
        for turn in range(_TURNS):  # and then it is somebody else's turn
            data = _read(fd, _READ)
            if data is None:
                return
            if not data:
                self._close(fd)
                return
            if turn == 0 and len(data) == _READ:  # a lot is coming: make room for it, so that both sides work at once
                _widen(fd)
            self._output.take(self._reading[fd], data)
            if self._output.behind:
                self.pause()
                return
            if len(data) < _READ:
                return

    def _drain(self, fd: int) -> bool:
        """Read what is there; whether somebody still holds the other end."""
        left = _MOST_LEFT
        while left > 0:
            data = _read(fd, _READ)
            if data is None:
                return True
            if not data:
                return False
            left -= len(data)
            self._output.take(self._reading[fd], data)
        return True

    def _close(self, fd: int) -> None:
        if self._watched:
            self._loop.remove_reader(fd)
        del self._reading[fd]
        os.close(fd)


class TerminalStreams(PipeStreams):
    """A terminal whose descriptor the supervisor sent: input and output are one."""

    def open(self, fd: int) -> None:
        """Use this descriptor, and close it in the end."""
        os.set_blocking(fd, False)
        self._add(fd, "stdout")
        self._input.open(os.dup(fd))

    def finish(self) -> None:
        for fd in self._reading:
            self._drain(fd)
        self.pause()

    async def close_stdin(self) -> None:
        await self._input.write(END_OF_INPUT)

    def resize(self, rows: int, columns: int) -> None:
        for fd in self._reading:
            fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class Feed:
    """The writing end of a pipe to a command."""

    def __init__(self, loop: "asyncio.AbstractEventLoop") -> None:
        self._loop = loop
        self._fd = -1
        self._turn: asyncio.Future[None] | None = None
        self._busy = False

    def open(self, fd: int) -> None:
        """Write to this descriptor, and close it in the end."""
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK)
        self._fd = fd

    async def write(self, data: bytes) -> None:
        """Send all of it. Writers take turns."""
        while self._busy:
            await self._wait()
        self._busy = True
        try:
            view = memoryview(data)
            while len(view):
                if self._fd < 0:
                    raise BrokenPipeError("standard input is closed")
                try:
                    view = view[os.write(self._fd, view) :]
                except BlockingIOError:
                    await self._writable()
                except OSError as error:
                    self.close()
                    raise BrokenPipeError("the command no longer reads its standard input") from error
        finally:
            self._busy = False
            self._wake()

    async def end(self) -> None:
        """Close it after what is being written."""
        while self._busy:
            await self._wait()
        self.close()

    def close(self) -> None:
        """Close it now."""
        if self._fd >= 0:
            self._loop.remove_writer(self._fd)
            os.close(self._fd)
            self._fd = -1
        self._wake()

    async def _writable(self) -> None:
        self._loop.add_writer(self._fd, self._wake)
        try:
            await self._wait()
        finally:
            if self._fd >= 0:
                self._loop.remove_writer(self._fd)

    async def _wait(self) -> None:
        import asyncio

        if self._turn is None or self._turn.done():
            self._turn = self._loop.create_future()
        await asyncio.shield(self._turn)

    def _wake(self) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)


class FrameStreams:
    """Frames, where no descriptors travel, too many are open, or the command outlives us.

    The window is given back as output is taken. Of a command that was `attached` to, what was kept comes first, and how much
    input it takes is told.
    """

    def __init__(
        self, channel: Channel, id: int, output: Output, *, pty: bool, stdin: bool, attached: bool = False
    ) -> None:
        self._channel = channel
        self._id = id
        self._output = output
        self._pty = pty
        self._owed = 0
        self._allowed = WINDOW + _MOST_LEFT + (2 * MOST_KEPT if attached else 0)
        self._room = 0 if attached else INPUT_WINDOW
        self._open = stdin or pty
        self._more: asyncio.Future[None] | None = None
        self._writing: asyncio.Lock | None = None

    def received(self, stream: Stream, data: bytes) -> None:
        """A piece of output."""
        self._allowed -= len(data)
        if self._allowed < 0:
            raise Malformed("more output than was asked for")
        self._output.take(stream, data)
        self._owed += len(data)
        if self._owed >= WINDOW // 2 and not self._output.behind:
            self.resume()

    def granted(self, size: int) -> None:
        """The supervisor takes so much more input."""
        self._room += size
        self._wake()

    def broken(self) -> None:
        """The command no longer reads."""
        self._open = False
        self._wake()

    def pause(self) -> None:
        pass  # the window is held back by itself

    def resume(self) -> None:
        if self._owed:
            owed, self._owed = self._owed, 0
            self._allowed += owed
            self._channel.send(Request.WINDOW, self._id, struct.pack("<I", owed))

    def finish(self) -> None:
        self.broken()

    def close(self) -> None:
        pass  # there is nothing to let go of

    async def write(self, data: bytes) -> None:
        """Send all of it. Writers take turns."""
        async with self._turn():
            view = memoryview(data)
            while len(view):
                if not self._open:
                    raise BrokenPipeError("the command no longer reads its standard input")
                if self._room <= 0:
                    await self._room_again()
                    continue
                part = bytes(view[: min(self._room, MAX_DATA)])
                view = view[len(part) :]
                self._room -= len(part)
                self._channel.send(Request.INPUT, self._id, part)

    async def close_stdin(self) -> None:
        async with self._turn():
            if self._open:
                self._open = self._pty
                self._channel.send(Request.INPUT, self._id)

    def resize(self, rows: int, columns: int) -> None:
        self._channel.send(Request.RESIZE, self._id, struct.pack("<HH", rows, columns))

    def _turn(self) -> "asyncio.Lock":
        import asyncio

        if self._writing is None:
            self._writing = asyncio.Lock()
        return self._writing

    async def _room_again(self) -> None:
        import asyncio

        if self._more is None or self._more.done():
            self._more = self._channel.loop.create_future()
        await asyncio.shield(self._more)

    def _wake(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)


def _read(fd: int, size: int) -> bytes | None:
    """What is there: b"" at the end, None while there is nothing yet."""
    try:
        return os.read(fd, size)
    except OSError as error:
        return None if error.errno in _NOTHING_YET else b""  # a terminal ends with EIO


def _holds_something(fd: int) -> bool:
    return any(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))


def _widen(fd: int) -> None:
    """Make a pipe hold more, if the kernel lets us."""
    with suppress(OSError):
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _LARGE_PIPE)
