"""One request: who asks, may they, what is asked of whom, and what comes back."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from paddock.errors import ConfigError, LimitReachedError, SandboxError, TooLargeError
from paddock.finishing import to_the_end
from paddock.gateway import fronts, routing
from paddock.gateway.allowances import Wanted, cost, tokens_of
from paddock.gateway.body import Body
from paddock.gateway.errors import BadRequest, RequestFailed
from paddock.gateway.fronts import Front
from paddock.gateway.intake import Held
from paddock.gateway.ledger import Call, Ended
from paddock.gateway.passing import Counted, Outgoing, planned
from paddock.gateway.seats import Seat
from paddock.gateway.translate import Usage, error_body
from paddock.gateway.upstream import PASSED_ON, TOLD
from paddock.gateway.ways import Way
from paddock.http.scrubbing import Scrubber
from paddock.http.server import Exchange

if TYPE_CHECKING:
    import httpx2

MAX_ANSWER = 256 << 20
_MAX_ERROR = 64 << 10
_SECONDS_IN_ALL = 3600.0
_WORDS_OF_ERRORS = 2000
_SOON = 1


async def answer(seat: Seat, exchange: Exchange) -> None:
    """Answer whatever was asked."""
    path = fronts.address(exchange).path
    if exchange.method in ("GET", "HEAD") and path == "/health":
        await exchange.answer_json(200, {"status": "ok"})
        return
    front = fronts.find(exchange)
    try:
        if not fronts.is_known(exchange, seat.token):
            seat.report(path[:80], None, "NOT_AUTHORIZED", 0.0, 0, 0)
            raise RequestFailed(401, "This is not the token of this sandbox.", outcome="NOT_AUTHORIZED")
        if exchange.method == "GET" and path == "/v1/models":
            await exchange.answer_json(200, _models(seat))
        elif front is None:
            raise RequestFailed(404, "There is no such endpoint here.", outcome="NOT_FOUND")
        else:
            with seat.intake.holding() as held:
                body = await _whole(exchange, held)
                await _until_gone(exchange, Asking(seat, exchange, front), body)
    except RequestFailed as failed:
        if exchange.status is None:
            await _tell(exchange, front, failed)


async def _tell(exchange: Exchange, front: Front | None, failed: RequestFailed) -> None:
    headers = [] if failed.retry_after is None else [("retry-after", str(failed.retry_after))]
    if failed.final:
        headers.append(("x-should-retry", "false"))  # which the clients of Anthropic and OpenAI know
    value = error_body(front.wire if front else "anthropic", failed.status, failed.message)
    await exchange.answer_json(failed.status, value, headers)


async def _until_gone(exchange: Exchange, asking: "Asking", body: bytes) -> None:
    """A client that hangs up wants no answer: so nobody is asked for one any longer."""
    work = asyncio.ensure_future(asking.run(body))
    hung_up = asyncio.ensure_future(exchange.gone())
    try:
        await asyncio.wait([work, hung_up], return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ConnectionAbortedError("the client hung up")
        work.result()
    finally:
        for task in (work, hung_up):
            task.cancel()
        await to_the_end(_settled(work, hung_up))


async def _settled(*tasks: "asyncio.Future[None]") -> None:
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # looked at: who waits for it has it already


async def _whole(exchange: Exchange, held: Held) -> bytes:
    try:
        return await held.body(exchange)
    except TooLargeError as error:
        raise RequestFailed(413, error.message, outcome=error.code) from None
    except LimitReachedError as error:
        raise RequestFailed(429, error.message, outcome=error.code, retry_after=_SOON) from None


@dataclass(slots=True)
class _Progress:
    """How far a request has come."""

    outcome: str = "CANCELLED"
    status: int | None = None
    attempts: int = 0
    size: int = 0
    first_byte: float | None = None
    asked: bool = False
    """Whether the provider has been asked, and has said nothing yet: what it does meanwhile may cost something."""
    begun: bool = False
    """Whether it has begun an answer that costs something."""


class Asked(Protocol):
    """A request, and who waits for the answer to it."""

    def header(self, name: str) -> str | None: ...
    async def start(self, status: int, headers: Iterable[tuple[str, str]] = ()) -> None: ...
    async def send(self, data: bytes) -> None: ...
    async def finish(self) -> None: ...
    async def answer_json(self, status: int, value: Mapping[str, Any]) -> None: ...


class Asking:
    """A request on its way."""

    def __init__(self, seat: Seat, exchange: Asked, front: Front) -> None:
        self._seat = seat
        self._exchange = exchange
        self._front = front
        self._went = _Progress()
        self._started = perf_counter()

    async def run(self, data: bytes) -> None:
        """All of it. Whatever happens, it is written down in the end."""
        await self._seat.intake.share.turn()
        with self._seat.intake.share.working():
            going = self._planned(data)
        if isinstance(going, Counted):
            await self._exchange.answer_json(200, going.value)
            return
        try:
            if self._seat.bounds:
                await to_the_end(self._reserve(going))  # or nobody would know of it who could give it back
            async with self._seat.places, asyncio.timeout(_SECONDS_IN_ALL):
                await self._pass_on(going.outgoing)
        except RequestFailed as failed:
            self._went.outcome, self._went.status = failed.outcome, failed.status
            self._went.asked &= failed.costs
            raise
        except TimeoutError:
            self._went.outcome = "TIMEOUT"
            raise RequestFailed(504, "The answer takes too long.", outcome="TIMEOUT") from None
        finally:
            if going.counts:
                await to_the_end(self._write_down(going))

    def _planned(self, data: bytes) -> "_Going | Counted":
        caller, connector = self._seat.caller, self._seat.connector
        outgoing = planned(connector, self._front, Body(data))
        if isinstance(outgoing, Counted):
            return outgoing
        call = Call(caller.sandbox, caller.user, caller.chat, connector.name, outgoing.model, self._front.wire)
        want = Wanted(outgoing.input(), outgoing.most_output, routing.price(connector, outgoing.model))
        return _Going(outgoing, call, want)

    async def _reserve(self, going: "_Going") -> None:
        outgoing, seat = going.outgoing, self._seat
        going.counts = False
        try:
            going.row, going.want = await seat.ledger.reserve(going.call, going.want, seat.bounds)
        except LimitReachedError as error:
            seat.report(self._front.wire, outgoing.model, error.code, 0.0, 0, 0)
            raise RequestFailed(429, f"{error.message} {error.hint}", outcome=error.code, final=True) from None
        except SandboxError as error:
            seat.report(self._front.wire, outgoing.model, error.code, 0.0, 0, 0)
            raise RequestFailed(503, "Nothing can be counted now, so nothing is asked.", outcome=error.code) from None
        going.counts = True
        outgoing.bound(going.want.output)

    async def _pass_on(self, outgoing: Outgoing) -> None:
        seat = self._seat
        try:
            key = seat.connector.read_key()
        except ConfigError as error:
            raise RequestFailed(502, f"{error.message}", outcome=error.code) from None
        with seat.intake.share.working():
            data = outgoing.bytes()
        self._went.asked = True
        reply, self._went.attempts = await seat.upstream.ask(
            outgoing.wire, outgoing.tail, data, self._headers() if outgoing.same_words else {}, key
        )
        try:
            self._went.asked, self._went.status = False, reply.status_code
            scrubber = Scrubber([key])
            if reply.status_code != 200:
                raise await _refused(reply, seat, scrubber)
            if reply.headers.get("content-encoding", "identity") != "identity":
                raise RequestFailed(502, "The provider packs answers that nobody asked it to.", outcome="UPSTREAM")
            self._went.begun = True
            await self._stream(reply, outgoing.way, scrubber)
        finally:
            await to_the_end(reply.aclose())

    def _headers(self) -> dict[str, str]:
        found = {name: value for name in PASSED_ON if (value := self._exchange.header(name)) is not None}
        for name, value in found.items():
            if not value.isascii():
                raise BadRequest(f"The header {name} has characters that it cannot have.")
        return found

    async def _stream(self, reply: "httpx2.Response", way: Way, scrubber: Scrubber) -> None:
        import httpx2

        told = {name: reply.headers[name] for name in TOLD if name in reply.headers}
        if way.content_type is not None:
            told["content-type"] = way.content_type
        headers = [(name, scrubber.text(value)) for name, value in told.items() if value.isascii()]
        if not way.whole:
            await self._exchange.start(200, headers)
        try:
            async for chunk in reply.aiter_raw():
                if self._went.first_byte is None:
                    self._went.first_byte = perf_counter() - self._started
                self._seat.heard.now()
                self._went.size += len(chunk)
                if self._went.size > MAX_ANSWER:
                    raise RequestFailed(502, "The answer has no end.", outcome=TooLargeError.code)
                await self._exchange.send(scrubber.feed(way.feed(chunk)))
                await asyncio.sleep(0)  # thousands of tiny chunks may be there already
        except httpx2.HTTPError:
            self._went.outcome = "UPSTREAM"
            raise ConnectionAbortedError("the provider hung up in the middle of its answer") from None
        rest = scrubber.feed(way.end()) + scrubber.rest()
        if way.whole:
            await self._exchange.start(way.status, headers)
        await self._exchange.send(rest)
        await self._exchange.finish()
        self._went.outcome = "UPSTREAM" if way.failed else "ok"

    async def _write_down(self, going: "_Going") -> None:
        went, seat = self._went, self._seat
        usage = self._used(going.outgoing, going.want)
        money = cost(usage, going.want.price)
        ended = Ended(went.outcome, went.status, usage, money, went.first_byte, went.attempts)
        seconds = perf_counter() - self._started
        seat.report(self._front.wire, going.outgoing.model, went.outcome, seconds, went.size, usage.total)
        try:
            if going.row is None:
                await seat.ledger.record(going.call, ended)
            else:
                await seat.ledger.settle(going.row, ended)
        except SandboxError as error:  # what was reserved stays so
            told = {"message": "What a model has used could not be written down", "exception": error}
            asyncio.get_running_loop().call_exception_handler(told)

    def _used(self, outgoing: Outgoing, want: Wanted) -> Usage:
        """What the provider says. Who hangs up before it has said so pays for what was sent, by its size; but for all
        that the answer could be if it comes at once: it may have been written by then."""
        went, said = self._went, outgoing.way.usage
        if outgoing.counting or not (went.begun or went.asked):
            return Usage()
        if said is not None and said.total and went.outcome == "ok":
            return said
        guess = min(tokens_of(went.size), want.output) if went.begun else 0
        if not outgoing.streamed and (went.asked or went.outcome in ("CANCELLED", "TIMEOUT")):
            guess = want.output
        known = said or Usage()
        return replace(known, input=known.input or want.input, output=max(known.output, guess))


@dataclass(slots=True)
class _Going:
    """A request as it goes out, and what is kept of it."""

    outgoing: Outgoing
    call: Call
    want: Wanted
    row: int | None = None
    """What was reserved for it."""
    counts: bool = True
    """Whether it is to be written down in the end."""


async def _refused(reply: "httpx2.Response", seat: Seat, scrubber: Scrubber) -> RequestFailed:
    """What a provider says when it does not answer: its words, if they can be shown."""
    status = reply.status_code
    if status < 400:
        return RequestFailed(502, "The provider leads elsewhere, and is not followed.", outcome="UPSTREAM")
    words = await message_of(reply, scrubber)
    if status in (401, 403):
        words = f"The provider refuses the key of the connector '{seat.connector.name}': {words}"
    said = reply.headers.get("retry-after", "")
    after = int(said) if said.isascii() and said.isdigit() and len(said) < 6 else None
    final = status in (401, 403) or reply.headers.get("x-should-retry") == "false"
    return RequestFailed(status, words, outcome="UPSTREAM", retry_after=after, final=final)


async def message_of(reply: "httpx2.Response", scrubber: Scrubber) -> str:
    """What an answer says that is no answer: its message, or its beginning. It is cut when the key is out of it."""
    import json

    import httpx2

    data = b""
    with suppress(httpx2.HTTPError):
        async for chunk in reply.aiter_raw():
            data += chunk
            if len(data) > _MAX_ERROR:
                break
    text = data[:_MAX_ERROR].decode("utf-8", "replace")
    found: Any = None
    with suppress(ValueError, RecursionError):
        found = json.loads(text)
    if isinstance(found, list) and found:
        found = found[0]
    error = found.get("error") if isinstance(found, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    words = message if isinstance(message, str) else text
    return scrubber.text(words)[:_WORDS_OF_ERRORS] or f"HTTP {reply.status_code}"


def _models(seat: Seat) -> dict[str, Any]:
    """In a shape that is right for those who expect either of two."""
    connector = seat.connector
    names = dict.fromkeys([connector.model, connector.background, connector.think, *connector.models])
    listed = [name for name in names if name]
    data = [
        {
            "id": name,
            "object": "model",
            "type": "model",
            "display_name": name,
            "created": 0,
            "created_at": "1970-01-01T00:00:00Z",
            "owned_by": connector.name,
        }
        for name in listed
    ]
    ends = {"first_id": listed[0], "last_id": listed[-1]} if listed else {"first_id": None, "last_id": None}
    return {"object": "list", "data": data, "has_more": False, **ends}
