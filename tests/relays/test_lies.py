"""A host that does not keep to the protocol, and a supervisor that does not: neither gets further than a channel's end."""

import asyncio
import os
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import descriptors
from paddock import SandboxDiedError
from paddock.backends.supervised import relays
from paddock.backends.supervised.connections import WINDOW
from paddock.backends.supervised.relays import Relays
from paddock.driver import Connection
from paddock.types.ports import RelayAddress
from paddock.wire.channel import Channel, SocketChannel, StreamChannel
from paddock.wire.fields import pack_text, pack_u32
from paddock.wire.frames import Decoder, Frame, Reply, Request, encode
from supervisor.host import Conversation
from wire.building import Sanitized

# Hosts


class Talk(Conversation):
    """A host that says what it likes to a supervisor that notices what it does wrong."""

    def __init__(self, program: Path, directory: Path, *, sock: bool) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            words = ["--channel", str(theirs.fileno())] if sock else ["--stdio"]
            self.process = subprocess.Popen(
                [program, *words],
                stdin=subprocess.DEVNULL if sock else theirs.fileno(),
                stdout=subprocess.DEVNULL if sock else theirs.fileno(),
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()] if sock else [],
                env={},
            )
        super().__init__(ours, ours)
        self.path = str(directory / "s")
        self.greet()

    def listen(self, path: str = "", port: int = 0) -> int:
        id_ = self.new_id()
        self.send(Request.LISTEN, id_, pack_text(os.fsencode(path)) + struct.pack("<H", port))
        self.port = struct.unpack("<H", self.wait(Reply.LISTENING, id_).payload)[0]
        return id_

    def accept(self, listener: int, window: int = 1000, *, descriptor: bool = False) -> int:
        id_ = self.new_id()
        self.send(Request.ACCEPT, id_, struct.pack("<IBI", listener, descriptor, window))
        return id_

    def connect(self, path: str = "", port: int = 0, window: int = 1000, *, descriptor: bool = False) -> int:
        id_ = self.new_id()
        payload = pack_text(os.fsencode(path)) + struct.pack("<HBI", port, descriptor, window)
        self.send(Request.CONNECT, id_, payload)
        return id_

    def pair(self) -> tuple[int, int]:
        """Both ends of one connection, in frames."""
        listener = self.listen(self.path)
        accepted, connected = self.accept(listener), self.connect(self.path)
        for id_ in (accepted, connected):
            self.wait(Reply.CONNECTED, id_)
        return accepted, connected

    def data(self, id_: int, size: int) -> bytes:
        found = b""
        while len(found) < size:
            found += self.wait(Reply.DATA, id_).payload
        return found

    def ends(self) -> bytes:
        """Its last words; it has to end by itself, well."""
        frames = self.last_words()
        assert self.process.wait(30) == 0
        self.hang_up()
        return frames[-1].payload if frames and frames[-1].type == Reply.ERROR else b""

    def close(self) -> None:
        self.hang_up()
        assert self.process.wait(30) == 0


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Sanitized:
    return Sanitized(tmp_path_factory.mktemp("sanitized"))


@pytest.fixture(params=["stdio", "socket"])
def talk(request: pytest.FixtureRequest, sanitized: Sanitized, tmp_path: Path) -> Iterator[Talk]:
    short = Path("/tmp") / f"paddock-relay-{os.getpid()}"
    short.mkdir()
    try:
        with sanitized.clean():
            talk = Talk(sanitized.program, short, sock=request.param == "socket")
            yield talk
            talk.hang_up()
            talk.process.wait(30)
        assert list(short.iterdir()) == []  # sockets go with whoever made them
    finally:
        short.rmdir()


def test_as_it_should_be(talk: Talk) -> None:
    one, other = talk.pair()
    talk.send(Request.PASS, one, b"hello")
    assert talk.data(other, 5) == b"hello"
    talk.send(Request.PASS, other, b"")
    assert talk.wait(Reply.DATA, one).payload == b""
    talk.send(Request.PASS, one, b"and more")
    assert talk.data(other, 8) == b"and more"
    talk.send(Request.HANG_UP, one, b"\0")
    talk.wait(Reply.OK, one)
    assert talk.wait(Reply.DATA, other).payload == b""
    talk.close()


def test_no_more_is_sent_than_the_window_allows(talk: Talk) -> None:
    one, other = talk.pair()
    talk.send(Request.PASS, one, bytes(5000))
    assert talk.data(other, 1000) == bytes(1000)
    assert talk.quiet(Reply.DATA, other)
    talk.send(Request.ALLOW, other, pack_u32(700))
    assert talk.data(other, 700) == bytes(700)
    assert talk.quiet(Reply.DATA, other)
    talk.send(Request.ALLOW, other, pack_u32(0xFFFFFFFF))
    talk.send(Request.ALLOW, other, pack_u32(0xFFFFFFFF))
    assert talk.data(other, 3300) == bytes(3300)
    talk.close()


def test_what_was_taken_is_told(talk: Talk) -> None:
    one, other = talk.pair()
    talk.send(Request.ALLOW, other, pack_u32(1 << 24))
    for _ in range(2):
        talk.send(Request.PASS, one, bytes(WINDOW // 2))
    told = 0
    while told < WINDOW:
        told += struct.unpack("<I", talk.wait(Reply.WINDOW, one).payload)[0]
    assert told == WINDOW
    assert talk.data(other, WINDOW) == bytes(WINDOW)
    talk.close()


def test_what_waits_arrives_when_the_host_has_hung_up(talk: Talk) -> None:
    one, other = talk.pair()
    size = fill(talk, one)
    talk.send(Request.HANG_UP, one, b"\0")
    talk.wait(Reply.OK, one)
    talk.send(Request.ALLOW, other, pack_u32(1 << 30))
    assert len(talk.data(other, size - 1000)) >= size - 1000
    talk.close()


def fill(talk: Talk, id_: int) -> int:
    """Send until it is taken no further, and the whole window waits."""
    size = left = 0
    while True:
        talk.send(Request.PASS, id_, bytes(WINDOW // 4))
        size += WINDOW // 4
        left += WINDOW // 4
        try:
            while left:
                seconds = 0.3 if left == WINDOW else 0.02
                left -= struct.unpack("<I", talk.wait(Reply.WINDOW, id_, seconds).payload)[0]
        except TimeoutError:
            if left == WINDOW:
                return size


def test_more_than_may_wait_ends_the_channel(talk: Talk) -> None:
    one, _ = talk.pair()
    fill(talk, one)
    talk.send(Request.PASS, one, b"x")
    assert b"does not have the fields" in talk.ends()


def again(talk: Talk) -> None:
    one, _ = talk.pair()
    talk.send(Request.CONNECT, one, pack_text(os.fsencode(talk.path)) + struct.pack("<HBI", 0, 0, 1))


def again_a_listener(talk: Talk) -> None:
    listener = talk.listen(talk.path)
    talk.send(Request.LISTEN, listener, pack_text(b"") + b"\0\0")


def again_one_that_is_awaited(talk: Talk) -> None:
    listener = talk.listen(talk.path)
    talk.send(Request.ACCEPT, talk.accept(listener), struct.pack("<IBI", listener, 0, 1))


def descriptors_with_it(talk: Talk) -> None:
    one, _ = talk.pair()
    talk.send(Request.PASS, one, b"x", [0])


@pytest.mark.parametrize("lie", [again, again_a_listener, again_one_that_is_awaited, descriptors_with_it])
def test_what_makes_no_sense_ends_the_channel(talk: Talk, lie: Callable[[Talk], None]) -> None:
    lie(talk)
    assert b"does not have the fields" in talk.ends()


def test_what_is_not_there_is_no_harm(talk: Talk) -> None:
    for type_, payload in (
        (Request.PASS, b"x"),
        (Request.PASS, b""),
        (Request.ALLOW, pack_u32(1)),
        (Request.HANG_UP, b"\0"),
        (Request.HANG_UP, b"\1"),
    ):
        talk.send(type_, 999, payload)
    with pytest.raises(OSError, match="Bad file descriptor"):
        talk.wait(Reply.CONNECTED, talk.accept(12345))
    with pytest.raises(OSError, match="Invalid argument"):
        talk.wait(Reply.CONNECTED, talk.connect())
    with pytest.raises(OSError, match="Invalid argument"):
        talk.wait(Reply.CONNECTED, talk.connect("@abstract"))
    with pytest.raises(OSError, match="Invalid argument"):
        talk.wait(Reply.CONNECTED, talk.connect(talk.path, 80))
    with pytest.raises(OSError, match="Invalid argument"):
        talk.listen("relative")
    with pytest.raises(OSError, match="Invalid argument"):
        talk.listen(talk.path, 80)
    talk.pair()
    talk.close()


def test_bounds(talk: Talk) -> None:
    listener = talk.listen(talk.path)
    awaited = [talk.accept(listener) for _ in range(64)]
    with pytest.raises(OSError, match="Too many open files"):
        talk.wait(Reply.CONNECTED, talk.accept(listener))
    talk.send(Request.HANG_UP, awaited[0], b"\0")
    talk.accept(listener)
    for _ in range(63):
        talk.listen()
    with pytest.raises(OSError, match="Too many open files"):
        talk.listen()
    talk.close()


def _wait_for_the_end(talk: Talk, connection: int) -> None:
    """That the other side of it was cut off may be told before: it depends on who was quicker."""
    try:
        talk.wait(Reply.OK, connection)
    except ConnectionResetError:
        talk.wait(Reply.OK, connection)


def test_hung_up_in_every_state(talk: Talk) -> None:
    listener = talk.listen()
    port = talk.port
    for now in (b"\0", b"\1"):
        accepted, connected = talk.accept(listener), talk.connect(port=port)
        talk.send(Request.HANG_UP, connected, now)  # under way, or there
        talk.wait(Reply.OK, connected)
        for _ in range(2):
            talk.send(Request.HANG_UP, accepted, now)
            _wait_for_the_end(talk, accepted)
    talk.accept(listener)
    talk.send(Request.HANG_UP, listener, b"\0")
    talk.wait(Reply.OK, listener)
    with pytest.raises(ConnectionRefusedError):
        talk.wait(Reply.CONNECTED, talk.connect(port=port))
    talk.close()


def test_a_host_that_leaves_without_a_word(talk: Talk) -> None:
    talk.pair()
    talk.listen()
    talk.accept(talk.listen())
    talk.close()


def test_a_host_that_hears_nothing_holds_up_itself(talk: Talk) -> None:
    """Connections that it is not told of wait with the kernel."""
    listener = talk.listen(talk.path)
    for _ in range(20):
        talk.accept(listener, 1 << 20)
    socks = []
    for _ in range(20):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(talk.path)
        sock.setblocking(False)
        socks.append(sock)
    sent = 0
    for _ in range(200):
        for sock in socks:
            try:
                sent += sock.send(bytes(65536))
            except BlockingIOError:
                continue
    status = Path(f"/proc/{talk.process.pid}/status").read_text()
    assert sent < 64 << 20
    assert "VmRSS" in status
    for sock in socks:
        sock.close()
    talk.close()


# Supervisors


class Lying:
    """Relays whose supervisor is us."""

    def __init__(self, kind: str) -> None:
        self.loop = asyncio.get_running_loop()
        self.complaints: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self.complaints.append(context))
        ours, self.theirs = socket.socketpair()
        self.theirs.setblocking(False)
        self.channel: Channel
        if kind == "socket":
            self.channel = SocketChannel(ours, self.loop)
        else:
            self.channel = StreamChannel(ours.fileno(), os.dup(ours.fileno()), self.loop)
            ours.detach()
        self.kind = kind
        self.relays = Relays(self.channel)
        self._decoder = Decoder()
        self.heard: list[Frame] = []

    def say(self, data: bytes, fds: list[int] | None = None) -> None:
        if fds:
            socket.send_fds(self.theirs, [data], fds)
            for fd in fds:
                os.close(fd)
        else:
            self.theirs.send(data)

    async def asked(self, type_: Request) -> Frame:
        """The next request of this type."""
        async with asyncio.timeout(20):
            while True:
                for at, frame in enumerate(self.heard):
                    if frame.type == type_:
                        return self.heard.pop(at)
                try:
                    self.heard += self._decoder.feed(self.theirs.recv(65536))
                except BlockingIOError:
                    await asyncio.sleep(0.001)

    async def connecting(self) -> tuple["asyncio.Task[Any]", int]:
        task = asyncio.ensure_future(self.relays.connect(RelayAddress.loopback(80)))
        return task, (await self.asked(Request.CONNECT)).id

    async def connected(self) -> tuple[Any, int, list[socket.socket]]:
        """As it should be."""
        task, id_ = await self.connecting()
        if self.kind == "socket":
            ours, theirs = socket.socketpair()
            self.say(encode(Reply.CONNECTED, id_, b"", 1), [theirs.detach()])
            return await task, id_, [ours]
        self.say(encode(Reply.CONNECTED, id_))
        return await task, id_, []

    async def close(self) -> None:
        await self.relays.close()
        self.channel.close()
        self.theirs.close()
        await asyncio.wait_for(self.channel.ended(), 10)
        if isinstance(self.channel, StreamChannel):
            await asyncio.to_thread(self.channel._thread.join)


def run(kind: str, what: Callable[[Lying], Any]) -> None:
    """Do it; nothing is left, and nobody complains."""
    before, used = descriptors.count(), relays.budget._used

    async def it() -> None:
        lying = Lying(kind)
        try:
            await what(lying)
        finally:
            await lying.close()
        await asyncio.sleep(0)
        assert lying.complaints == []

    asyncio.run(it())
    assert relays.budget._used == used
    assert descriptors.back_to(before)


KINDS = ("socket", "stream")


@pytest.mark.parametrize("kind", KINDS)
def test_a_supervisor_that_keeps_to_it(kind: str) -> None:
    async def talk(lying: Lying) -> None:
        connection, id_, ends = await lying.connected()
        if ends:
            ends[0].send(b"hello")
            assert await connection.read() == b"hello"
            ends[0].close()
        else:
            lying.say(encode(Reply.DATA, id_, b"hello"))
            assert await connection.read() == b"hello"
            lying.say(encode(Reply.DATA, id_))
        assert await connection.read() == b""
        connection.close()

    run(kind, talk)


def _file() -> int:
    return os.open("/etc/passwd", os.O_RDONLY)


def _datagrams() -> int:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    other.close()
    return one.detach()


def _listening() -> int:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen()
    return sock.detach()


def _netlink() -> int:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).detach()


@pytest.mark.parametrize("make", [_file, _datagrams, _listening, _netlink])
def test_a_descriptor_that_is_no_connection(make: Callable[[], int]) -> None:
    async def talk(lying: Lying) -> None:
        task, id_ = await lying.connecting()
        lying.say(encode(Reply.CONNECTED, id_, b"", 1), [make()])
        with pytest.raises(SandboxDiedError, match="does not keep to the protocol"):
            await asyncio.wait_for(task, 10)

    run("socket", talk)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("socket", lambda id_: encode(Reply.CONNECTED, id_)),
        ("socket", lambda id_: encode(Reply.CONNECTED, id_, b"x", 1)),
        ("socket", lambda id_: encode(Reply.CONNECTED, id_, b"", 2)),
        ("stream", lambda id_: encode(Reply.CONNECTED, id_, b"x")),
        ("stream", lambda id_: encode(Reply.DATA, id_, b"x")),
        ("stream", lambda id_: encode(Reply.OK, id_)),
        ("socket", lambda id_: encode(Reply.LISTENING, id_, b"\0\0")),
        ("socket", lambda id_: encode(Reply.FAILED, id_, b"\1")),
        ("stream", lambda id_: encode(Reply.FAILED, id_, pack_u32(0xFFFF) + b"\0")),
    ],
    ids=range(9),
)
def test_connections_that_come_in_another_way(kind: str, data: Callable[[int], bytes]) -> None:
    async def talk(lying: Lying) -> None:
        task, id_ = await lying.connecting()
        frame = data(id_)
        lying.say(frame, [_file() for _ in range(frame[5])])
        with pytest.raises(SandboxDiedError):
            await asyncio.wait_for(task, 10)

    run(kind, talk)


SENSELESS = {
    "more than was asked for": lambda id_: encode(Reply.DATA, id_, bytes(WINDOW)) + encode(Reply.DATA, id_, b"x"),
    "data behind the end": lambda id_: encode(Reply.DATA, id_) + encode(Reply.DATA, id_, b"x"),
    "two ends": lambda id_: encode(Reply.DATA, id_) * 2,
    "more taken than was sent": lambda id_: encode(Reply.WINDOW, id_, pack_u32(1)),
    "a window that is cut off": lambda id_: encode(Reply.WINDOW, id_, b"\1"),
    "a failure that is cut off": lambda id_: encode(Reply.FAILED, id_, b"\1"),
    "connected twice": lambda id_: encode(Reply.CONNECTED, id_),
    "something else": lambda id_: encode(Reply.NODE, id_, b""),
}


@pytest.mark.parametrize("data", SENSELESS.values(), ids=SENSELESS)
def test_frames_of_a_connection_that_make_no_sense(data: Callable[[int], bytes]) -> None:
    async def talk(lying: Lying) -> None:
        connection, id_, _ = await lying.connected()
        lying.say(data(id_))
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(_read_on(connection), 10)
        assert isinstance(lying.channel.error, SandboxDiedError)

    run("stream", talk)


@pytest.mark.parametrize("kind", KINDS)
def test_a_listener_without_its_port(kind: str) -> None:
    async def talk(lying: Lying) -> None:
        task = asyncio.ensure_future(lying.relays.listen(RelayAddress.loopback(), _ignore))
        asked = await lying.asked(Request.LISTEN)
        lying.say(encode(Reply.LISTENING, asked.id, b"\1"))
        with pytest.raises(SandboxDiedError):
            await asyncio.wait_for(task, 10)

    run(kind, talk)


async def _ignore(connection: Connection) -> None:
    pass


async def _read_on(connection: Connection) -> None:
    while True:
        await connection.read()
        await asyncio.sleep(0)


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_though_it_was_given_up_is_closed(kind: str) -> None:
    async def talk(lying: Lying) -> None:
        task, id_ = await lying.connecting()
        task.cancel()
        await asyncio.wait([task])
        assert (await lying.asked(Request.HANG_UP)).id == id_
        if kind == "socket":
            ours, theirs = socket.socketpair()
            lying.say(encode(Reply.CONNECTED, id_, b"", 1), [theirs.detach()])
            ours.settimeout(10)
            assert await asyncio.to_thread(ours.recv, 1) == b""
            ours.close()
        else:
            lying.say(encode(Reply.CONNECTED, id_) + encode(Reply.DATA, id_, b"x"))
        again, _, ends = await lying.connected()
        again.close()
        for end in ends:
            end.close()

    run(kind, talk)


def test_no_more_are_waited_for_than_there_is_room_for() -> None:
    """A supervisor that fails every one is not asked again and again."""

    async def talk(lying: Lying) -> None:
        task = asyncio.ensure_future(lying.relays.listen(RelayAddress.loopback(), _ignore))
        asked = await lying.asked(Request.LISTEN)
        lying.say(encode(Reply.LISTENING, asked.id, b"\1\1"))
        listener = await task
        assert listener.address == RelayAddress.loopback(0x101)
        for _ in range(8):
            lying.say(encode(Reply.FAILED, (await lying.asked(Request.ACCEPT)).id, pack_u32(24) + b"\0"))
        await asyncio.sleep(0.03)
        assert not lying.heard
        lying.say(encode(Reply.FAILED, (await lying.asked(Request.ACCEPT)).id, pack_u32(24) + b"\0"))
        closing = asyncio.ensure_future(listener.close())
        while (hung := await lying.asked(Request.HANG_UP)).id != asked.id:
            pass
        lying.say(encode(Reply.OK, hung.id))
        await closing

    run("stream", talk)


def test_a_socket_that_somebody_else_reads_as_well() -> None:
    """Who shares it can take what is there, and make it one that waits. The loop is not held up."""

    async def talk(lying: Lying) -> None:
        task, id_ = await lying.connecting()
        ours, theirs = socket.socketpair()
        lying.say(encode(Reply.CONNECTED, id_, b"", 1), [os.dup(theirs.fileno())])
        connection = await task
        theirs.setblocking(True)  # which is so for both
        reading = asyncio.ensure_future(connection.read())
        for _ in range(50):
            ours.send(b"x")
            theirs.recv(1)
            await asyncio.sleep(0)
        assert not reading.done()
        ours.send(b"at last")
        assert await asyncio.wait_for(reading, 10) == b"at last"
        writing = asyncio.ensure_future(connection.write(bytes(8 << 20)))
        await asyncio.sleep(0.05)
        assert not writing.done()
        connection.close()
        with pytest.raises(ConnectionError):
            await writing
        ours.close()
        theirs.close()

    run("socket", talk)
