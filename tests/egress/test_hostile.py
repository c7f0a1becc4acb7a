"""Clients and servers that do harm: bounded, refused, and nobody else notices."""

import asyncio
import os
import random
from time import perf_counter

import h11
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from egress.conftest import SECONDS, Make, Served, connect, get, request, socks, turns_during, upstream
from paddock.egress.proxy import Times
from paddock.http import server as server_side
from paddock.http.scrubbing import Scrubber

SOAK = "PADDOCK_SOAK" in os.environ
ROUNDS = 20_000 if SOAK else 1000
SEED = random.randrange(1 << 32) if SOAK else 8
IMPATIENT = Times(head=0.3, connect=SECONDS, idle=0.5)


async def fine(served: Served, port: int) -> None:
    """Somebody else is served as ever."""
    assert (await served.ask(get(f"up.test:{port}", "/fine")))[0] == 200


# Requests that two readers would read differently


@pytest.mark.parametrize(
    "lines",
    [
        ["Content-Length: 5", "Transfer-Encoding: chunked"],
        ["Content-Length: 5", "Content-Length: 6"],
        ["Content-Length: 5, 6"],
        ["Content-Length: +5"],
        ["Content-Length: -1"],
        ["Content-Length: 0x5"],
        ["Transfer-Encoding: chunked, identity"],
        ["Transfer-Encoding: identity"],
        ["Transfer-Encoding: xchunked"],
        ["Transfer-Encoding : chunked"],
        ["Host: evil.test"],
        ["X: a\0b"],
        ["X: a\rb"],
        [": empty"],
        ["no colon"],
    ],
)
async def test_smuggling(serve: Make, lines: list[str]) -> None:
    async with upstream() as server:
        served = serve(f"up.test:{server.port}")
        body = b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
        client = await served.dial()
        await client.send(get(f"up.test:{server.port}", "/", *lines, method="POST") + body)
        status, _ = await client.head()
        assert status in (400, 501), lines
        await client.rest()
        assert b"/smuggled" not in server.heard
        await fine(served, server.port)


async def test_what_is_normalised_on_the_way(serve: Make) -> None:
    """A folded header, a length that is told twice, a host in the head that is not that of the URL."""
    async with upstream() as server:
        served = serve(f"up.test:{server.port}")
        client = await served.dial()
        head = f"POST http://up.test:{server.port}/ HTTP/1.1\r\nHost: evil.test\r\nX: a\r\n b\r\n"
        _, _, body = await client.ask(f"{head}Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi".encode())
        assert b"evil.test" not in body
        assert f"host: up.test:{server.port}\r\n".encode() in body
        assert body.count(b"content-length") == 1
        assert b"x: a b\r\n" in body
        assert b"\r\n b" not in body


async def test_a_length_cannot_be_nominated_away(serve: Make) -> None:
    async with upstream() as server:
        served = serve(f"up.test:{server.port}")
        lines = ["Connection: content-length, host", "Content-Length: 2"]
        _, _, body = await served.ask(get(f"up.test:{server.port}", "/", *lines, method="POST") + b"hi")
        assert b"content-length: 2\r\n" in body
        assert body.endswith(b"\r\n\r\nhi")


async def test_pipelining(serve: Make) -> None:
    async with upstream() as server:
        served = serve(f"up.test:{server.port}")
        place = f"up.test:{server.port}"
        client = await served.dial()
        await client.send(b"".join(get(place, f"/{n}") for n in range(5)) + get("evil.test") + get(place, "/last"))
        for number in range(5):
            status, _, body = await client.answer()
            assert (status, body.split()[1]) == (200, b"/%d" % number)
        assert (await client.answer())[0] == 403


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: up.test\r\n\r\n",
        b"GET https://up.test/ HTTP/1.1\r\nHost: up.test\r\n\r\n",
        b"GET ftp://up.test/ HTTP/1.1\r\nHost: up.test\r\n\r\n",
        b"GET http://up.test/#x HTTP/1.1\r\nHost: up.test\r\n\r\n",
        b"CONNECT up.test HTTP/1.1\r\nHost: up.test\r\n\r\n",
        b"CONNECT up.test:80/x HTTP/1.1\r\nHost: up.test\r\n\r\n",
        b"CONNECT http://up.test:80 HTTP/1.1\r\nHost: up.test\r\n\r\n",
        b"CONNECT up.test:80 HTTP/1.1\r\nHost: up.test\r\nContent-Length: 3\r\n\r\nabc",
        b"GET http://user:pass@up.test/ HTTP/1.1\r\nHost: up.test\r\n\r\n",
        b"GET  http://up.test/ HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00\r\n\r\n",
        b"nonsense\r\n\r\n",
    ],
)
async def test_what_is_no_request_for_a_proxy(serve: Make, data: bytes) -> None:
    served = serve("up.test")
    status, _, _ = await served.ask(data)
    assert status in (400, 403, 505)
    assert served.looked_up == []


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"\5\0", b"\5\xff"),
        (b"\5\1\2", b"\5\xff"),
        (socks(b"up.test", 80, command=2), b"\5\0\5\7"),
        (socks(b"up.test", 80, command=3), b"\5\0\5\7"),
        (socks(b"", 80, kind=9), b"\5\0\5\10"),
        (socks(b"up.test", 0), b"\5\0\5\2"),
        (socks(b"up.test\0evil", 80), b"\5\0\5\2"),
        (socks(bytes.fromhex("00000000000000000000ffff7f000001"), 80, kind=4), b"\5\0\5\2"),
        (b"\5\1\0\4\1\0\1", b"\5\0"),
        (socks(b"up.test", 80)[:-1], b"\5\0"),
    ],
)
async def test_what_is_no_socks(serve: Make, data: bytes, answer: bytes) -> None:
    served = serve("up.test", "127.0.0.1")
    client = await served.dial()
    await client.send(data)
    client.end()
    found = await client.rest()
    assert found.startswith(answer)
    assert len(found) in (2, 12)
    assert served.looked_up == []


# Clients that take their time, or too much of something


async def test_a_head_without_end(serve: Make) -> None:
    served = serve("up.test")
    client = await served.dial()
    sending = asyncio.create_task(client.send(b"GET http://up.test/ HTTP/1.1\r\n" + b"X: y\r\n" * 100_000))
    assert (await client.head())[0] in (400, 431)
    await client.rest()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)


@pytest.mark.parametrize("begin", [b"", b"G", b"GET http://up.test/ HTTP/1.1\r\n", b"\5", b"\5\1\0\5\1\0\3\x07up"])
async def test_slow_heads(serve: Make, begin: bytes) -> None:
    served = serve("up.test", times=IMPATIENT)
    client = await served.dial()
    await client.send(begin)
    await client.rest()
    async with asyncio.timeout(SECONDS):
        await client.task


async def test_who_sends_crumbs_does_not_keep_the_loop(serve: Make) -> None:
    """One read can bring ten thousand pieces, both ways."""
    crumbs = b"1\r\na\r\n" * 10_000 + b"0\r\n\r\n"

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + crumbs)
        await writer.drain()

    async with upstream(talk) as server:
        client = await serve(f"up.test:{server.port}").dial()
        await client.send(
            get(f"up.test:{server.port}", "/", "Transfer-Encoding: chunked", "Connection: close") + crumbs
        )
        assert await turns_during(client.rest()) > 2_000


async def test_many_with_long_trailers_take_turns(serve: Make) -> None:
    """Each takes its time to read; others have a turn after each."""
    async with upstream() as server:
        served = serve(f"up.test:{server.port}")
        head = get(f"up.test:{server.port}", "/", "Transfer-Encoding: chunked", "Connection: close", method="POST")
        clients = [await served.dial() for _ in range(40)]
        for client in clients:
            await client.send(head)
        while server.count < len(clients):
            await asyncio.sleep(0.01)
        for client in clients:
            client.writer.write(b"0\r\n" + b"a:\r\n" * 12_000)
            await client.writer.drain()
        await asyncio.sleep(0.2)
        for client in clients:
            client.writer.write(b"\r\n")
        longest, last = 0.0, perf_counter()
        waiting = asyncio.gather(*(client.rest() for client in clients))
        while not waiting.done():
            await asyncio.sleep(0)
            longest, last = max(longest, perf_counter() - last), perf_counter()
        assert all(answer.startswith(b"HTTP/1.1 200") for answer in await waiting)
        assert longest < 0.4


async def test_heads_of_very_many_lines(serve: Make) -> None:
    async with upstream() as server:
        proxy = serve(f"up.test:{server.port}")
        lines = [f"a{number}: b" for number in range(300)]
        status, _, _ = await proxy.ask(get(f"up.test:{server.port}", "/", *lines))
        assert (status, server.count) == (431, 0)
        host = f"up.test:{server.port}"
        status, _, _ = await proxy.ask(get(host, "/", *lines[:200], "Content-Length: 400", method="POST") + b"\n" * 400)
        assert status == 200

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write("\r\n".join(["HTTP/1.1 200 OK", *lines, "\r\n"]).encode())
        await writer.drain()

    async with upstream(talk) as server:
        status, _, _ = await serve(f"up.test:{server.port}").ask(get(f"up.test:{server.port}"))
        assert status == 502


async def test_slow_bodies_and_slow_tunnels(serve: Make) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with upstream(talk) as server:
        place = f"up.test:{server.port}"
        served = serve(place, times=IMPATIENT)
        slow = await served.dial()
        await slow.send(get(place, "/", "Content-Length: 5", method="POST") + b"he")
        await slow.rest()
        idle = await served.dial()
        await idle.send(connect(place))
        await idle.head()
        assert await idle.rest() == b""
        outcomes = {(await served.event()).outcome for _ in range(2)}
        assert outcomes == {"TIMEOUT"}


async def test_too_many_connections(serve: Make) -> None:
    async with upstream() as server:
        served = serve(f"up.test:{server.port}", most=8)
        held = [await served.dial() for _ in range(8)]
        for client in held:
            await client.send(b"GET ")
        refused = await served.dial()
        assert await refused.rest() == b""
        await served.event(outcome="LIMIT_REACHED")
        for client in held:
            await client.close()
        async with asyncio.timeout(SECONDS):
            await asyncio.gather(*(client.task for client in held))
        await fine(served, server.port)


async def test_clients_that_hang_up(serve: Make) -> None:
    async with upstream() as server:
        served = serve(f"up.test:{server.port}")
        place = f"up.test:{server.port}"
        for data in (get(place), connect(place), socks(b"up.test", server.port), get(place, "/", "Content-Length: 9")):
            for size in (1, len(data) // 2, len(data)):
                client = await served.dial()
                await client.send(data[:size])
                await client.close()
                async with asyncio.timeout(SECONDS):
                    await asyncio.gather(client.task, return_exceptions=True)
        await fine(served, server.port)


async def test_who_hangs_up_before_the_answer_keeps_no_place(serve: Make) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        await asyncio.sleep(SECONDS)

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(8):
            await asyncio.sleep(0.2)
            writer.write(b"x")
            await writer.drain()

    times = Times(head=SECONDS, connect=SECONDS, idle=SECONDS, gone=0.5)
    async with upstream(silent) as server:
        place = f"up.test:{server.port}"
        for data in (get(place), get(place, "/", "Content-Length: 1", method="POST") + b"x"):
            client = await serve(place, times=times).dial()
            await client.send(data)
            await client.close()
            async with asyncio.timeout(SECONDS / 3):
                await asyncio.wait({client.task})
    async with upstream(slow) as server:  # who only says no more has its answer
        client = await serve(f"up.test:{server.port}", times=times).dial()
        await client.send(get(f"up.test:{server.port}", "/", "Connection: close"))
        client.end()
        assert (await client.rest()).count(b"\r\nx\r\n") == 8


async def test_a_client_that_does_not_read(serve: Make) -> None:
    """What the server sends is not gathered here."""
    sent = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        writer.transport.set_write_buffer_limits(high=0)
        for _ in range(1000):
            writer.write(bytes(65536))
            await writer.drain()
            sent += 65536

    async with upstream(talk) as server:
        served = serve(f"up.test:{server.port}", times=IMPATIENT)
        client = await served.dial()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await client.send(get(f"up.test:{server.port}"))
        async with asyncio.timeout(SECONDS):
            await client.task
        assert 0 < sent < 50 << 20


# Servers


async def answered(serve: Make, answer: bytes, *, times: Times | None = None, wait: bool = False) -> tuple[int, bytes]:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(answer)
        await writer.drain()
        if wait:
            await reader.read()

    async with upstream(talk) as server:
        served = serve(f"up.test:{server.port}", **({} if times is None else {"times": times}))
        client = await served.dial()
        await client.send(get(f"up.test:{server.port}"))
        status, _ = await client.head()
        return status, await client.rest() if status != 200 or times is not None else b""


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\0" * 1000,
        b"SSH-2.0-server\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 30_000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 999999 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\nwhatever",
        b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n",
        b"HTTP/1.1 200 O",
    ],
)
async def test_servers_that_make_no_sense(serve: Make, answer: bytes) -> None:
    assert (await answered(serve, answer))[0] == 502


async def test_a_server_that_says_nothing(serve: Make) -> None:
    assert (await answered(serve, b"", times=IMPATIENT, wait=True))[0] == 504


async def test_an_answer_that_breaks_off_is_no_whole_one(serve: Make) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")

    async with upstream(talk) as server:
        served = serve(f"up.test:{server.port}")
        client = await served.dial()
        await client.send(get(f"up.test:{server.port}"))
        assert (await client.head())[0] == 200
        found = await client.rest()
        assert b"0\r\n\r\n" not in found
        await served.event(outcome="UNAVAILABLE")


async def test_who_knows_the_end_by_the_end_alone_is_cut_off(serve: Make) -> None:
    """Of HTTP/1.0 an answer is whole when the connection ends; one that is not must not end like that."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        await writer.drain()
        if not whole:
            return
        writer.write(b"0\r\n\r\n")

    async with upstream(talk) as server:
        served = serve(f"up.test:{server.port}")
        for whole in (True, False):
            client = await served.dial()
            await client.send(f"GET http://up.test:{server.port}/ HTTP/1.0\r\n\r\n".encode())
            assert (await client.head())[0] == 200
            async with asyncio.timeout(SECONDS):
                if whole:
                    assert await client.reader.read() == b"hello"
                else:
                    with pytest.raises(ConnectionResetError):
                        await client.reader.read()


async def test_a_server_that_answers_before_it_has_heard_all(serve: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_side, "SECONDS_TO_SETTLE", 0.2)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        await reader.read(1 << 20)

    async with upstream(talk) as server:
        served = serve(f"up.test:{server.port}")
        client = await served.dial()
        await client.send(get(f"up.test:{server.port}", "/", "Content-Length: 100000000", method="POST"))
        sending = asyncio.create_task(client.send(bytes(1 << 22)))
        status, head = await client.head()
        assert status == 413
        assert b"connection: close" in head.lower()
        await client.rest()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def test_an_endless_answer_ends_with_its_client(serve: Make) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    async with upstream(talk) as server:
        served = serve(f"up.test:{server.port}")
        client = await served.dial()
        await client.send(get(f"up.test:{server.port}"))
        await client.head()
        assert len(await client.exactly(1 << 20)) == 1 << 20
        await client.close()
        async with asyncio.timeout(SECONDS):
            await asyncio.gather(client.task, return_exceptions=True)


# Whatever comes


@settings(max_examples=400 if SOAK else 60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=40), max_size=6), st.sampled_from([b"secret-value", b"aabaac", b"xxxxxxx"]))
def test_secrets_are_found_across_pieces(pieces: list[bytes], value: bytes) -> None:
    data = value.join(pieces)
    scrubber, whole = Scrubber([value.decode()]), data.replace(value, b"*" * len(value))
    rng = random.Random(len(data))
    found, at = b"", 0
    while at < len(data):
        size = rng.randint(1, 9)
        found += scrubber.feed(data[at : at + size])
        at += size
    found += scrubber.rest()
    assert found == whole
    assert value not in found


async def test_changed_conversations(serve: Make) -> None:
    """Bytes of real conversations, changed at random: every connection ends, and nobody but the allowed is reached."""
    requests: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request, and nothing behind it."""
        protocol = h11.Connection(h11.SERVER)
        while not isinstance(event := protocol.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Request):
                requests.append(bytes(event.method) + b" " + bytes(event.target))
            elif event is h11.NEED_DATA:
                protocol.receive_data(await reader.read(65536))
        assert protocol.trailing_data[0] == b""
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with upstream(talk) as server:
        place = f"up.test:{server.port}"
        served = serve(f"GET http://{place}/ok", times=Times(head=0.2, connect=1.0, idle=0.2))
        seeds = [
            get(place, "/ok"),
            get(place, "/ok", "Content-Length: 4", method="POST") + b"body",
            connect(place) + b"GET /ok HTTP/1.1\r\nHost: " + place.encode() + b"\r\n\r\n",
            socks(b"up.test", server.port) + b"GET /ok HTTP/1.1\r\nHost: x\r\n\r\n",
            get(place, "/ok", "Transfer-Encoding: chunked") + b"3\r\nabc\r\n0\r\n\r\n",
        ]
        print("seed", SEED)
        rng = random.Random(SEED)

        async def one() -> None:
            client = await served.dial()
            await client.send(changed(rng, rng.choice(seeds)))
            client.end()
            await client.rest()
            async with asyncio.timeout(SECONDS):
                await asyncio.gather(client.task, return_exceptions=True)
            error = None if client.task.cancelled() else client.task.exception()
            assert error is None or isinstance(error, ConnectionError), error
            await served.drop(client)

        for _ in range(ROUNDS // 10):
            await asyncio.gather(*(one() for _ in range(10)))
        assert set(served.looked_up) <= {"up.test"}
        assert not served.proxy._flows.live
        assert not served.proxy._serving
        assert requests
        assert [line for line in requests if not line.startswith(b"GET /ok")] == []
        assert server.errors == [error for error in server.errors if isinstance(error, h11.RemoteProtocolError)]
        assert (await served.ask(get(place, "/ok")))[0] == 200


def changed(rng: random.Random, data: bytes) -> bytes:
    """The same with a few bytes different, gone, doubled or swapped."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(found))
        match rng.randrange(4):
            case 0:
                found[at] = rng.choice([0, 10, 13, 32, 47, 64, 255, rng.randrange(256)])
            case 1:
                del found[at : at + rng.randint(1, 4)]
            case 2:
                found[at:at] = found[at : at + rng.randint(1, 20)]
            case _:
                found[at:at] = rng.choice(
                    [b"\r\n", b"..", b"%2e", b"\0", b"@", b":", b"Transfer-Encoding: chunked\r\n"]
                )
        if not found:
            return b"x"
    return bytes(found)
