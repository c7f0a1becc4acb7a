"""Serving HTTP/1: requests from a `Connection`, one after another, and answers to them. h11 knows the protocol."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any
from weakref import WeakKeyDictionary

import h11

from paddock.driver import Connection
from paddock.errors import TooLargeError

MAX_HEAD = 64 << 10
MAX_LINES = 256
"""Of a head. Each takes its time to be read and to be written anew, in which nobody else has a turn."""
SECONDS_FOR_HEAD = 120.0
SECONDS_TO_SETTLE = 5.0
"""For the rest of a body that nobody wants: who is cut off while it sends may not see the answer."""
_READ = 64 << 10
_MOST_LEFT_UNREAD = 1 << 20
"""Of a body that nobody wants: what is longer costs the client its connection instead."""

_EAGER = 8
"""Pieces that were there already, after which others have a turn: one read can bring ten thousand."""
_VERSIONS = (b"1.0", b"1.1")
_LIGHT = 4 << 10
"""Bytes that take no time to speak of, whatever they are."""
_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
_END_OF_HEAD = re.compile(rb"\n\r?\n")

Headers = list[tuple[str, str]]
"""Names in lower case, in the order in which they came."""


class Turns:
    """Of one who takes many pieces from what was read at once, and would keep the loop for that long."""

    def __init__(self) -> None:
        self._taken = 0

    async def give_way(self) -> None:
        """One more was taken."""
        self._taken += 1
        if self._taken >= _EAGER:
            self._taken = 0
            await asyncio.sleep(0)


class Exchange:
    """One request, and the answer to it."""

    def __init__(
        self, connection: Connection, protocol: h11.Connection, request: h11.Request, working: "Working" = nullcontext
    ) -> None:
        self.method = request.method.decode("ascii")
        self.target = request.target.decode("ascii")
        self.headers: Headers = [(name.decode("ascii"), value.decode("latin-1")) for name, value in request.headers]
        self.status: int | None = None
        """Of the answer, once it has begun."""
        self.taken_over = False
        self._connection = connection
        self._protocol = protocol
        self._working = working

    def header(self, name: str) -> str | None:
        """The first header of this name, in lower case."""
        return next((value for known, value in self.headers if known == name), None)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes, once."""
        turns = Turns()
        while self._protocol.their_state is h11.SEND_BODY:
            event = await self._event()
            if not isinstance(event, h11.Data):
                return
            yield bytes(event.data)
            await turns.give_way()

    async def body(self, most: int) -> bytes:
        """All of the body; one that is longer is a `TooLargeError`."""
        found = bytearray()  # and no list: tiny chunks would take far more than their bytes
        async for chunk in self.chunks():
            found += chunk
            if len(found) > most:
                raise TooLargeError(f"The request has more than {most} bytes.", hint="Send less.")
        return bytes(found)

    @property
    def has_body(self) -> bool:
        """Whether a body comes with the request; an empty one counts if its length is not told in advance."""
        return self.header("transfer-encoding") is not None or self.header("content-length") not in (None, "0")

    async def start(self, status: int, headers: Iterable[tuple[str, str]] = (), *, reason: str = "") -> None:
        """Begin the answer."""
        self.status = status
        encoded = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers]
        await self._send(h11.Response(status_code=status, headers=encoded, reason=reason.encode("ascii")))

    async def send(self, data: bytes) -> None:
        """More of the answer's body."""
        if data:
            await self._send(h11.Data(data=data))

    async def finish(self) -> None:
        """The answer is complete."""
        await self._send(h11.EndOfMessage())

    async def answer(
        self, status: int, body: bytes, kind: str, headers: Iterable[tuple[str, str]] = (), *, reason: str = ""
    ) -> None:
        """A whole answer at once."""
        told = [("content-type", kind), ("content-length", str(len(body))), *headers]
        await self.start(status, told, reason=reason)
        if self.method != "HEAD":
            await self.send(body)
        await self.finish()

    async def answer_json(self, status: int, value: Mapping[str, Any], headers: Iterable[tuple[str, str]] = ()) -> None:
        """The same, of a value."""
        await self.answer(status, json.dumps(value).encode(), "application/json", headers)

    async def take_over(self, status: int = 200) -> bytes:
        """Answer a CONNECT, and have the connection from here on: what the client has sent already is returned."""
        await self.start(status)
        self.taken_over = True
        data, _ = self._protocol.trailing_data
        return bytes(data)

    def abort(self) -> None:
        """Cut the client off: what it has of the answer is not all of it."""
        self._connection.abort()

    async def gone(self) -> None:
        """Return when the client has hung up. For while it is answered, when its request has been read."""
        while data := await self._connection.read(_READ):
            self._protocol.receive_data(data)
            if len(self._protocol.trailing_data[0]) > _MOST_LEFT_UNREAD:
                return

    async def settle(self) -> bool:
        """Whether another request may follow on this connection."""
        if self.taken_over or self.status is None:
            return False
        left = 0
        try:
            async with asyncio.timeout(SECONDS_TO_SETTLE):
                async for chunk in self.chunks():
                    left += len(chunk)
                    if left > _MOST_LEFT_UNREAD:
                        return False
        except TimeoutError:
            return False
        return self._protocol.our_state is h11.DONE and self._protocol.their_state is h11.DONE

    async def _event(self) -> Any:
        return await next_event(self._connection, self._protocol, self._working)

    async def _send(self, event: h11.Event) -> None:
        if data := self._protocol.send(event):
            await self._connection.write(data)


Handle = Callable[[Exchange], Awaitable[None]]
Working = Callable[[], AbstractContextManager[object]]
"""Entered while what came is read, by whoever wants to know how long that takes."""


async def serve(
    connection: Connection, handle: Handle, *, seconds: float = SECONDS_FOR_HEAD, working: Working = nullcontext
) -> None:
    """Serve requests until the client has no more. What is no HTTP is answered with 400, and that is the end."""
    protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
    with suppress(ConnectionError, TimeoutError):
        try:
            while True:
                async with asyncio.timeout(seconds):
                    event = await next_event(connection, protocol, working)
                if not isinstance(event, h11.Request):
                    return
                if event.http_version not in _VERSIONS:
                    raise h11.RemoteProtocolError("another version", error_status_hint=505)
                exchange = Exchange(connection, protocol, event, working)
                await handle(exchange)
                if not await exchange.settle():
                    return
                protocol.start_next_cycle()
        except h11.RemoteProtocolError as error:
            await _refuse(connection, protocol, error.error_status_hint)


async def next_event(connection: Connection, protocol: h11.Connection, working: Working = nullcontext) -> Any:
    """What comes next, with as much read as that needs."""
    while True:
        if protocol.their_state is h11.IDLE:
            check_lines(protocol)
        elif len(protocol.trailing_data[0]) > _LIGHT:
            async with _heavy():
                await asyncio.sleep(0)
        with working():
            event = protocol.next_event()
        if event is not h11.NEED_DATA:
            return event
        if protocol.they_are_waiting_for_100_continue:
            go_on = protocol.send(h11.InformationalResponse(status_code=100, headers=[]))
            await connection.write(go_on or b"")
        protocol.receive_data(await connection.read(_READ))


def _heavy() -> asyncio.Lock:
    """One after another, of all connections of a loop: trailers of 64 KiB take it 20 ms, and hundreds may come at once."""
    return _locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())


def check_lines(protocol: h11.Connection) -> None:
    """Before a head is taken apart: one with too many lines is a `RemoteProtocolError`."""
    data, _ = protocol.trailing_data
    if data.count(b"\n") > MAX_LINES:
        end = _END_OF_HEAD.search(data)
        if data.count(b"\n", 0, end.start() if end else len(data)) > MAX_LINES:
            raise h11.RemoteProtocolError("too many lines", error_status_hint=431)


async def _refuse(connection: Connection, protocol: h11.Connection, status: int) -> None:
    if protocol.our_state in (h11.IDLE, h11.SEND_RESPONSE):
        words = b"This is not HTTP/1.1 as it should be.\n"
        head = h11.Response(status_code=status, headers=[("content-length", str(len(words))), ("connection", "close")])
        await connection.write((protocol.send(head) or b"") + (protocol.send(h11.Data(data=words)) or b""))
