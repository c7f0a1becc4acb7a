"""Sandboxes that want the host's time and memory, and requests and answers that nobody expects."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.conftest import Place, Placed
from gateway.providers import KEY
from gateway.test_requests import ASK, post
from paddock import ConfigError, Connector
from paddock.bridge.share import Share
from paddock.gateway import intake
from paddock.gateway.checking import ask_for_a_word
from paddock.gateway.intake import Paced
from paddock.gateway.translate import BadRequest, load_json
from paddock.gateway.ways import WithoutUsage
from paddock.http.scrubbing import Scrubber
from paddock.http.server import Exchange

DENSE = b"[" + b"[]," * (1 << 18) + b"[]]"


@asynccontextmanager
async def connected(place: Place) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, port = place.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()


def head(place: Place, length: int) -> bytes:
    return f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {place.token}\r\ncontent-length: {length}\r\n\r\n".encode()


# What one sandbox takes


async def test_more_values_than_can_be_read_at_once(placed: Placed) -> None:
    """Each would be an object: a few bytes become hundreds, all of them made while nobody else is served."""
    async with placed("anthropic") as place:
        refused = await post(place, json.dumps(ASK).encode()[:-1] + b',"x":' + DENSE + b"}")
        assert (refused.status_code, "values" in refused.text) == (413, True)
        assert place.provider.asked == []
        long = {**ASK, "messages": [{"role": "user", "content": "x" * len(DENSE)}]}
        assert (await post(place, long)).status_code == 200


def test_nor_of_a_provider() -> None:
    with pytest.raises(BadRequest, match="too many"):
        load_json(DENSE)
    assert load_json(b'"' + b"x" * len(DENSE) + b'"')


async def test_bodies_that_do_not_end_take_no_more_than_is_allowed(
    placed: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "MOST_HELD", 1 << 20)
    large = {**ASK, "messages": [{"role": "user", "content": "x" * 300_000}]}
    async with placed("anthropic") as place:
        seat = place.attachment._seat
        async with connected(place) as (_, writer):
            writer.write(head(place, 2 << 20) + b"x" * 900_000)
            while seat.intake.held < 900_000:
                await asyncio.sleep(0.01)
            refused = await post(place, large)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            assert (await post(place)).status_code == 200
        while seat.intake.held:
            await asyncio.sleep(0.01)
        assert (await post(place, large)).status_code == 200
        while seat.intake.held:
            await asyncio.sleep(0.01)


class Given:
    """A connection with this to read."""

    def __init__(self, *data: bytes) -> None:
        self._data = [*data, b""]

    async def read(self, size: int = 0) -> bytes:
        return self._data.pop(0)

    async def write(self, data: bytes) -> None: ...
    async def end(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


async def test_what_waits_for_its_turn_is_not_lost() -> None:
    share = Share()
    with share.working():
        sum(range(300_000))
    paced = Paced(Given(b"one", b"two"), share)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(paced.read(), 0)
    assert [await paced.read(), await paced.read(), await paced.read()] == [b"one", b"two", b""]


async def test_who_sends_in_tiny_pieces_does_not_keep_the_loop(placed: Placed) -> None:
    """Each piece costs far more than it takes to send it. Others, here this test, have most of the time."""
    async with placed("anthropic") as place, connected(place) as (_, writer):
        request = head(place, 0).replace(b"content-length: 0", b"transfer-encoding: chunked")
        writer.write(request + b"1\r\nx\r\n" * 200_000)
        loop, used = asyncio.get_running_loop(), place.attachment._seat.intake
        while used.held < 2000:
            await asyncio.sleep(0.001)
        begun, before, turns = loop.time(), used.held, 0
        while used.held < before + 20_000:
            await asyncio.sleep(0.001)
            turns += 1
        assert turns > 20, loop.time() - begun


async def test_a_provider_of_tiny_pieces_does_not_keep_the_loop(placed: Placed) -> None:
    async def says(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 10_000 + b"0\r\n\r\n")
        await writer.drain()
        writer.close()

    async with placed("chat") as place:
        server = await asyncio.start_server(says, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        object.__setattr__(place.gateway._upstreams["fake"].connector, "base_url", url)
        asking = asyncio.ensure_future(post(place, {**ASK, "stream": True}))
        turns = 0
        while not asking.done():
            await asyncio.sleep(0)
            turns += 1
        assert (asking.result().status_code, turns > 10_000) == (200, True)
        server.close()


# What nobody expects


async def test_an_address_that_is_none(placed: Placed) -> None:
    async with placed("anthropic") as place, connected(place) as (reader, writer):
        writer.write(f"GET http://[ HTTP/1.1\r\nhost: x\r\nx-api-key: {place.token}\r\n\r\n".encode())
        assert b"404" in await reader.readline()


async def test_a_header_that_cannot_be_passed_on(placed: Placed) -> None:
    async with placed("anthropic") as place, connected(place) as (reader, writer):
        data = json.dumps(ASK).encode()
        writer.write(head(place, len(data)).replace(b"host: x", b"host: x\r\nanthropic-beta: \xe9") + data)
        assert b"400" in await reader.readline()
        assert place.provider.asked == []


async def test_a_type_that_cannot_be_told(placed: Placed) -> None:
    async def says(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}]}")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: \xe6\xbc\xa2\r\nrequest-id: 1\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()

    async with placed("anthropic") as place:
        server = await asyncio.start_server(says, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        object.__setattr__(place.gateway._upstreams["fake"].connector, "base_url", url)
        answer = await post(place)
        assert (answer.status_code, answer.text, answer.headers["request-id"]) == (200, "{}", "1")
        assert "content-type" not in answer.headers
        server.close()


@pytest.mark.parametrize("key", [lambda: 1 / 0, lambda: None])
async def test_a_key_that_cannot_be_had(key: Any, placed: Placed) -> None:
    with pytest.raises(ConfigError, match="key"):
        Connector("c", "https://x.example", key).read_key()
    async with placed("anthropic") as place:
        object.__setattr__(place.attachment.connector, "key", key)
        assert (await post(place)).status_code == 502


# What gets out


async def test_the_key_at_the_place_where_a_message_is_cut(placed: Placed) -> None:
    async def echoes(exchange: Exchange, body: Any) -> None:
        await exchange.answer_json(400, {"error": {"message": "x" * 1980 + KEY}})

    async with placed("anthropic", echoes) as place:
        assert KEY[:12] not in (await post(place)).text


@pytest.mark.parametrize("form", ['a/b"c\\d', 'a/b\\"c\\\\d', 'a\\/b\\"c\\\\d'])
def test_the_key_as_json_has_it(form: str) -> None:
    whole = f'{{"x": "{form}"}}'.encode()
    for cut in range(len(whole)):
        scrubber = Scrubber(['a/b"c\\d'])
        found = scrubber.feed(whole[:cut]) + scrubber.feed(whole[cut:]) + scrubber.rest()
        assert found == whole.replace(form.encode(), b"*" * len(form))


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
def test_events_are_passed_on_when_they_come(end: bytes) -> None:
    way = WithoutUsage()
    assert way.feed(b'data: {"choices":[1]}' + end[:1]) == b""
    assert way.feed(end[1:]) == b'data: {"choices":[1]}' + end
    assert way.feed(b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}' + end) == b""
    assert way.feed(b"data: [DONE]" + end) + way.end() == b"data: [DONE]" + end
    assert way.usage is not None


async def test_a_provider_that_knows_the_newer_name_only() -> None:
    asked: list[dict[str, Any]] = []

    async def says(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(json.loads((await reader.readuntil(b"}]}")).partition(b"\r\n\r\n")[2]))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(says, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    await ask_for_a_word(Connector("c", url, model="m", provider="openai"))
    await ask_for_a_word(Connector("c", url, model="m"))
    server.close()
    assert [set(one) & {"max_tokens", "max_completion_tokens"} for one in asked] == [
        {"max_completion_tokens"},
        {"max_tokens"},
    ]
