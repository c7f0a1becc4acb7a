"""A supervisor that somebody else controls: whatever it says, the host raises what it documents, does not wait for ever, and
loses no descriptor."""

import asyncio
import errno
import os
import pty
import socket
import struct
import sys
import textwrap
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import descriptors
from paddock import LimitReachedError, Limits, Sandbox, SandboxDiedError, SandboxError, UnavailableError
from paddock.backends.local import Local
from paddock.backends.supervised import relays
from paddock.backends.supervised.driver import Root, SupervisedDriver
from paddock.backends.supervised.streams import budget
from paddock.dirs.protocol import Dir
from paddock.driver import Connection, Spawn
from paddock.types import Guarantee, Isolation
from paddock.types.ports import RelayAddress
from paddock.wire.blocking import BlockingCalls
from paddock.wire.channel import Channel, SocketChannel, StreamChannel, greet
from paddock.wire.dir import WireDir
from paddock.wire.fields import pack_text, pack_u32
from paddock.wire.frames import HEADER, Decoder, Frame, Reply, Request, encode
from wire.vectors import BAD, GOOD

NO = Guarantee(False, "")
NOTHING = Isolation(files=NO, processes=NO, network=NO, syscalls=NO)
KINDS = ("socket", "stream")
FIRST, BACKGROUND, TERMINAL, PROCESSES, STAT, WATCHER = 1, 2, 3, 4, 5, 6
RELAYED = {"socket": (6, 7, 8), "stream": (7, 8, 9)}
"""A connection, a listener, and one who may come there."""
ROOT = 77


def _spawn(*, background: bool, pty: bool = False) -> Spawn:
    return Spawn(("x",), False, "/", "/", "", {}, not pty, pty, background, 1000, cast("Any", None))


class Host:
    """A driver whose supervisor is us, and everybody who can wait for it."""

    def __init__(self, kind: str) -> None:
        self.loop = asyncio.get_running_loop()
        self.complaints: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self.complaints.append(context))
        self.channel: Channel
        if kind == "socket":
            ours, self.theirs = socket.socketpair()
            self.channel = SocketChannel(ours, self.loop)
        else:
            ours, self.theirs = socket.socketpair()
            reading, writing = os.pipe()
            self.deaf = reading
            self.channel = StreamChannel(ours.detach(), writing, self.loop)
        self.kind = kind
        roots = {"/": Root(ROOT, cast("Dir", None), None)}
        self.driver = SupervisedDriver(self.channel, roots, NOTHING, {}, self._no_end)
        self.tasks: list[asyncio.Task[object]] = []

    async def _no_end(self) -> None:
        pass

    def _begin(self, action: Awaitable[object]) -> None:
        self.tasks.append(asyncio.ensure_future(cast("Any", action)))

    async def wait_for_everything(self) -> None:
        first = await self.driver.spawn(_spawn(background=False))
        self._begin(first.wait())
        self._begin(first.write(bytes(1 << 20)))
        self._begin(self._read(first.chunks()))
        self._begin(self.driver.spawn(_spawn(background=True)))
        await asyncio.sleep(0)
        self._begin(self.driver.spawn(_spawn(background=True, pty=True)))
        await asyncio.sleep(0)
        self._begin(self.driver.processes())
        await asyncio.sleep(0)
        if isinstance(self.channel, StreamChannel):
            self.dir = WireDir(BlockingCalls(self.channel), ROOT)
            self._begin(asyncio.to_thread(self.dir.stat, "file"))
            await asyncio.sleep(0.001)
        self._begin(self.driver.connect(RelayAddress.loopback(80)))
        await asyncio.sleep(0)
        self._begin(self.driver.listen(RelayAddress.loopback(), self._stay))
        await asyncio.sleep(0)
        self._begin(first.kill())
        self._begin(self.channel.ended())
        await asyncio.sleep(0)

    async def _read(self, chunks: Any) -> None:
        async for _ in chunks:
            pass

    async def _stay(self, connection: Connection) -> None:
        with suppress(ConnectionError):
            while await connection.read():
                pass

    def say(self, data: bytes, fds: Sequence[int] = ()) -> None:
        with suppress(OSError):
            if fds and self.kind == "socket":
                socket.send_fds(self.theirs, [data], fds)
            else:
                self.theirs.sendall(data)

    async def all_have_ended(self) -> list[BaseException | None]:
        _, pending = await asyncio.wait(self.tasks, timeout=10)
        assert not pending, pending
        return [task.exception() for task in self.tasks]

    async def close(self) -> None:
        self.theirs.close()
        await asyncio.wait_for(self.channel.ended(), 10)
        await self.driver._relays.close()
        await asyncio.sleep(0)
        if isinstance(self.channel, StreamChannel):
            os.close(self.deaf)
            await asyncio.to_thread(self.channel._thread.join)


def _is_documented(error: BaseException | None) -> bool:
    if isinstance(error, OSError) and not isinstance(error, (BrokenPipeError, SandboxError)):
        return error.errno == errno.ENOTCONN  # a file call, of which the sandbox makes the other
    return error is None or isinstance(error, (SandboxError, BrokenPipeError))


async def _suffer(kind: str, said: Sequence[tuple[bytes, Sequence[int]]], *, ends: bool) -> list[BaseException | None]:
    host = Host(kind)
    await host.wait_for_everything()
    for data, fds in said:
        host.say(data, fds)
        for fd in fds:
            os.close(fd)
    if ends:  # by itself, without the other side hanging up
        await asyncio.wait_for(host.channel.ended(), 10)
    else:
        await asyncio.sleep(0.002)
        host.theirs.shutdown(socket.SHUT_WR)
    errors = await host.all_have_ended()
    await host.close()
    assert not host.complaints, host.complaints
    return errors


def _check(kind: str, said: Sequence[tuple[bytes, Sequence[int]]], *, ends: bool = False) -> list[BaseException | None]:
    """Everybody has ended, as documented, and nothing is left."""
    before = descriptors.count() - sum(len(fds) for _, fds in said)
    used, carried = budget._used, relays.budget._used
    errors = asyncio.run(_suffer(kind, said, ends=ends))
    assert [error for error in errors if not _is_documented(error)] == []
    assert descriptors.back_to(before)
    assert (budget._used, relays.budget._used) == (used, carried)
    return errors


REPLIES = [v for v in BAD if v.side != "requests"]
ENDED = struct.pack("<IIQQQ", 9, 0, 1, 2, 3)
LIST = b"\0" + pack_u32(1) + struct.pack("<IIHQ", FIRST, 5, 0, 0)
SENSELESS = {
    "output of no stream": encode(Reply.OUTPUT, TERMINAL, b""),
    "an end that is cut off": encode(Reply.ENDED, FIRST, ENDED[:-1]),
    "an end that is too long": encode(Reply.ENDED, FIRST, ENDED + b"\0"),
    "two ends": encode(Reply.ENDED, FIRST, ENDED) * 2,
    "an end and a failed start": encode(Reply.ENDED, FIRST, ENDED) + encode(Reply.FAILED, FIRST, b"\2\0\0\0\3"),
    "an error number from nowhere": encode(Reply.FAILED, FIRST, b"\xff\xff\xff\xff\3"),
    "an error number beyond the last": encode(Reply.FAILED, BACKGROUND, pack_u32(4096) + b"\4"),
    "a failure that is cut off": encode(Reply.FAILED, BACKGROUND, b"\2\0"),
    "a start that is cut off": encode(Reply.STARTED, BACKGROUND, b"\2\0"),
    "a start that is too long": encode(Reply.STARTED, BACKGROUND, bytes(5)),
    "a list that lies": encode(Reply.PROCESSES, PROCESSES, LIST),
    "a list that is too long": encode(Reply.PROCESSES, PROCESSES, bytes(6)),
    "a list that failed": encode(Reply.FAILED, PROCESSES, b"\2\0\0\0\0"),
    "a list of another type": encode(Reply.OK, PROCESSES),
    "a list of entries instead": encode(Reply.ENTRIES, PROCESSES, b"\1\0\0\0\0"),
    "a reason that is cut off": encode(Reply.ERROR, 0, b"\5\0\0\0abc"),
    "a reason that is too long": encode(Reply.ERROR, 0, pack_text(b"a") + b"b"),
    "a reason that is not UTF-8": encode(Reply.ERROR, 0, pack_text(b"\xff\x1b[2J")),
    "a reason": encode(Reply.ERROR, 0, pack_text(b"because")),
    "a descriptor that does not come": encode(Reply.OK, 0, b"", 1),
    "a header of another world": b"\xff" * HEADER.size,
}
ONLY_FRAMES = {
    "output of stream 3": encode(Reply.OUTPUT, FIRST, b"\3x"),
    "output of none": encode(Reply.OUTPUT, FIRST, b""),
    "a window that is cut off": encode(Reply.WINDOW, FIRST, b"\1\0"),
    "a window that is too long": encode(Reply.WINDOW, FIRST, bytes(5)),
}


def _cases() -> list[Any]:
    cases = [(kind, name, data) for kind in KINDS for name, data in SENSELESS.items() if name != "output of no stream"]
    cases += [("stream", name, data) for name, data in ONLY_FRAMES.items()]
    cases.append(("stream", "output of no stream", SENSELESS["output of no stream"]))
    return [pytest.param(kind, data, id=f"{kind}: {name}") for kind, name, data in cases]


@pytest.mark.parametrize(("kind", "data"), _cases())
def test_what_makes_no_sense_is_the_end_for_all(kind: str, data: bytes) -> None:
    errors = _check(kind, [(data, ())], ends=True)
    assert sum(isinstance(error, SandboxDiedError) for error in errors) >= 2


@pytest.mark.parametrize("kind", KINDS)
def test_every_vector_to_everybody(kind: str) -> None:
    """Malformed or not, and whoever it is for."""
    vectors = [v.data for v in (*REPLIES, *GOOD) if len(v.data) >= HEADER.size]
    for data in vectors:
        for id_ in (FIRST, TERMINAL, *RELAYED[kind]) if data[5] == 0 else (0,):
            _check(kind, [(data[:8] + pack_u32(id_) + data[12:], ())])


def _descriptors(what: str) -> list[int]:
    if what == "pipe":
        reading, writing = os.pipe()
        os.close(writing)
        return [reading]
    if what == "terminals":
        return list(pty.openpty())
    if what == "handle":
        return [os.open("/", os.O_PATH)]
    return [os.open("/etc/passwd", os.O_RDONLY)]


@pytest.mark.parametrize("what", ["pipe", "terminals", "file", "handle"])
@pytest.mark.parametrize("id_", [0, FIRST, BACKGROUND, TERMINAL, PROCESSES, *RELAYED["socket"]])
@pytest.mark.parametrize(
    "type_", [Reply.STARTED, Reply.OK, Reply.ENDED, Reply.OUTPUT, Reply.ERROR, Reply.PROCESSES, Reply.CONNECTED]
)
def test_descriptors_that_nobody_asked_for(what: str, id_: int, type_: Reply) -> None:
    fds = _descriptors(what)
    payload = {Reply.STARTED: pack_u32(9), Reply.ENDED: ENDED, Reply.OUTPUT: b"\1x"}.get(type_, b"")
    _check("socket", [(encode(type_, id_, payload, len(fds)), fds)])


def test_descriptors_without_a_frame_do_not_pile_up() -> None:
    said = [(encode(Reply.GONE, 99), _descriptors("file")) for _ in range(20)]
    _check("socket", said, ends=True)


def test_a_terminal_that_was_asked_for() -> None:
    """The same as above, but as it should be."""
    ours, theirs = pty.openpty()
    os.close(theirs)
    errors = _check("socket", [(encode(Reply.STARTED, TERMINAL, pack_u32(9), 1), [ours])])
    assert sum(error is None for error in errors) >= 2


def test_a_terminal_that_cannot_be_sent() -> None:
    """Its command runs, and nobody will ever have it: it is ended."""

    async def run() -> None:
        host = Host("socket")
        starting = asyncio.ensure_future(host.driver.spawn(_spawn(background=True, pty=True)))
        await asyncio.sleep(0)
        host.say(encode(Reply.FAILED, FIRST, pack_u32(errno.ETOOMANYREFS) + b"\4"))
        with pytest.raises(LimitReachedError) as raised:
            await starting
        assert raised.value.limit == "terminals"
        asked = Decoder().feed(await asyncio.to_thread(host.theirs.recv, 1 << 16), [])
        assert [(frame.type, frame.id) for frame in asked] == [(Request.SPAWN, FIRST), (Request.KILL, FIRST)]
        host.say(encode(Reply.ENDED, FIRST, ENDED) + encode(Reply.GONE, FIRST))
        host.say(encode(Reply.PROCESSES, PROCESSES, b"\0" + pack_u32(0)))
        await asyncio.sleep(0.01)
        assert host.channel.error is None
        await host.close()

    asyncio.run(run())


PIECES = st.one_of(
    st.binary(max_size=30).map(lambda data: (data, 0)),
    st.builds(
        lambda type_, id_, payload, fds: (encode(type_, id_, payload, fds), fds),
        st.one_of(st.sampled_from(list(Reply)), st.integers(0, 255)),
        st.integers(0, 9),
        st.one_of(st.sampled_from([v.data[12:] for v in (*GOOD, *REPLIES)]), st.binary(max_size=40)),
        st.integers(0, 2),
    ),
)


@pytest.mark.parametrize("kind", KINDS)
@settings(
    max_examples=500 if os.environ.get("PADDOCK_SOAK") else 60, deadline=None, suppress_health_check=list(HealthCheck)
)
@given(said=st.lists(PIECES, max_size=6))
def test_anything_at_all(kind: str, said: list[tuple[bytes, int]]) -> None:
    _check(kind, [(data, [os.open("/dev/null", os.O_RDWR) for _ in range(fds if data else 0)]) for data, fds in said])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "payload", [b"", b"\1\0", bytes(10), struct.pack("<HII", 1, 0, 1) + pack_text(b"\xff") + b"x"], ids=range(4)
)
def test_a_greeting_that_makes_no_sense(kind: str, payload: bytes) -> None:
    async def meet() -> None:
        host = Host(kind)
        host.say(encode(Reply.HELLO, 1, payload))
        with pytest.raises(SandboxDiedError, match="does not keep to the protocol"):
            await greet(host.channel)
        await host.close()

    asyncio.run(meet())


@pytest.mark.parametrize("kind", KINDS)
def test_a_supervisor_that_does_not_listen_holds_nobody_up(kind: str) -> None:
    async def talk() -> None:
        host = Host(kind)
        for _ in range(64):
            host.channel.send(Request.INPUT, 1, bytes(64 << 10))
        asking = asyncio.ensure_future(host.channel.ask(Request.PROCESSES, id=1))
        await asyncio.sleep(0)
        host.say(encode(Reply.FAILED, 1, pack_u32(2) + b"\0"))
        (frame,) = await asyncio.wait_for(asking, 5)
        assert frame.type == Reply.FAILED
        host.channel.close()
        await host.close()

    asyncio.run(talk())


def test_all_arrives_in_order_however_slowly_it_is_read() -> None:
    async def talk() -> None:
        host = Host("stream")
        expected = b""
        for number in range(300):
            frame = Frame(Request.INPUT, number, bytes([number % 251]) * 5000)
            host.channel.send(frame.type, frame.id, frame.payload)
            expected += encode(frame.type, frame.id, frame.payload)
        got = b""
        while len(got) < len(expected):
            got += await asyncio.to_thread(os.read, host.deaf, 30_000)
        assert got == expected
        await host.close()

    asyncio.run(talk())


@pytest.mark.parametrize("type_", [Reply.NODE, Reply.ENTRIES, Reply.OPENED, Reply.DATA, Reply.FAILED, Reply.WATCHED])
@pytest.mark.parametrize("payload", [b"", b"\0\0", b"\xff" * 5, b"\xff" * 60])
def test_file_calls_with_senseless_answers(type_: Reply, payload: bytes) -> None:
    def answer(host: Host) -> None:
        asked = b""
        while more := os.read(host.deaf, 1 << 16):
            asked += more
            while len(asked) >= HEADER.size:
                size, _, _, _, id_ = HEADER.unpack_from(asked)
                asked = asked[HEADER.size + size :]
                host.say(encode(type_, id_, payload))

    async def call() -> None:
        host = Host("stream")
        dir_ = WireDir(BlockingCalls(cast("StreamChannel", host.channel)), ROOT)
        task = asyncio.ensure_future(asyncio.to_thread(_until_it_ends, answer, host))
        for action in (
            lambda: dir_.stat("f"),
            lambda: dir_.list("", stats=True),
            lambda: dir_.open("f"),
            lambda: dir_.write("f", b"x", None),
            lambda: dir_.mkdir("d"),
            lambda: dir_.watch("", lambda _: None),
        ):
            with pytest.raises(OSError) as caught:  # noqa: PT011 - by its errno
                await asyncio.wait_for(asyncio.to_thread(action), 10)
            assert caught.value.errno == errno.ENOTCONN
        host.channel.close()
        await task
        await host.close()

    asyncio.run(call())


def _until_it_ends(answer: Any, host: Host) -> None:
    with suppress(OSError, struct.error):
        answer(host)


FAKE = """
import os, socket, struct, sys, time
words = sys.argv[1:]
sock = socket.socket(fileno=int(words[words.index("--channel") + 1])) if "--channel" in words else None
write = sock.send if sock else lambda data: os.write(1, data)
read = (lambda: sock.recv(65536)) if sock else lambda: os.read(0, 65536)
read()
write(struct.pack("<IBBHI", 11, 0x81, 0, 0, 1) + struct.pack("<HII", 1, 0, 5) + struct.pack("<I", 0)[:1])
"""


@pytest.mark.parametrize("frames", [False, True])
@pytest.mark.parametrize(
    "act",
    ["", "time.sleep(60)", "write(os.urandom(5000)); time.sleep(60)", "os._exit(3)"],
    ids=["end", "hang", "noise", "exit"],
)
async def test_a_program_that_is_no_supervisor(
    frames: bool, act: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers the greeting wrongly, and then does worse: nothing of it is left."""
    program = tmp_path / "fake"
    program.write_text(f"#!{sys.executable}\n" + textwrap.dedent(FAKE) + act + "\n")
    program.chmod(0o755)
    monkeypatch.setenv("PADDOCK_SUPERVISOR", str(program))
    monkeypatch.setattr("paddock.backends.supervised.launch._SECONDS_TO_END", 0.2)
    before = descriptors.count()
    with pytest.raises(UnavailableError, match="supervisor"):
        async with Sandbox.create(Local(frames=frames), limits=Limits()):
            pass
    await asyncio.sleep(0.05)
    assert await descriptors.soon_back_to(before)
