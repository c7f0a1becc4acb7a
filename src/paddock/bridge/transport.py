"""A connection as the streams that the SDK serves: lines in, lines out, and a bound on everything."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

import anyio
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import (
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from paddock.bridge.lines import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Id,
    Lines,
    Message,
    RefusedError,
    TooLongError,
    parse,
)
from paddock.bridge.share import Share, weight
from paddock.driver import Connection

METHODS = frozenset(
    {
        "initialize",
        "ping",
        "server/discover",
        "tools/list",
        "tools/call",
        "resources/list",
        "resources/read",
        "logging/setLevel",
        "subscriptions/listen",
    }
)
"""Every method there is. What is not here is refused before the SDK sees it."""
_INITIALIZED = "notifications/initialized"
_NOTIFICATIONS = frozenset({_INITIALIZED, "notifications/cancelled"})
_ENDLESS = "subscriptions/listen"

MOST_REQUESTS = 64
SECONDS_TO_TAKE = 30.0
SECONDS_TO_ANSWER = 10.0
_MOST_WAITING = 1 << 20
_TOO_MANY = -32000


@dataclass(frozen=True, slots=True)
class _Request:
    """One that is under way."""

    method: str
    weight: int


class _Closing:
    """What both streams have for the SDK."""

    async def aclose(self) -> None:
        """The connection is closed by whoever opened it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class Outgoing(_Closing):
    """What is sent. Who does not take it is waited for a while, and then cut off."""

    def __init__(self, connection: Connection, share: Share) -> None:
        self._connection = connection
        self._share = share
        self.broken = False
        self._taken = asyncio.Event()
        self.answered: Callable[[Id], int] = _nothing
        """Told of each answer; how much its request took."""
        self.outcome = "ok"
        self.waiting: list[int] = []
        """The sizes of what is not taken yet."""
        self.size = 0

    @property
    def untaken(self) -> int:
        """See `Backlog`."""
        return sum(self.waiting)

    def cut_off(self, outcome: str) -> None:
        """See `Backlog`."""
        if not self.broken:
            self.broken, self.outcome = True, outcome
            self._connection.abort()

    async def send(self, item: SessionMessage) -> None:
        """One message of the SDK's. An answer settles its request, which is kept until it is taken."""
        id = item.message.id if isinstance(item.message, (JSONRPCResponse, JSONRPCError)) else None
        asked = 0 if id is None else self.answered(id)
        try:
            await self.write(item.message)
        finally:
            self._share.asked -= asked

    async def write(self, message: JSONRPCMessage) -> None:
        """One of our own."""
        with self._share.working():
            data = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        if not self.broken:
            self.waiting.append(len(data))
            self._share.add_untaken(len(data))
            await asyncio.shield(self._sent(data))  # whoever gives up leaves no half of a line behind
        if self.broken:
            raise anyio.BrokenResourceError

    async def _sent(self, data: bytes) -> None:
        try:
            async with asyncio.timeout(SECONDS_TO_TAKE):
                await self._connection.write(data)
            self.size += len(data)
        except ConnectionError:
            self.broken = True
        except TimeoutError:
            self.cut_off("TIMEOUT")
        finally:
            self.waiting.remove(len(data))
            self._share.add_untaken(-len(data))
            self._taken.set()

    async def room(self) -> None:
        """Return when little waits to be taken: who does not read answers is not asked for more questions."""
        while (len(self.waiting) > MOST_REQUESTS or self.untaken > _MOST_WAITING) and not self.broken:
            self._taken.clear()
            await self._taken.wait()


class Incoming(_Closing):
    """What is received. The SDK is given well-formed messages of methods that there are; the rest is answered here."""

    def __init__(self, connection: Connection, outgoing: Outgoing, lines: Lines, share: Share) -> None:
        self._connection = connection
        self._outgoing = outgoing
        self._lines = lines
        self._share = share
        self._ready: deque[bytes] = deque()
        self._ended = False
        self._open: dict[str, _Request] = {}
        self._settled = asyncio.Event()
        self.initialized = False
        self.size = 0
        self.count = 0
        outgoing.answered = self._answered

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        while True:
            await self._outgoing.room()
            if self._outgoing.broken:
                raise StopAsyncIteration
            if self._ready:
                found = await self._message(self._ready.popleft())
                if found is not None:
                    return found
            elif self._ended:
                await self._answers()
                raise StopAsyncIteration
            else:
                await self._read()

    async def receive(self) -> SessionMessage:
        """The next one, as the SDK's streams have it."""
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    async def _read(self) -> None:
        try:
            data = await self._connection.read()
            self.size += len(data)
            self._ready.extend(self._lines.feed(data) if data else self._lines.rest())
            self._ended = not data
        except ConnectionError:
            self._ended = True
            self.forget()
        except TooLongError:
            self._ended = True
            self._outgoing.outcome = "TOO_LARGE"
            self.forget()
            await self._refuse(RefusedError(INVALID_REQUEST, "the line is too long"))

    async def _message(self, line: bytes) -> SessionMessage | None:
        self.count += 1
        await self._share.turn()
        try:
            with self._share.working():
                return self._taken(parse(line), weight(line))
        except RefusedError as refused:
            await self._refuse(refused)
            return None

    def _taken(self, message: Message, weight: int) -> SessionMessage | None:
        """What the SDK is to see of it. We ask clients nothing, so answers are late, doubled or made up."""
        if message.method is None:
            return None
        if message.id is None:
            self.initialized = self.initialized or message.method == _INITIALIZED
            known = message.method in _NOTIFICATIONS
            return SessionMessage(JSONRPCNotification.model_validate(message.data)) if known else None
        if message.method not in METHODS:
            raise RefusedError(METHOD_NOT_FOUND, "method not found", message.id)
        key = str(message.id)  # the SDK takes 7 and "7" for the same
        if key in self._open:
            raise RefusedError(INVALID_REQUEST, "a request with this id is under way", message.id)
        if len(self._open) >= MOST_REQUESTS:
            raise RefusedError(_TOO_MANY, f"{MOST_REQUESTS} requests are under way", message.id)
        if not self._share.has_room(weight):
            raise RefusedError(_TOO_MANY, "requests that are too large are under way", message.id)
        self._open[key] = _Request(message.method, weight)
        self._share.asked += weight
        metadata = ServerMessageMetadata(on_request_unanswered=partial(self._unanswered, message.id))
        return SessionMessage(JSONRPCRequest.model_validate(message.data), metadata)

    async def _refuse(self, refused: RefusedError) -> None:
        error = ErrorData(code=refused.code, message=refused.words)
        with suppress(anyio.BrokenResourceError):
            await self._outgoing.write(JSONRPCError(jsonrpc="2.0", id=refused.id, error=error))

    async def _answers(self) -> None:
        """Who says no more still hears, for a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SECONDS_TO_ANSWER):
                while any(request.method != _ENDLESS for request in self._open.values()):
                    self._settled.clear()
                    await self._settled.wait()

    def _answered(self, id: Id) -> int:
        request = self._open.pop(str(id), None)
        self._settled.set()
        return 0 if request is None else request.weight

    async def _unanswered(self, id: Id) -> None:
        self._share.asked -= self._answered(id)

    def forget(self) -> None:
        """It is over: nothing is under way."""
        self._share.asked -= sum(request.weight for request in self._open.values())
        self._open.clear()


def _nothing(_: Id) -> int:
    return 0
