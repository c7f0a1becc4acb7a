"""HTTP over a connection from inside: what is served, what is refused, and what it takes up."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import TooLargeError
from paddock.http.server import MAX_HEAD, Exchange, serve


class Both:
    """Both ends of a connection: what was sent to it, and what it was answered."""

    def __init__(self, *sent: bytes) -> None:
        self.sent = list(sent)
        self.got = b""
        self.more = asyncio.Event()

    async def read(self, size: int = 65_536) -> bytes:
        await asyncio.sleep(0)
        return self.sent.pop(0) if self.sent else b""

    async def write(self, data: bytes) -> None:
        self.got += data

    async def end(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


async def echo(exchange: Exchange) -> None:
    body = await exchange.body(1000)
    await exchange.answer_json(200, {"asked": f"{exchange.method} {exchange.target}", "body": body.decode("latin-1")})


async def told(*sent: bytes) -> str:
    both = Both(*sent)
    await serve(both, echo)
    return both.got.decode("latin-1")


async def test_one_request() -> None:
    answer = await told(b"POST /x?y=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
    head, _, body = answer.partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 200")
    assert json.loads(body) == {"asked": "POST /x?y=1", "body": "hi"}


async def test_one_after_another_and_pipelined() -> None:
    one = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n"
    assert (await told(one, one)).count("HTTP/1.1 200") == 2
    assert (await told(one + one)).count("HTTP/1.1 200") == 2


async def test_byte_by_byte() -> None:
    request = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
    assert '"body": "hi"' in await told(*(bytes([byte]) for byte in request))


async def test_who_waits_is_told_to_go_on() -> None:
    answer = await told(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n", b"hi")
    assert answer.startswith("HTTP/1.1 100")
    assert "HTTP/1.1 200" in answer


@pytest.mark.parametrize(
    "request_",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi!",
        b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nBad Header: x\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * (MAX_HEAD + 1),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_refused_and_ends_the_connection(request_: bytes) -> None:
    answer = await told(request_, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert [line[9:10] for line in answer.split("\r\n") if line.startswith("HTTP/1.1 ")] in (["4"], ["5"])


async def test_a_body_that_is_too_long() -> None:
    both, caught = Both(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000), []

    async def handle(exchange: Exchange) -> None:
        with pytest.raises(TooLargeError) as error:
            await exchange.body(1000)
        caught.append(error.value)
        await exchange.answer(413, b"", "text/plain")

    await serve(both, handle)
    assert len(caught) == 1
    assert both.got.startswith(b"HTTP/1.1 413")


async def test_a_body_that_nobody_wants_is_read_if_it_is_short() -> None:
    async def handle(exchange: Exchange) -> None:
        await exchange.answer(200, b"", "text/plain")

    short, long = Both(), Both()
    short.sent = [b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: a\r\n\r\n"]
    await serve(short, handle)
    assert short.got.count(b"200") == 2
    long.sent = [b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n", *[b"x" * 65536] * 100]
    await serve(long, handle)
    assert long.got.count(b"200") == 1
    assert len(long.sent) > 50


async def test_a_connection_can_be_taken_over() -> None:
    both = Both(b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\nhello")
    got = []

    async def handle(exchange: Exchange) -> None:
        got.append(await exchange.take_over())

    await serve(both, handle)
    assert got == [b"hello"]
    assert both.got.startswith(b"HTTP/1.1 200")


async def test_hanging_up_is_noticed() -> None:
    both, gone = Both(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), []

    async def handle(exchange: Exchange) -> None:
        await exchange.gone()
        gone.append(True)

    await serve(both, handle)
    assert gone == [True]


async def test_who_says_nothing_is_not_waited_for() -> None:
    class Silent(Both):
        async def read(self, size: int = 65_536) -> bytes:
            await self.more.wait()
            return b""

    await serve(Silent(), echo, seconds=0.01)


@given(st.lists(st.binary(max_size=60), max_size=6))
def test_any_bytes(pieces: list[bytes]) -> None:
    """Nothing is raised that a handler would not know."""
    asyncio.run(told(*pieces))


@given(st.data())
def test_a_request_that_was_changed(data: st.DataObject) -> None:
    request = bytearray(b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n")
    for _ in range(data.draw(st.integers(1, 3))):
        request[data.draw(st.integers(0, len(request) - 1))] = data.draw(st.integers(0, 255))
    asyncio.run(told(bytes(request)))
