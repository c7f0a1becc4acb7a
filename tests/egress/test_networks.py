"""The network of real sandboxes: what gets out, what does not, and when that changes."""

import asyncio
import shutil

import pytest

from egress.conftest import SECONDS, Upstream, parrot, upstream
from paddock import (
    ConfigError,
    ConflictError,
    Local,
    Manager,
    Memory,
    Namespaces,
    Network,
    NotAuthorizedError,
    Sandbox,
    SandboxError,
    Secret,
    UnavailableError,
    UnsupportedError,
)
from paddock.consent import begun_by
from paddock.driver import BackendSpec
from paddock.egress import packages

LOOPBACK = ("127.0.0.0/8", "::1/128")
FETCH = """
import sys, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=20).status)
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""
RAW = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5)
    print("connected")
except OSError as error:
    print(type(error).__name__)
"""
TUNNEL = """
import os, socket, sys
port = int(os.environ["HTTP_PROXY"].rpartition(":")[2])
s = socket.create_connection(("127.0.0.1", port))
s.sendall(f"CONNECT {sys.argv[1]} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
print(s.recv(65536).split()[1].decode(), flush=True)
try:
    print(len(s.recv(1)), flush=True)
except ConnectionError:
    print("cut off", flush=True)
"""


def allowed(server: Upstream, *more: str) -> Network:
    return Network.allow(f"127.0.0.1:{server.port}", *more, private=LOOPBACK)


async def fetch(sb: Sandbox, server: Upstream) -> str:
    """The status inside, and the words if it is none that is good."""
    command = ["python3", "-c", FETCH, f"http://127.0.0.1:{server.port}/"]
    result = await sb.exec(command, env={"NO_PROXY": "", "no_proxy": ""}, timeout=60)
    return result.stdout + result.stderr


async def test_there_is_one_way_out(walled: BackendSpec) -> None:
    async with upstream() as server, Sandbox.create(walled, network=allowed(server)) as sb:
        assert await fetch(sb, server) == "200\n"
        for host in ("127.0.0.1", "192.0.2.1", "8.8.8.8"):
            raw = await sb.exec(["python3", "-c", RAW, host, str(server.port)])
            assert raw.stdout in ("ConnectionRefusedError\n", "OSError\n"), raw.stdout
        names = await sb.exec(["python3", "-c", "import socket; socket.gethostbyname('example.org')"])
        assert "gaierror" in names.stderr
        assert server.count == 1
        assert "Paddock's proxy, to the hosts that are allowed (1)" in sb.isolation.network.by
        assert sb.isolation.network
        await sb.set_network(Network.none())
        assert "403 Paddock: 127.0.0.1" in await fetch(sb, server)
        assert sb.network == Network.none()
        assert "lets nothing through" in sb.isolation.network.by


async def test_nothing_is_there_unless_asked_for() -> None:
    async with upstream() as server, Sandbox.create(Namespaces()) as sb:
        assert "PROXY" not in (await sb.exec("env")).stdout.upper()
        raw = await sb.exec(["python3", "-c", RAW, "127.0.0.1", "3128"])
        assert raw.stdout == "ConnectionRefusedError\n"
        await sb.set_network(Network.none())
        assert "proxy" not in sb.isolation.network.by
        await sb.set_network(allowed(server))
        assert await fetch(sb, server) == "200\n"
        assert "HTTP_PROXY=http://127.0.0.1:3128\n" in (await sb.exec("env")).stdout


async def test_a_port_that_is_taken() -> None:
    async with upstream() as server, Sandbox.create(Namespaces()) as sb:
        listen = "import socket,time; s=socket.create_server(('127.0.0.1',3128)); print(1, flush=True); time.sleep(600)"
        async with await sb.start(["python3", "-c", listen]) as process:
            async for _ in process:
                break
            await sb.set_network(allowed(server))
            assert ":3128\n" not in (await sb.exec("env")).stdout
            assert await fetch(sb, server) == "200\n"


async def test_another_policy_closes_tunnels_at_once() -> None:
    async with (
        upstream(parrot) as server,
        Sandbox.create(Namespaces(), network=allowed(server)) as sb,
        await sb.start(["python3", "-c", TUNNEL, f"127.0.0.1:{server.port}"]) as process,
    ):
        said = aiter(process)
        assert (await anext(said)).text == "200\n"
        await sb.set_network(allowed(server, "example.org"))
        waiting = asyncio.ensure_future(anext(said))
        assert not waiting.done()
        await sb.set_network(Network.allow("example.org"))
        async with asyncio.timeout(SECONDS):
            assert (await waiting).text in ("cut off\n", "0\n")


async def test_the_last_of_two_policies_holds() -> None:
    async with upstream() as server, Sandbox.create(Namespaces()) as sb:
        last = Network.allow("example.org")
        await asyncio.gather(sb.set_network(allowed(server)), sb.set_network(last))
        assert sb.network == last
        assert "403" in await fetch(sb, server)


async def test_no_model_opens_it() -> None:
    async with upstream() as server, Sandbox.create(Namespaces()) as sb:
        with begun_by("model"):
            with pytest.raises(NotAuthorizedError):
                await sb.set_network(allowed(server))
            with pytest.raises(NotAuthorizedError):
                await Sandbox.create(Namespaces(), network=allowed(server))
        await sb.set_network(allowed(server))
        with begun_by("model"):
            assert await fetch(sb, server) == "200\n"
            with pytest.raises(NotAuthorizedError):
                await sb.set_network(Network.open())


async def test_who_has_none_says_so() -> None:
    for spec in (Memory(), Local()):
        with pytest.raises(UnsupportedError) as caught:
            await Sandbox.create(spec, network=Network.open())
        assert caught.value.capability == "network"
        async with Sandbox.create(spec) as sb:
            with pytest.raises(UnsupportedError):
                await sb.set_network(Network.open())
    async with Sandbox.create(Namespaces()) as sb:
        with pytest.raises(ConfigError):
            await sb.set_network("open")  # type: ignore[arg-type]
        with pytest.raises(UnsupportedError):
            await sb.restrict("/workspace").set_network(Network.none())


async def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    with pytest.raises(UnavailableError, match=r"paddock\[network\]"):
        await Sandbox.create(Namespaces(), network=Network.open())


async def test_a_fork_has_the_policy_of_now() -> None:
    async with upstream() as server, Sandbox.create(Namespaces(), network=Network.open(private=LOOPBACK)) as sb:
        await sb.set_network(Network.allow("example.org"))
        async with sb.fork() as other:
            assert other.network == Network.allow("example.org")
            assert "403" in await fetch(other, server)


async def test_events(monkeypatch: pytest.MonkeyPatch) -> None:
    async with upstream() as server:
        sb = await Sandbox.create(Namespaces(), network=allowed(server))
        told = sb.events()
        await fetch(sb, server)
        await sb.exec(["python3", "-c", FETCH, "http://example.org/?token=hidden"])
        await sb.close()
        found = [event async for event in told if event.operation == "egress"]
        assert [(event.subject, event.target, event.outcome, event.denied) for event in found] == [
            ("http", f"127.0.0.1:{server.port}", "ok", False),
            ("http", "example.org:80", "NOT_AUTHORIZED", True),
        ]
        assert "hidden" not in str(found)


@pytest.mark.skipif(shutil.which("curl", path="/usr/bin:/bin") is None, reason="curl is not installed")
async def test_curl_by_every_way() -> None:
    async with upstream() as server, Sandbox.create(Namespaces(), network=allowed(server)) as sb:
        url = f"http://127.0.0.1:{server.port}/"
        for way in ("", "--proxytunnel", '--proxy "$PADDOCK_SOCKS"'):
            good = await sb.exec(f"curl -sS --noproxy '' -o /dev/null -w '%{{http_code}}' {way} {url}")
            assert good.stdout == "200", good.stderr
            bad = await sb.exec(
                f"curl -sS -o /dev/null -w '%{{http_code}} %{{http_connect}}' {way} http://example.org/"
            )
            assert bad.stdout in ("403 000", "000 403", "000 000"), bad.stdout
            direct = await sb.exec(f"curl -sS -m 5 --noproxy '*' {url}")
            assert direct.exit_code == 7


# Detached


async def test_who_connects_serves_again(walled: BackendSpec) -> None:
    async with upstream() as server:
        first = await Sandbox.create(walled, network=allowed(server), detached=True)
        try:
            assert await fetch(first, server) == "200\n"
            async with Sandbox.connect(first.id) as second:
                assert await fetch(second, server) == "200\n"
                await first.close()
                told = second.events()
                assert await fetch(second, server) == "200\n"
                assert [event.outcome for event in told._waiting if event.operation == "egress"] == ["ok"]
                await second.set_network(Network.allow("example.org"))
                assert "403" in await fetch(second, server)
            async with Sandbox.connect(first.id) as third:
                assert third.network == Network.allow("example.org")
                assert "403" in await fetch(third, server)
                await third.set_network(allowed(server))
                assert await fetch(third, server) == "200\n"
        finally:
            await Sandbox.remove(first.id)


async def test_another_process_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as this one knows: what it shares with others of this process is taken away."""
    from paddock.sandbox import egressing

    async with upstream() as server:
        first = await Sandbox.create(Namespaces(), network=allowed(server), detached=True)
        try:
            monkeypatch.setattr(egressing, "_ways", {})
            async with Sandbox.connect(first.id) as second:
                assert await fetch(second, server) == "200\n"
                with pytest.raises(ConflictError):
                    await second.set_network(Network.none())
                await first.close()
                await second.set_network(Network.none())
                assert "403" in await fetch(second, server)
        finally:
            await first.close()
            await Sandbox.remove(first.id)


async def test_everybody_who_holds_it_can_change_it() -> None:
    """Also who connected before there was a network."""
    async with upstream() as server:
        first = await Sandbox.create(Namespaces(), detached=True)
        try:
            async with Sandbox.connect(first.id) as second:
                await first.set_network(allowed(server))
                assert await fetch(first, server) == "200\n"
                await second.set_network(Network.none())
                assert "403" in await fetch(first, server)
                assert first.network == second.network == Network.none()
            async with Sandbox.connect(first.id) as second:
                await first.set_network(allowed(server))
                await second.set_network(Network.allow("example.org"))
                assert first.network == second.network == Network.allow("example.org")
                assert "403" in await fetch(first, server)
        finally:
            await first.close()
            await Sandbox.remove(first.id)


async def test_another_process_began_to_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    from paddock.sandbox import egressing

    async with upstream() as server:
        first = await Sandbox.create(Namespaces(), detached=True)
        try:
            async with Sandbox.connect(first.id) as second:
                await first.set_network(allowed(server))
                monkeypatch.setattr(egressing, "_ways", {})
                for network in (Network.none(), Network.allow("example.org")):
                    with pytest.raises(ConflictError):
                        await second.set_network(network)
                assert await fetch(first, server) == "200\n"
        finally:
            await first.close()
            await Sandbox.remove(first.id)


async def test_nothing_inside_decides_who_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    from paddock.sandbox import egressing

    async with upstream() as server:
        first = await Sandbox.create(Namespaces(), network=allowed(server), detached=True)
        try:
            await first.exec("rm -f /run/paddock/*.sock")
            monkeypatch.setattr(egressing, "_ways", {})
            async with Sandbox.connect(first.id) as second:
                with pytest.raises(ConflictError):
                    await second.set_network(Network.none())
        finally:
            await first.close()
            await Sandbox.remove(first.id)


async def test_who_failed_to_serve_does_not_keep_others_from_it() -> None:
    secret = Secret("TOKEN", hosts=["127.0.0.1:1"], value="abcdefgh", tls=True)
    async with upstream() as server:
        first = await Sandbox.create(Namespaces(), detached=True)
        try:
            await first.exec("ln -s /proc/nowhere ~/.paddock")
            with pytest.raises(SandboxError):
                await first.set_network(allowed(server, "127.0.0.1:1"), secrets=[secret])
            assert "403" in await fetch(first, server)
            await first.set_network(allowed(server))
            assert await fetch(first, server) == "200\n"
        finally:
            await first.close()
            await Sandbox.remove(first.id)


async def test_leases_of_a_manager() -> None:
    async with (
        upstream() as server,
        Manager(backend=Namespaces(), network=allowed(server)) as manager,
        manager.get_or_create("ann", "1") as one,
        manager.get_or_create("ann", "1") as two,
    ):
        assert one.sandbox is not two.sandbox
        assert await fetch(one.sandbox, server) == "200\n"
        await one.release()
        assert await fetch(two.sandbox, server) == "200\n"
