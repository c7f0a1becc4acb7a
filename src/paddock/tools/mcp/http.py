"""The server over HTTP: who may ask is decided before anything else is looked at."""

import asyncio
import hmac
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, MutableMapping
from contextlib import asynccontextmanager, contextmanager
from ipaddress import ip_address
from typing import Any

import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from paddock.errors import ConfigError, ExistsError
from paddock.tools.mcp.server import McpTools

PATH = "/mcp"
MOST_SESSIONS = 64
_LARGEST = 8 << 20
_SECONDS_TO_END = 2
_SECONDS_TO_ASK = 20.0
"""For all headers, and then for each part of a body: nobody keeps a place who says nothing."""
_MOST_CONNECTIONS = 512
_USUAL_PORT = 80
"""Of HTTP: clients do not name it."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Guard:
    """In front of the server: a token on every request, and a Host and an Origin that are ours."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], token: str | None, hosts: Iterable[str]):
        self._app = app
        self._token = token
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            return
        refused = self._refused(scope)
        if refused is None:
            await self._app(scope, _in_time(receive), send)
            return
        status, words = refused
        headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")][: 2 if status == 401 else 1]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": words.encode() + b"\n"})

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        if not self._is_ours(_headers(scope, b"host")):
            return 421, "This Host is not served here. --host-name adds one."
        origins = _headers(scope, b"origin")
        if origins and not self._is_ours([origin.partition("://")[2] for origin in origins]):
            return 403, "This Origin may not ask."
        if self._token is not None and not _gives(_headers(scope, b"authorization"), self._token):
            return 401, "A token is needed: Authorization: Bearer TOKEN."
        if scope["path"] != PATH:
            return 404, f"There is nothing but {PATH}."
        return None

    def _is_ours(self, found: list[str]) -> bool:
        return len(found) == 1 and found[0].lower() in self._hosts


def _in_time(receive: Receive) -> Receive:
    """The same, for whom a client that does not send on is gone."""
    whole = False

    async def received() -> MutableMapping[str, Any]:
        nonlocal whole
        if whole:
            return await receive()
        try:
            async with asyncio.timeout(_SECONDS_TO_ASK):
                message = await receive()
        except TimeoutError:
            return {"type": "http.disconnect"}
        whole = not message.get("more_body")
        return message

    return received


class _Protocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Ends a connection on which no request has come in time: the first one, and each after another was answered."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """See asyncio."""
        super().connection_made(transport)
        self._expect_another_than(None)

    def on_response_complete(self) -> None:
        """See uvicorn, which waits for ever once a part of the next request has come."""
        answered = self.cycle
        super().on_response_complete()
        self._expect_another_than(answered)

    def _expect_another_than(self, answered: object) -> None:
        asyncio.get_running_loop().call_later(_SECONDS_TO_ASK, self._end_if_silent, answered)

    def _end_if_silent(self, answered: object) -> None:
        if self.cycle is answered:
            self.transport.close()


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """They belong to the program that it is part of."""
        yield


@asynccontextmanager
async def listening(
    tools: McpTools, host: str, port: int, token: str | None, names: Iterable[str] = ()
) -> AsyncIterator[str]:
    """Serve until the end of the block: the URL. `names` are those that this host is also known by.

    Without a token it listens on the loopback alone; anything else is a `ConfigError`.
    """
    need_token(host, token)
    bound = _bound(host, port)
    place = f"[{host}]" if ":" in host else host
    number = bound.getsockname()[1]
    known = [place, *names, *(("localhost", "127.0.0.1", "[::1]") if is_loopback(host) else ())]
    hosts = [*(known if number == _USUAL_PORT else names), *(f"{name}:{number}" for name in known)]
    manager = StreamableHTTPSessionManager(tools.server, max_sessions=MOST_SESSIONS, max_request_body_size=_LARGEST)
    guard = Guard(manager.handle_request, token, hosts)
    config = uvicorn.Config(
        guard,
        http=_Protocol,
        ws="none",
        log_config=None,
        lifespan="off",
        server_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=_SECONDS_TO_END,
    )
    server = _Server(config)
    try:
        async with manager.run():
            task = asyncio.ensure_future(server.serve(sockets=[bound]))
            try:
                yield f"http://{place}:{number}{PATH}"
            finally:
                server.should_exit = server.force_exit = True
                await asyncio.wait([task])
    finally:
        bound.close()


def need_token(host: str, token: str | None) -> None:
    """Return if this may be listened at: where others reach it there has to be a token."""
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"{host!r} is not the loopback, and without a token everybody could ask.", hint="Leave out --no-token."
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen()
    except OSError as error:
        found.close()
        raise ExistsError(
            f"Nothing can listen at {host} port {port}: {error.strerror or error}.", hint="Give another with --http."
        ) from None
    return found


def _headers(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _gives(found: list[str], token: str) -> bool:
    scheme, _, given = found[0].partition(" ") if len(found) == 1 else ("", "", "")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.encode("latin-1"), token.encode())
