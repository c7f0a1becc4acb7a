"""`Proxy`: one sandbox's way out. It speaks HTTP, CONNECT and SOCKS5 at one port, told apart by the first byte."""

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import h11

from paddock.audit import EventBus
from paddock.driver import Connection
from paddock.egress import refusing, resolving, socks
from paddock.egress.attaching import Secrets
from paddock.egress.dialing import Upstream, dial
from paddock.egress.flows import Flow, Flows
from paddock.egress.forwarding import Asked, BadAnswerError, Forwarding
from paddock.egress.refusing import Refused, Reply
from paddock.egress.rules import Rules, Verdict
from paddock.egress.streams import Ahead, Patient
from paddock.egress.tls import TlsConnection, to_servers
from paddock.egress.tunnel import Tunnel
from paddock.errors import LimitReachedError
from paddock.finishing import in_thread
from paddock.http.server import Exchange, serve
from paddock.types import Network
from paddock.types.hosts import authority

if TYPE_CHECKING:
    from paddock.egress.authority import Authority

PORT = 3128
MOST_CONNECTIONS = 256
_SECONDS_TO_CUT = 5.0
_ABSOLUTE = re.compile(r"(?i:http)://([^/?#]*)([^#]*)")

Accept = Callable[[], Awaitable[Connection]]
"""Tells the client that it may go on, and returns what it says from here."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds that are waited for something."""

    head: float = 60.0
    """The head of a request, or a handshake."""
    connect: float = 30.0
    idle: float = 600.0
    """Anything at all, on a connection that is there."""
    gone: float = 10.0
    """More of an answer, for a client that has hung up or will say no more."""


@dataclass(frozen=True, slots=True)
class Server:
    """Whom a request is for."""

    host: str
    port: int
    tls: bool = False

    @property
    def scheme(self) -> str:
        """As in a URL."""
        return "https" if self.tls else "http"

    @property
    def header(self) -> str:
        """How it is called in the header `Host`."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == (443 if self.tls else 80) else f"{name}:{self.port}"


class Proxy:
    """What a policy allows goes on, until it ends or another policy does not allow it."""

    def __init__(
        self,
        network: Network,
        bus: EventBus,
        secrets: Secrets | None = None,
        authority: "Authority | None" = None,
        *,
        lookup: resolving.Lookup = resolving.system_lookup,
        times: Times = Times(),  # noqa: B008 - frozen
        most: int = MOST_CONNECTIONS,
    ) -> None:
        self._rules = Rules(network)
        self._secrets = Secrets() if secrets is None else secrets
        self._authority = authority
        self._flows = Flows(bus)
        self._resolver = resolving.Resolver(lookup, times.connect)
        self._times = times
        self._most = most
        self._serving = 0
        self._outward: ssl.SSLContext | None = None

    @property
    def network(self) -> Network:
        """The policy that holds."""
        return self._rules.network

    @property
    def secrets(self) -> Secrets:
        """What is attached."""
        return self._secrets

    def report_to(self, bus: EventBus) -> None:
        """Whose events they are from now on."""
        self._flows.bus = bus

    async def update(
        self, network: Network, secrets: Secrets | None = None, authority: "Authority | None" = None
    ) -> None:
        """Another policy, from now on. What it does not allow is ended, and this returns when it has."""
        self._rules = Rules(network)
        self._secrets = self._secrets if secrets is None else secrets
        self._authority = self._authority if authority is None else authority
        gone = [flow for flow in self._flows.live if not flow.allowed_by(self._rules)]
        for flow in gone:
            flow.end()
        with suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS_TO_CUT):
                for flow in gone:
                    await flow.ended.wait()

    async def serve(self, connection: Connection) -> None:
        """One connection from inside, to its end."""
        if self._serving >= self._most:
            self._flows.bus.emit("connection", "egress", None, LimitReachedError.code, 0.0, initiator="model")
            return
        task = asyncio.current_task()
        self._serving += 1
        try:
            await self._serve(connection)
        except asyncio.CancelledError:
            if task is None or task not in self._flows.cut:
                raise
            while task.uncancel():
                pass
            connection.abort()
        finally:
            self._serving -= 1
            if task is not None:
                self._flows.cut.discard(task)

    async def _serve(self, connection: Connection) -> None:
        try:
            async with asyncio.timeout(self._times.head):
                first = await connection.read()
        except TimeoutError:
            return
        client = Ahead(connection, first)
        if first[:1] == bytes([socks.VERSION]):
            await self._socks(client)
        elif first:
            await serve(Patient(client, self._times.idle), partial(self._web, client), seconds=self._times.head)

    # SOCKS

    async def _socks(self, client: Ahead) -> None:
        try:
            async with asyncio.timeout(self._times.head):
                place = await socks.asked(client)
        except TimeoutError:
            return
        except Refused as refused:
            self._flows.bus.emit("connection", "egress", "socks", refused.outcome, 0.0, initiator="model")
            await client.write(socks.answer(refused.reply))
            return
        answered = False

        async def accept() -> Connection:
            nonlocal answered
            answered = True
            await client.write(socks.answer(Reply.DONE))
            return client

        try:
            with self._flows.begin("socks", place.shown) as flow:
                flow.aim(place.host(), place.port)
                await self._tunnel(flow, accept)
        except Refused as refused:
            if not answered:
                await client.write(socks.answer(refused.reply))
        except TimeoutError:
            client.abort()

    # HTTP

    async def _web(self, client: Ahead, exchange: Exchange) -> None:
        try:
            if exchange.method == "CONNECT":
                await self._connect(client, exchange)
            else:
                await self._plain(exchange)
        except Refused as refused:
            await _tell(exchange, refused)

    async def _connect(self, client: Ahead, exchange: Exchange) -> None:
        async def accept() -> Connection:
            return Ahead(client, await exchange.take_over())

        with self._flows.begin("connect", exchange.target) as flow:
            flow.aim(*_place(exchange.target))
            async for _ in exchange.chunks():
                raise Refused("A CONNECT has no body.", status=400)
            await self._tunnel(flow, accept)

    async def _plain(self, exchange: Exchange) -> None:
        """A request in the form for proxies, of plain HTTP. Its own `Host` is not looked at: the URL says whom it is for."""
        found = _ABSOLUTE.fullmatch(exchange.target)
        if found is None:
            raise Refused("This is a proxy: give it whole URLs of http, and CONNECT for all else.", status=400)
        with self._flows.begin("http", found[1] or "-") as flow:
            flow.aim(*_place(found[1], 80))
            target = found[2] if found[2].startswith("/") else "/" + found[2]
            if exchange.method == "OPTIONS" and not found[2]:
                target = "*"
            await self._forward(flow, exchange, Server(flow.host, flow.port), target)

    async def _inner(self, server: Server, exchange: Exchange) -> None:
        """A request in a tunnel that is looked into. It can be for nobody but the server that the tunnel leads to."""
        try:
            with self._flows.begin(server.scheme, "") as flow:
                flow.aim(server.host, server.port)
                target = exchange.target
                prefix = f"{server.scheme}://"
                if target.lower().startswith(prefix):
                    named, slash, path = target[len(prefix) :].partition("/")
                    _same(named, server)
                    target = slash + path or "/"
                _same(exchange.header("host") or server.header, server)
                if exchange.method == "CONNECT" or not (target.startswith("/") or target == "*"):
                    raise Refused("This is no request for the server that was connected to.", status=400)
                await self._forward(flow, exchange, server, target)
        except Refused as refused:
            await _tell(exchange, refused)

    # What was asked for

    async def _tunnel(self, flow: Flow, accept: Accept) -> None:
        """Whatever is to be said to a place: passed on as it is, or looked into where that is needed."""
        verdict = self._rules.place(flow.host, flow.port)
        if verdict is Verdict.NOTHING:
            raise refusing.not_allowed(flow.host, flow.port)
        free = verdict is Verdict.ANYTHING
        if free and self._authority is not None and self._secrets.tls(flow.host, flow.port):
            flow.unseen = True
            await self._opened(flow, await accept(), self._authority)
        elif not free or self._secrets.plain(flow.host, flow.port):
            await self._looked_into(flow, await accept(), tls=False)
        else:
            flow.unseen = True
            await self._joined(flow, accept)

    async def _joined(self, flow: Flow, accept: Accept) -> None:
        upstream = await self._reach(flow)
        client: Connection | None = None
        try:
            client = await accept()
            tunnel = Tunnel(client, upstream, self._times.idle)
            try:
                await tunnel.run()
            finally:
                flow.size = tunnel.size
        except BaseException:
            upstream.abort()
            if client is not None:
                client.abort()
            raise
        upstream.close()

    async def _opened(self, flow: Flow, client: Connection, by: "Authority") -> None:
        """We are the server for the client, and a client for the server."""
        inside = TlsConnection(client, by.context(flow.host))
        try:
            async with asyncio.timeout(self._times.head):
                await inside.begin()
        except ssl.SSLError:
            flow.fail("FAILED")
            return
        await self._looked_into(flow, inside, tls=True)
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(self._times.head):  # who reads nothing is not waited for
                await inside.end()

    async def _looked_into(self, flow: Flow, client: Connection, *, tls: bool) -> None:
        patient = Patient(client, self._times.idle)
        try:
            await serve(patient, partial(self._inner, Server(flow.host, flow.port, tls)), seconds=self._times.head)
        finally:
            flow.size = patient.size

    async def _forward(self, flow: Flow, exchange: Exchange, server: Server, target: str) -> None:
        if exchange.header("transfer-encoding") is not None and exchange.header("content-length") is not None:
            raise Refused("A request has one length, and not two.", status=400)
        flow.unseen = server.tls
        flow.request = None if server.tls else (exchange.method, target)
        if not flow.allowed_by(self._rules):
            known = self._rules.place(server.host, server.port) is not Verdict.NOTHING
            raise (refusing.not_this_request if known else refusing.not_allowed)(server.host, server.port)
        upstream = await self._reach(flow)
        patient = Patient(upstream, self._times.idle)
        try:
            await self._exchanged(exchange, server, target, patient)
        except (BadAnswerError, h11.LocalProtocolError):
            raise refusing.no_sense(server.host, server.port) from None
        except ssl.SSLError:
            raise refusing.not_trusted(server.host, server.port) from None
        except TimeoutError:
            raise refusing.too_slow(server.host, server.port) from None
        except ConnectionError:
            raise refusing.unreachable(server.host, server.port) from None
        finally:
            flow.size = patient.size
            upstream.close()

    async def _exchanged(self, exchange: Exchange, server: Server, target: str, upstream: Patient) -> None:
        connection: Connection = upstream
        attached = (self._secrets.tls if server.tls else self._secrets.plain)(server.host, server.port)
        if server.tls:
            connection = secured = TlsConnection(upstream, await self._context(), server.host)
            async with asyncio.timeout(self._times.head):
                await secured.begin()
        asked = Asked(exchange.method, target, server.header, exchange.headers, tuple(attached))
        await Forwarding(exchange, asked, connection, self._times.gone).run()

    async def _context(self) -> ssl.SSLContext:
        if self._outward is None:
            self._outward = await in_thread(to_servers)
        return self._outward

    async def _reach(self, flow: Flow) -> Upstream:
        """Resolved once; every address is looked at, and one of just these is connected to."""
        host, port = flow.host, flow.port
        try:
            addresses = await self._resolver.addresses(host)
        except TimeoutError:
            raise refusing.too_slow(host, port) from None
        except (OSError, ValueError):
            raise refusing.unknown(host, port) from None
        for address in addresses:
            if why := self._rules.address(address):
                raise refusing.not_this_address(host, port, why)
        flow.addresses = tuple(addresses)
        try:
            return await dial(addresses, port, self._times.connect)
        except TimeoutError:
            raise refusing.too_slow(host, port) from None
        except OSError:
            raise refusing.unreachable(host, port) from None


def _place(text: str, port: int | None = None) -> tuple[str, int]:
    try:
        return authority(text, port)
    except ValueError:
        raise refusing.no_host() from None


def _same(named: str, server: Server) -> None:
    if _place(named, 443 if server.tls else 80) != (server.host, server.port):
        raise Refused("This request names another host than the one that was connected to.", status=421)


async def _tell(exchange: Exchange, refused: Refused) -> None:
    """Why it is not done; who has a part of an answer is cut off."""
    if exchange.status is not None:
        exchange.abort()
        return
    words = f"Paddock: {refused.words}\n".encode("ascii")
    headers = [("connection", "close")]
    await exchange.answer(refused.status, words, "text/plain; charset=utf-8", headers, reason=refused.words)
