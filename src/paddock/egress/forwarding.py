"""One HTTP request to a server, and its answer back. h11 reads and writes both sides: no head is passed on as it came."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import h11

from paddock.driver import Connection
from paddock.egress.attaching import Attached
from paddock.http.scrubbing import Scrubber
from paddock.http.server import MAX_HEAD, Exchange, Headers, Turns, check_lines

_READ = 64 << 10
_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "proxy-authenticate",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "expect",
    }
)
"""What is about one connection, and not about the message."""
_FRAMING = frozenset({"content-length", "host"})


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a server."""

    method: str
    target: str
    """A path, perhaps with a query."""
    host: str
    """As the server is called in the header of this name."""
    headers: Headers
    attached: tuple[Attached, ...] = ()


class BadAnswerError(Exception):
    """What came is not HTTP, or ended early."""


class Forwarding:
    """One exchange with a server, on a connection of its own."""

    def __init__(self, exchange: Exchange, asked: Asked, upstream: Connection, patience: float) -> None:
        """`patience` is for a server that says nothing to a client that has hung up, or will say no more."""
        self._exchange = exchange
        self._patience = patience
        self._reads = 0
        self._asked = asked
        self._upstream = upstream
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        self._scrubber = Scrubber(one.value for one in asked.attached)
        self._sent = not exchange.has_body
        self._turns = Turns()

    async def run(self) -> None:
        """To its end: `BadAnswerError` if the server makes no sense, `ConnectionError` and `TimeoutError` for either side."""
        headers = request_headers(self._asked, self._exchange.headers)
        await self._write(h11.Request(method=self._asked.method, target=self._asked.target, headers=headers))
        sending, answering = asyncio.create_task(self._send()), asyncio.create_task(self._answer())
        try:
            await asyncio.wait({sending, answering}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                sending.result()  # a client that breaks off is not waited for
            await answering
        finally:
            for task in (sending, answering):
                task.cancel()
            await asyncio.gather(sending, answering, return_exceptions=True)

    async def _send(self) -> None:
        async for chunk in self._exchange.chunks():
            if not await self._tried(h11.Data(data=chunk)):
                return
        self._sent = await self._tried(h11.EndOfMessage())
        await self._hung_up()

    async def _hung_up(self) -> None:
        """Until the client has, and the server had its time: `ConnectionError`. Its place is for others then."""
        while True:
            with suppress(TimeoutError):  # who waits for an answer has nothing to say
                await self._exchange.gone()
                break
        reads = -1
        while reads != self._reads:
            reads = self._reads
            await asyncio.sleep(self._patience)
        raise ConnectionResetError("the client has gone")

    async def _tried(self, event: h11.Event) -> bool:
        """A server that has heard enough may still answer."""
        try:
            await self._write(event)
        except ConnectionError:
            return False
        return True

    async def _write(self, event: h11.Event) -> None:
        if data := self._protocol.send(event):
            await self._upstream.write(data)

    async def _answer(self) -> None:
        try:
            head = await self._event()
            while isinstance(head, h11.InformationalResponse):
                head = await self._event()
            if not isinstance(head, h11.Response):
                raise BadAnswerError
            early = [] if self._sent else [("connection", "close")]  # the rest of the request is for nobody
            await self._exchange.start(head.status_code, self._response_headers(head) + early)
            await self._body()
        except h11.RemoteProtocolError:
            raise BadAnswerError from None
        await self._exchange.finish()

    async def _body(self) -> None:
        while isinstance(event := await self._event(), h11.Data):
            await self._exchange.send(self._scrubber.feed(bytes(event.data)))
        if not isinstance(event, h11.EndOfMessage):
            raise BadAnswerError
        await self._exchange.send(self._scrubber.rest())

    async def _event(self) -> Any:
        await self._turns.give_way()
        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            self._protocol.receive_data(await self._upstream.read(_READ))
            self._reads += 1
            if self._protocol.their_state is h11.SEND_RESPONSE:
                check_lines(self._protocol)
        return event

    def _response_headers(self, head: h11.Response) -> Headers:
        found = [(bytes(name).decode("ascii"), bytes(value)) for name, value in head.headers]
        chunked = any(name == "transfer-encoding" for name, _ in found)
        gone = _nominated((name, value.decode("latin-1")) for name, value in found) | _HOP
        return [
            (name, self._scrubber.whole(value).decode("latin-1"))
            for name, value in found
            if name not in gone and not (chunked and name == "content-length")
        ]


def request_headers(asked: Asked, given: Headers) -> list[tuple[bytes, bytes]]:
    """What the server is told: the client's headers but for those about its own connection, the host, and secrets."""
    gone = _nominated(given) | _HOP | {"host"} | {one.header for one in asked.attached}
    if asked.attached:
        gone |= {"accept-encoding"}  # what is packed cannot be looked through
    kept = [(name, value) for name, value in given if name not in gone]
    if any(name == "transfer-encoding" for name, _ in given):
        kept = [(name, value) for name, value in kept if name != "content-length"]
        kept.append(("transfer-encoding", "chunked"))
    added = [(one.header, one.line) for one in asked.attached]
    if asked.attached:
        added.append(("accept-encoding", "identity"))
    whole = [("host", asked.host), *kept, *added, ("connection", "close")]
    return [(name.encode("ascii"), value.encode("latin-1")) for name, value in whole]


def _nominated(headers: Iterable[tuple[str, str]]) -> set[str]:
    """What a message itself says is about one connection; its framing is not for it to say."""
    said = [value for name, value in headers if name in ("connection", "proxy-connection")]
    return {word.strip().lower() for value in said for word in value.split(",")} - _FRAMING
