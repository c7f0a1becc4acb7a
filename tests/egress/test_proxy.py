"""What the proxy lets through, by each way to ask, and what it does not; without a sandbox."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from egress.conftest import SECONDS, Make, Served, connect, get, parrot, socks, upstream
from paddock import Network
from paddock.egress.proxy import Times
from paddock.egress.resolving import MOST_AT_ONCE

DENIED = "NOT_AUTHORIZED"


async def test_a_request_is_forwarded(serve: Make) -> None:
    async with upstream() as server:
        served = serve(f"up.test:{server.port}")
        place = f"up.test:{server.port}"
        lines = [
            "X-Mine: 1",
            "X-Latin: \xe9",
            "Connection: keep-alive, X-Hop",
            "X-Hop: 2",
            "Proxy-Connection: keep-alive",
            "TE: trailers",
        ]
        more = ["Proxy-Authorization: Basic eA==", "Upgrade: h2c", "Keep-Alive: 5"]
        status, head, body = await served.ask(get(place, "/a?b=c", *lines, *more))
        assert status == 200
        assert b"transfer-encoding" not in head
        assert body.startswith(b"GET /a?b=c HTTP/1.1\r\n")
        assert b"x-mine: 1\r\nx-latin: \xe9\r\n" in body
        assert f"host: {place}".encode() in body
        for gone in (b"x-hop", b"proxy-", b"upgrade", b"keep-alive", b"te:"):
            assert gone not in body
        event = await served.event(kind="connection", operation="egress", subject="http", target=place, outcome="ok")
        assert event.size is not None
        assert event.size > len(body)
        assert event.initiator == "model"


async def test_several_requests_on_one_connection(serve: Make) -> None:
    async with upstream() as server:
        client = await serve(f"up.test:{server.port}").dial()
        for number in range(3):
            status, _, body = await client.ask(get(f"up.test:{server.port}", f"/{number}"))
            assert (status, body.split()[1]) == (200, b"/%d" % number)
        status, _, _ = await client.ask(get("other.test"))
        assert status == 403


async def test_bodies_go_both_ways(serve: Make) -> None:
    body = bytes(range(256)) * 4096
    async with upstream() as server:
        served = serve(f"up.test:{server.port}")
        place = f"up.test:{server.port}"
        client = await served.dial()
        asked = get(place, "/", f"Content-Length: {len(body)}", "Expect: 100-continue", method="PUT")
        await client.send(asked)
        assert (await client.head())[0] == 100
        sending = asyncio.create_task(client.send(body))
        status, _, answer = await client.answer()
        await sending
        assert status == 200
        assert answer.endswith(b"\r\n\r\n" + body)
        chunked = b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
        status, _, answer = await client.ask(get(place, "/", "Transfer-Encoding: chunked", method="POST") + chunked)
        assert status == 200
        assert b"transfer-encoding: chunked" in answer
        assert answer.endswith(b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")


async def test_answers_of_every_form(serve: Make) -> None:
    forms = {
        b"/length": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"/chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\n\r\n5\r\nhello\r\n0\r\nx: y\r\n\r\n",
        b"/close": b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"/early": b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"/none": b"HTTP/1.1 204 No Content\r\n\r\n",
    }

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(forms[head.split()[1]])
        await writer.drain()

    async with upstream(talk) as server:
        served = serve(f"up.test:{server.port}")
        for path in forms:
            client = await served.dial()
            await client.send(get(f"up.test:{server.port}", path.decode()))
            status, head = await client.head()
            assert status == (204 if path == b"/none" else 200)
            if path == b"/none":
                continue
            if b"transfer-encoding: chunked" in head.lower():
                async with asyncio.timeout(SECONDS):
                    assert await client.reader.readuntil(b"0\r\n\r\n") == b"5\r\nhello\r\n0\r\n\r\n"
            else:
                assert await client.exactly(5) == b"hello"


async def test_a_head_without_its_body(serve: Make) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        status = b"304 Not Modified" if b"/cached" in head else b"200 OK"
        writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 5\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\n")

    async with upstream(talk) as server:
        client = await serve(f"up.test:{server.port}").dial()
        for method, path, status in (("HEAD", "/", 200), ("GET", "/cached", 304), ("HEAD", "/", 200)):
            await client.send(get(f"up.test:{server.port}", path, method=method))
            found, head = await client.head()
            assert found == status
            assert b"content-length: 5" in head.lower()
            assert head.lower().count(b"set-cookie") == 2


async def test_a_tunnel(serve: Make) -> None:
    async with upstream(parrot) as server:
        served = serve(f"up.test:{server.port}")
        client = await served.dial()
        await client.send(connect(f"up.test:{server.port}") + b"early")
        assert (await client.head())[0] == 200
        assert await client.exactly(5) == b"early"
        await client.send(b"more")
        assert await client.exactly(4) == b"more"
        client.end()
        assert await client.rest() == b""
        await served.event(subject="connect", target=f"up.test:{server.port}", outcome="ok", size=18)


@pytest.mark.parametrize("kind", [1, 3])
async def test_socks(serve: Make, kind: int) -> None:
    async with upstream(parrot) as server:
        served = serve(f"up.test:{server.port}", f"127.0.0.1:{server.port}")
        client = await served.dial()
        name = b"up.test" if kind == 3 else bytes([127, 0, 0, 1])
        await client.send(socks(name, server.port, kind=kind) + b"early")
        assert await client.exactly(2) == b"\5\0"
        assert (await client.exactly(10))[:2] == b"\5\0"
        assert await client.exactly(5) == b"early"


async def test_one_way_may_end_before_the_other(serve: Make) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard = await reader.read()
        writer.write(heard * 2)
        await writer.drain()

    async with upstream(talk) as server:
        client = await serve(f"up.test:{server.port}").dial()
        await client.send(connect(f"up.test:{server.port}"))
        await client.head()
        await client.send(b"x" * 100_000)
        client.end()
        assert await client.rest() == b"x" * 200_000


# What is not allowed

ASKING: dict[str, Callable[[str, int], bytes]] = {
    "http": lambda host, port: get(f"{host}:{port}"),
    "connect": lambda host, port: connect(f"{host}:{port}"),
    "socks": lambda host, port: socks(host.encode("latin-1"), port),
}


async def outcome(served: Served, how: str, host: str, port: int) -> str:
    client = await served.dial()
    await client.send(ASKING[how](host, port))
    if how == "socks":
        await client.exactly(2)
        return {0: "ok", 2: "denied"}.get((await client.exactly(10))[1], "failed")
    status, head = await client.head()
    if status == 403:
        assert b"sandbox" in head or b"usual form" in head
    return {200: "ok", 403: "denied"}.get(status, "failed")


@pytest.mark.parametrize("how", ASKING)
async def test_only_what_is_allowed(serve: Make, how: str) -> None:
    async with upstream() as server:
        served = serve(f"allowed.com:{server.port}", names={"allowed.com": "127.0.0.1", "evil.com": "127.0.0.1"})
        for host in ("allowed.com", "ALLOWED.com", "allowed.com."):
            assert await outcome(served, how, host, server.port) == "ok"
        refused = ["evil.com", "evil-allowed.com", "allowed.com.evil.com", "www.allowed.com", "127.0.0.1", "2130706433"]
        refused += ["0x7f.1", "127.1", "0177.0.0.1", "allowed.com%00.evil.com", "allowed.com@evil.com"]
        refused += ["xn--allowed-.com", "a\xfcllowed.com"] if how == "socks" else []
        refused += (
            ["allowed.com\0.evil.com", "allowed.com#.evil.com", "allowed.com evil.com", ""] if how == "socks" else []
        )
        for host in refused:
            assert await outcome(served, how, host, server.port) == "denied", host
        assert await outcome(served, how, "allowed.com", server.port ^ 1) == "denied"
        assert set(served.looked_up) == {"allowed.com"}


async def test_words_of_a_denial(serve: Make) -> None:
    served = serve("allowed.com")
    status, head, body = await served.ask(connect("example.org:443"))
    assert status == 403
    assert body == (
        b"Paddock: example.org:443 is not in this sandbox's network policy. "
        b"The person who runs this sandbox can allow it.\n"
    )
    assert b"403 example.org:443 is not in" in head
    event = await served.event(outcome=DENIED, target="example.org:443")
    assert event.denied


async def test_who_sends_much_sees_a_denial_too(serve: Make) -> None:
    served = serve("allowed.com")
    body = bytes(500_000)
    client = await served.dial()
    sending = asyncio.create_task(
        client.send(get("example.org", "/", f"Content-Length: {len(body)}", method="PUT") + body)
    )
    status, _, words = await client.answer()
    assert status == 403
    assert b"example.org:80 is not in" in words
    await sending


async def test_nothing_is_allowed_at_first(serve: Make) -> None:
    served = serve(network=Network.none())
    assert (await served.ask(get("up.test")))[0] == 403
    served = serve()
    assert (await served.ask(get("up.test")))[0] == 403
    assert served.looked_up == []


@pytest.mark.parametrize("how", ASKING)
@pytest.mark.parametrize("network", [Network.open(), Network.allow("up.test:*")])
async def test_addresses_are_looked_at(serve: Make, how: str, network: Network) -> None:
    async with upstream() as server:
        served = serve(network=network)
        for address in (
            "127.0.0.1",
            "10.0.0.1",
            "169.254.169.254",
            "::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "fd00::1",
        ):
            served.names["up.test"] = [address]
            assert await outcome(served, how, "up.test", server.port) == "denied", address
            event = await served.event(outcome=DENIED)
            assert address not in str(event)
        assert server.count == 0
        allowed = serve(network=Network(network.policy, network.hosts, ("127.0.0.0/8",)))
        assert await outcome(allowed, how, "up.test", server.port) == "ok"


async def test_every_address_is_looked_at(serve: Make) -> None:
    async with upstream() as server:
        served = serve(f"up.test:{server.port}")
        served.names["up.test"] = ["127.0.0.1", "169.254.169.254"]
        assert await outcome(served, "http", "up.test", server.port) == "denied"
        served.names["up.test"] = ["127.0.0.1", "127.0.0.2"]
        assert await outcome(served, "http", "up.test", server.port) == "ok"


async def test_a_name_that_resolves_differently_the_second_time(serve: Make) -> None:
    """It is looked up once for each connection, and that address is dialled."""
    async with upstream() as server:
        served = serve(f"up.test:{server.port}")
        answers = iter([["127.0.0.1"], ["10.0.0.1"], ["127.0.0.1"], ["169.254.169.254"]])
        served._lookup = lambda name: next(answers)  # type: ignore[method-assign]
        served.proxy._resolver._lookup = served._lookup
        seen = [await outcome(served, "http", "up.test", server.port) for _ in range(4)]
        assert seen == ["ok", "denied", "ok", "denied"]
        assert server.count == 2


async def test_methods_and_paths(serve: Make) -> None:
    async with upstream() as server:
        place = f"up.test:{server.port}"
        served = serve(f"GET,HEAD http://{place}/files")
        assert (await served.ask(get(place, "/files/a?x=/../y")))[0] == 200
        for path in ("/other", "/files/../other", "/files/%2e%2e/other", "/filesystem", ""):
            assert (await served.ask(get(place, path)))[0] == 403, path
        assert (await served.ask(get(place, "/files/a", "Content-Length: 0", method="POST")))[0] == 403
        server.heard = b""
        for begin in (connect(place), socks(b"up.test", server.port)):
            for path, status in (("/files/a", 200), ("/other", 403)):
                client = await served.dial()
                await client.send(begin)
                if begin[0] == 5:
                    await client.exactly(12)
                else:
                    assert (await client.head())[0] == 200
                await client.send(f"GET {path} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
                assert (await client.answer())[0] == status
        assert b"/other" not in server.heard


async def test_a_tunnel_that_is_looked_into_leads_to_one_host(serve: Make) -> None:
    async with upstream() as server:
        place = f"up.test:{server.port}"
        served = serve(f"http://{place}/files", "http://other.test")
        for line, named, status in (
            ("/files", place, 200),
            (f"http://{place}/files", place, 200),
            ("/files", "other.test", 421),
            ("http://other.test/", "other.test", 421),
            ("/files", f"{place}@other.test", 403),
            ("files", place, 400),
        ):
            client = await served.dial()
            await client.send(connect(place))
            await client.head()
            await client.send(f"GET {line} HTTP/1.1\r\nHost: {named}\r\n\r\n".encode())
            assert (await client.answer())[0] == status, (line, named)
        client = await served.dial()
        await client.send(connect(place))
        await client.head()
        await client.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
        assert (await client.answer())[0] == 400


# What fails


async def test_upstreams_that_are_not_there(serve: Make) -> None:
    async with upstream() as server:
        gone = server.port
    served = serve(f"up.test:{gone}", f"nowhere.test:{gone}")
    assert (await served.ask(get(f"up.test:{gone}")))[0] == 502
    assert (await served.ask(connect(f"up.test:{gone}")))[0] == 502
    assert (await served.ask(get(f"nowhere.test:{gone}")))[0] == 502
    assert await outcome(served, "socks", "nowhere.test", gone) == "failed"
    await served.event(outcome="UNAVAILABLE")


async def test_names_that_nobody_knows_in_time(serve: Make) -> None:
    released = asyncio.Event()
    served = serve("up.test", times=Times(head=SECONDS, connect=0.2, idle=SECONDS))
    loop = asyncio.get_running_loop()

    def slow(name: str) -> list[str]:
        asyncio.run_coroutine_threadsafe(released.wait(), loop).result(SECONDS)
        return ["127.0.0.1"]

    served.proxy._resolver._lookup = slow
    assert (await served.ask(get("up.test")))[0] == 504
    released.set()
    await served.event(outcome="TIMEOUT")


# Changes while it runs


async def test_names_when_there_are_no_threads(serve: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async with upstream() as server:
        served = serve(f"up.test:{server.port}")
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            for _ in range(MOST_AT_ONCE):
                assert (await served.ask(get(f"up.test:{server.port}")))[0] == 502
        assert (await served.ask(get(f"up.test:{server.port}")))[0] == 200


async def test_passwords_in_urls_are_not_logged(serve: Make) -> None:
    served = serve("up.test")
    for data in (get("user:hunter2@up.test"), connect("user:hunter2@up.test:443"), get("a@b:hunter2@up.test")):
        assert (await served.ask(data))[0] == 403
        event = await served.event(outcome="NOT_AUTHORIZED")
        assert "up.test" in str(event)
        assert "hunter2" not in str(event)


async def test_another_policy_ends_what_it_does_not_allow(serve: Make) -> None:
    async with upstream(parrot) as server:
        served = serve(
            f"up.test:{server.port}",
            f"other.test:{server.port}",
            names={"up.test": "127.0.0.1", "other.test": "127.0.0.1"},
        )
        tunnels = {}
        for host in ("up.test", "other.test"):
            tunnels[host] = await served.dial()
            await tunnels[host].send(connect(f"{host}:{server.port}"))
            await tunnels[host].head()
        await served.proxy.update(Network.allow(f"other.test:{server.port}", private=("127.0.0.0/8",)))
        assert await tunnels["up.test"].rest() == b""
        await served.event(target=f"up.test:{server.port}", outcome=DENIED)
        await tunnels["other.test"].send(b"still here")
        assert await tunnels["other.test"].exactly(10) == b"still here"
        assert await outcome(served, "connect", "up.test", server.port) == "denied"
        await served.proxy.update(Network.allow(f"*.test:{server.port}", private=("127.0.0.0/8",)))
        assert await outcome(served, "connect", "up.test", server.port) == "ok"
        await served.proxy.update(Network.allow(f"*.test:{server.port}"))
        assert await tunnels["other.test"].rest() == b""


async def test_a_request_under_way_is_ended_too(serve: Make) -> None:
    begun = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
        await writer.drain()
        begun.set()
        await reader.read()

    async with upstream(talk) as server:
        served = serve(f"up.test:{server.port}")
        client = await served.dial()
        await client.send(get(f"up.test:{server.port}"))
        await client.head()
        assert await client.exactly(5) == b"hello"
        await served.proxy.update(Network.none())
        assert await client.rest() == b""
        await served.event(outcome=DENIED)


async def test_an_idle_connection_survives_and_is_judged_anew(serve: Make) -> None:
    async with upstream() as server:
        served = serve(f"up.test:{server.port}")
        client = await served.dial()
        assert (await client.ask(get(f"up.test:{server.port}")))[0] == 200
        await served.event(outcome="ok")  # it is idle from then on
        await served.proxy.update(Network.none())
        assert (await client.ask(get(f"up.test:{server.port}")))[0] == 403
