"""Secrets: attached outside, to the right requests, and nowhere to be found."""

import asyncio
import json
import logging
import pickle
import shutil
import ssl
from pathlib import Path

import pytest

from egress.certificates import TestAuthority
from egress.conftest import SECONDS, Make, Served, connect, get, request, socks, turns_during, upstream
from paddock import ConfigError, Namespaces, Network, Sandbox, Secret, records
from paddock.config import setting
from paddock.driver import BackendSpec
from paddock.egress.attaching import Secrets
from paddock.egress.authority import Authority, trusted_here
from paddock.egress.proxy import Times
from paddock.egress.tls import TlsConnection
from paddock.manager.digest import digest

VALUE = "tok-4f9c1e0b7a62d583"
"""Long and unlike anything else, so that it would be found wherever it got to."""


def held(*hosts: str, tls: bool = False, **more: str) -> Secrets:
    return Secrets([Secret("TOKEN", hosts, VALUE, tls=tls, **more)])


# Values


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "A B"},
        {"hosts": "api.test"},
        {"hosts": ["*.test"]},
        {"hosts": ["https://api.test"]},
        {"hosts": ["127.1"]},
        {"header": "a b"},
        {"header": "Host"},
        {"header": "content-length"},
        {"format": "Bearer"},
        {"format": "{} {}"},
        {"format": "a\r\n{}"},
        {"value": ""},
        {"value": f"{VALUE}\r\nX: y"},
        {"value": f" {VALUE}"},
        {"tls": "yes"},
    ],
)
def test_secrets_that_cannot_be(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as caught:
        Secret(**({"name": "TOKEN", "hosts": ["api.test"], "value": VALUE} | wrong))  # type: ignore[arg-type]
    assert VALUE not in str(caught.value)
    assert Secret("TOKEN", ["api.test"], VALUE, header="X-Key", format="{}").header == "x-key"


def test_it_is_in_no_text() -> None:
    secret = Secret("TOKEN", ("api.test",), VALUE)
    secrets = held("api.test")
    texts = [
        repr(secret),
        str(secret),
        json.dumps(secret.to_dict()),
        repr(secrets),
        repr(secrets.plain("api.test", 80)),
    ]
    texts += [digest({"secrets": [secret]}), repr(secrets.described), str(pickle.dumps(secrets.described))]
    assert not any(VALUE in text for text in texts)
    assert Secret.from_dict(secret.to_dict()).value is None
    assert digest([secret]) != digest([Secret("TOKEN", ("api.test",), VALUE, tls=True)])


async def test_a_value_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = Secret("EGRESS_TOKEN", ("up.test",))
    with pytest.raises(ConfigError, match="EGRESS_TOKEN has no value"):
        await Sandbox.create("namespaces", network=Network.allow("up.test"), secrets=[secret])
    monkeypatch.setenv("EGRESS_TOKEN", VALUE)
    with pytest.raises(ConfigError, match=r"up\.test:80, which the network does not allow"):
        await Sandbox.create("namespaces", network=Network.allow("other.test"), secrets=[secret])
    with pytest.raises(ConfigError, match="Two secrets"):
        await Sandbox.create("namespaces", network=Network.allow("up.test"), secrets=[secret, secret])
    async with Sandbox.create("namespaces", network=Network.allow("up.test"), secrets=[secret]) as sb:
        assert "EGRESS_TOKEN" not in (await sb.exec("env")).stdout


async def test_a_value_from_another_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = Secret("TOKEN", ("up.test",), "$ENV.EGRESS_OTHER")
    assert Secret.from_dict(secret.to_dict()) == secret
    assert Secrets([secret], {}).missing == ("TOKEN",)
    assert Secrets([secret], {"EGRESS_OTHER": VALUE}).plain("up.test", 80)[0].line == f"Bearer {VALUE}"
    with pytest.raises(ConfigError, match="cannot be sent"):
        Secrets([secret], {"EGRESS_OTHER": f"{VALUE}\n"})
    with pytest.raises(ConfigError, match="Set the variable EGRESS_OTHER"):
        await Sandbox.create("namespaces", network=Network.allow("up.test"), secrets=[secret])


# Plain HTTP


async def test_it_is_added_and_replaced(serve: Make) -> None:
    async with upstream() as server:
        place = f"up.test:{server.port}"
        served = serve("*.test:*", secrets=held(place), names={"up.test": "127.0.0.1", "other.test": "127.0.0.1"})
        status, _, body = await served.ask(get(place, "/", "Authorization: mine", "AUTHORIZATION: again"))
        assert status == 200
        assert server.heard.count(b"authorization: ") == 1
        assert f"authorization: Bearer {VALUE}\r\n".encode() in server.heard
        assert b"authorization: Bearer " + b"*" * len(VALUE) in body
        server.heard = b""
        other = f"GET http://other.test:{server.port}/ HTTP/1.1\r\nHost: {place}\r\n\r\n"
        assert (await served.ask(other.encode()))[0] == 200
        assert VALUE.encode() not in server.heard


async def test_in_tunnels_of_plain_http_too(serve: Make) -> None:
    async with upstream() as server:
        place = f"up.test:{server.port}"
        served = serve(place, secrets=held(place, header="x-key", format="{}"))
        for begin in (connect(place), socks(b"up.test", server.port)):
            client = await served.dial()
            await client.send(begin)
            await (client.exactly(12) if begin[0] == 5 else client.head())
            status, _, body = await client.ask(f"GET / HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
            assert status == 200
            assert f"x-key: {VALUE}".encode() in server.heard
            assert VALUE.encode() not in body


async def test_an_answer_that_echoes_it(serve: Make) -> None:
    """In a header, in the body, across pieces; the lengths stay."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard = await request(reader)
        assert b"accept-encoding: identity" in heard
        size = 2 * len(VALUE) + 4
        writer.write(f"HTTP/1.1 401 No\r\nX-Echo: <{VALUE}>\r\nContent-Length: {size}\r\n\r\n".encode())
        for piece in ("<" + VALUE[:7], VALUE[7:] + ">", "<" + VALUE[:-1], VALUE[-1:] + ">"):
            writer.write(piece.encode())
            await writer.drain()
            await asyncio.sleep(0.01)

    async with upstream(talk) as server:
        served = serve(f"up.test:{server.port}", secrets=held(f"up.test:{server.port}"))
        status, head, body = await served.ask(get(f"up.test:{server.port}", "/", "Accept-Encoding: gzip"))
        stars = "*" * len(VALUE)
        assert (status, body.decode()) == (401, f"<{stars}>" * 2)
        assert f"x-echo: <{stars}>".encode() in head.lower()


async def test_failures_do_not_tell_it(serve: Make) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"nonsense " + await request(reader))

    async with upstream(talk) as server:
        served = serve(f"up.test:{server.port}", secrets=held(f"up.test:{server.port}"))
        status, head, body = await served.ask(get(f"up.test:{server.port}"))
        assert status == 502
        assert VALUE.encode() not in head + body
        assert VALUE not in str(await served.event(outcome="UNAVAILABLE"))


# HTTPS


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestAuthority:
    """An authority that this host trusts."""
    authority = TestAuthority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    return authority


def encrypted(serve: Make, place: str, *hosts: str, tmp_path: Path) -> tuple[Served, ssl.SSLContext]:
    authority = Authority("sb-000000000001")
    served = serve(*hosts, secrets=held(place, tls=True), authority=authority)
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(authority.bundle())
    return served, ssl.create_default_context(cafile=str(bundle))


async def https(served: Served, place: str, trust: ssl.SSLContext, data: bytes, name: str = "up.test") -> bytes:
    """All that a client inside hears."""
    client = await served.dial()
    await client.send(connect(place))
    assert (await client.head())[0] == 200
    await client.writer.start_tls(trust, server_hostname=name)
    client.writer.write(data)
    return await client.rest()


async def test_https(serve: Make, outside: TestAuthority, tmp_path: Path) -> None:
    async with upstream(ssl=outside.server("up.test")) as server, upstream() as plain:
        place = f"up.test:{server.port}"
        served, trust = encrypted(serve, place, place, f"up.test:{plain.port}", tmp_path=tmp_path)
        ask = f"GET /x HTTP/1.1\r\nHost: {place}\r\nAuthorization: mine\r\nConnection: close\r\n\r\n".encode()
        answer = await https(served, place, trust, ask)
        assert answer.startswith(b"HTTP/1.1 200")
        assert f"authorization: Bearer {VALUE}\r\n".encode() in server.heard
        assert b"mine" not in server.heard
        assert b"Bearer " + b"*" * len(VALUE) in answer
        assert VALUE.encode() not in answer
        assert {(await served.event(outcome="ok")).subject for _ in range(2)} == {"https", "connect"}
        wrong = b"GET /x HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n"
        assert b" 421 " in await https(served, place, trust, wrong)
        await served.ask(get(f"up.test:{plain.port}"))
        assert VALUE.encode() not in plain.heard


async def test_it_is_never_sent_in_the_clear(serve: Make, outside: TestAuthority, tmp_path: Path) -> None:
    """The sandbox chooses the scheme; a secret for HTTPS does not follow it to another."""
    async with upstream() as server:
        place = f"up.test:{server.port}"
        served, _ = encrypted(serve, place, place, tmp_path=tmp_path)
        assert (await served.ask(get(place)))[0] == 200
        assert b"authorization" not in server.heard


async def test_a_server_that_is_not_trusted_never_hears_it(serve: Make, outside: TestAuthority, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    stranger = TestAuthority(tmp_path / "other")
    for context in (stranger.server("up.test"), outside.server("other.test")):
        async with upstream(ssl=context) as server:
            place = f"up.test:{server.port}"
            served, trust = encrypted(serve, place, place, tmp_path=tmp_path)
            ask = f"GET / HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n".encode()
            answer = await https(served, place, trust, ask)
            assert answer.startswith(b"HTTP/1.1 502")
            assert b"not trusted" in answer
            assert server.heard == b""


async def test_records_of_one_byte(serve: Make, outside: TestAuthority, tmp_path: Path) -> None:
    """Of which one read brings thousands."""
    async with upstream(ssl=outside.server("up.test")) as server:
        place = f"up.test:{server.port}"
        served, trust = encrypted(serve, place, place, tmp_path=tmp_path)
        client = await served.dial()
        await client.send(connect(place))
        await client.head()
        await client.writer.start_tls(trust, server_hostname="up.test")
        for byte in f"GET / HTTP/1.1\r\nHost: {place}\r\nX: {'x' * 20_000}\r\nConnection: close\r\n\r\n".encode():
            client.writer.write(bytes([byte]))
        assert await turns_during(client.rest()) > 1_500


async def test_the_end_is_not_waited_for_for_ever(
    serve: Make, outside: TestAuthority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that reads nothing takes no goodbye either."""

    async def stuck(self: TlsConnection) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(TlsConnection, "end", stuck)
    async with upstream(ssl=outside.server("up.test")) as server:
        place = f"up.test:{server.port}"
        authority = Authority("sb-000000000001")
        impatient = Times(head=1, connect=SECONDS, idle=SECONDS)
        served = serve(place, secrets=held(place, tls=True), authority=authority, times=impatient)
        (tmp_path / "bundle.pem").write_bytes(authority.bundle())
        trust = ssl.create_default_context(cafile=str(tmp_path / "bundle.pem"))
        ask = f"GET / HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n".encode()
        assert (await https(served, place, trust, ask)).startswith(b"HTTP/1.1 200")


async def test_other_hosts_are_not_opened(serve: Make, outside: TestAuthority, tmp_path: Path) -> None:
    async with upstream(ssl=outside.server("other.test")) as server:
        served, _ = encrypted(serve, "up.test:1", "up.test:1", f"other.test:{server.port}", tmp_path=tmp_path)
        served.names["other.test"] = ["127.0.0.1"]
        trust = ssl.create_default_context(cafile=str(outside.path))
        ask = b"GET / HTTP/1.1\r\nHost: other.test\r\n\r\n"
        client = await served.dial()
        await client.send(connect(f"other.test:{server.port}"))
        await client.head()
        await client.writer.start_tls(trust, server_hostname="other.test")  # which is the server itself
        assert (await client.ask(ask))[0] == 200


async def test_a_client_that_speaks_no_tls(serve: Make, outside: TestAuthority, tmp_path: Path) -> None:
    async with upstream(ssl=outside.server("up.test")) as server:
        place = f"up.test:{server.port}"
        served, _ = encrypted(serve, place, place, tmp_path=tmp_path)
        client = await served.dial()
        await client.send(connect(place))
        await client.head()
        await client.send(f"GET / HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
        assert VALUE.encode() not in await client.rest()
        assert server.heard == b""


def test_the_bundle_has_what_this_host_trusts(outside: TestAuthority) -> None:
    assert trusted_here() == outside.path.read_bytes()
    bundle = Authority("sb-1").bundle()
    assert bundle.startswith(outside.path.read_bytes())
    assert bundle.count(b"BEGIN CERTIFICATE") == 2
    assert b"PRIVATE" not in bundle


# In a real sandbox


async def test_https_inside(walled: BackendSpec, outside: TestAuthority, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that looks at nothing but the usual variables; also when another object serves, with a new authority."""
    monkeypatch.setenv("EGRESS_TOKEN", VALUE)
    get = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=20).read().decode())"
    async with upstream(ssl=outside.server("localhost")) as server:
        place = f"localhost:{server.port}"
        network = Network.allow(place, private=("127.0.0.0/8", "::1/128"))
        secret = Secret("EGRESS_TOKEN", [place], tls=True)
        env = {"NO_PROXY": "", "no_proxy": ""}
        first = await Sandbox.create(walled, network=network, secrets=[secret], env=env, detached=True)
        try:
            async with first:
                done = await first.exec(["python3", "-c", get, f"https://{place}/"])
                assert "Bearer " + "*" * len(VALUE) in done.stdout, done.stderr
            async with Sandbox.connect(first.id) as second:
                done = await second.exec(["python3", "-c", get, f"https://{place}/"])
                assert "Bearer " + "*" * len(VALUE) in done.stdout, done.stderr
            monkeypatch.delenv("EGRESS_TOKEN")
            async with Sandbox.connect(first.id) as third:
                done = await third.exec(["python3", "-c", get, f"https://{place}/"])
                assert "authorization" not in done.stdout, done.stderr
                assert "GET /" in done.stdout, done.stderr
        finally:
            await Sandbox.remove(first.id)
        assert server.heard.count(VALUE.encode()) == 2


_SEARCH = r"""
import os, re, sys
marker = bytes.fromhex(sys.argv[1])
found = []
def look(path):
    try:
        with open(path, "rb") as file:
            if marker in file.read(64 << 20):
                found.append(path)
    except (OSError, ValueError):
        pass
for top in ("/workspace", "/cache", "/tmp", "/home", "/run", "/etc", "/dev/shm"):
    for base, _, names in os.walk(top):
        for name in names:
            if os.path.isfile(os.path.join(base, name)):
                look(os.path.join(base, name))
looked = 0
for pid in filter(str.isdigit, os.listdir("/proc")):
    look(f"/proc/{pid}/environ"); look(f"/proc/{pid}/cmdline")
    if int(pid) == os.getpid():
        continue
    try:
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
            for line in maps:
                start, end = (int(part, 16) for part in line.split()[0].split("-"))
                if line.split()[1].startswith("r") and end - start < 256 << 20:
                    try:
                        memory.seek(start)
                        looked += 1
                        if marker in memory.read(end - start):
                            found.append(f"memory of {pid}: {line}")
                    except (OSError, ValueError, OverflowError):
                        pass
    except OSError:
        pass
print(looked > 0, found)
"""


@pytest.mark.skipif(shutil.which("curl", path="/usr/bin:/bin") is None, reason="curl is not installed")
async def test_it_is_nowhere_inside(
    outside: TestAuthority, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After requests that succeed and that fail, in files, environments and memory; nor in logs and records."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("EGRESS_TOKEN", VALUE)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard = await request(reader)
        status = b"500 No" if b" /fail " in heard else b"200 OK"
        writer.write(b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n" % (status, len(heard)) + heard)
        await writer.drain()

    async with upstream(talk) as plain, upstream(talk, ssl=outside.server("localhost")) as tls:
        first, second = f"localhost:{plain.port}", f"localhost:{tls.port}"
        secrets = [Secret("EGRESS_TOKEN", [first]), Secret("EGRESS_TOKEN", [second], tls=True)]
        network = Network.allow(first, second, private=("127.0.0.0/8", "::1/128"))
        async with Sandbox.create(Namespaces(), network=network, secrets=secrets, detached=True) as sb:
            try:
                told = sb.events()
                kept = records.find(sb.id)
                assert [secret.value for secret in kept.secrets] == [None, None]
                keep = "import sys,time; data=sys.stdin.read(); print(len(data), flush=True); time.sleep(600)"
                curl = f"curl -sS --noproxy '' http://{first}/a https://{second}/b http://{first}/fail https://{second}/fail http://{first}:1/"
                async with await sb.start(f"({curl}; env) 2>&1 | tee log | python3 -c '{keep}'") as process:
                    async for chunk in process:
                        assert int(chunk.text) > 500
                        break
                    log = await sb.read("log")
                    assert log.count("Bearer " + "*" * len(VALUE)) == 4, log
                    assert VALUE not in log
                    search = await sb.exec(["python3", "-c", _SEARCH, VALUE.encode().hex()])
                    assert search.stdout == "True []\n", search.stdout + search.stderr
                    marked = await sb.exec(["python3", "-c", _SEARCH, b"GET /fail".hex()])
                    assert marked.stdout != "True []\n", "the search finds nothing at all"
                await told.aclose()
                audit = Path(setting("audit").value)
            finally:
                await Sandbox.remove(sb.id)
        assert VALUE not in audit.read_text()
        assert VALUE not in caplog.text
        state = Path(setting("state").value)
        assert not [path for path in state.rglob("*") if path.is_file() and VALUE.encode() in path.read_bytes()]
