"""A provider, as this host reaches it: one address, no redirects, no headers but those that are listed."""

import email.utils
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from paddock.errors import ConfigError
from paddock.gateway.connectors import Connector
from paddock.gateway.errors import RequestFailed
from paddock.gateway.providers import endpoint, shown_key
from paddock.gateway.translate import Wire

if TYPE_CHECKING:
    import asyncio

    import httpx2

PASSED_ON = ("anthropic-beta", "anthropic-version", "openai-beta")
"""Of the sandbox's own headers."""
TOLD = ("content-type", "request-id", "x-request-id", "retry-after")
"""Of the provider's."""
_TRY_AGAIN = frozenset({408, 429, 500, 502, 503, 504, 529})
_SECONDS_TO_CONNECT = 15.0
_SECONDS_OF_RETRIES = 20.0
_FIRST_PAUSE = 0.5
_MOST_CONNECTIONS = 512


class Upstream:
    """One connector's provider. Connections to it are kept for the next request."""

    def __init__(self, connector: Connector) -> None:
        self.connector = connector
        self._client = None if connector.proxy is None else _client(connector)  # which may lack a package
        self._making: asyncio.Future[httpx2.AsyncClient] | None = None

    def prepare(self) -> None:
        """Begin to make what asking takes, in a thread: to read all certificates that are trusted takes 50 ms."""
        if self._client is None:
            self._begun()

    async def ask(
        self, wire: Wire, tail: str, body: bytes, headers: Mapping[str, str], key: str
    ) -> "tuple[httpx2.Response, int]":
        """The beginning of the answer, and how often it was asked for. Whoever gets it closes it."""
        import asyncio

        url = endpoint(self.connector.kind, self.connector.base_url, wire, tail)
        sent = {
            "accept": "*/*",
            "accept-encoding": "identity",  # what would have to be unpacked can unpack to anything
            "content-type": "application/json",
            "user-agent": "paddock",
            **shown_key(wire, key),
            **headers,
        }
        deadline, pause, attempt = time.monotonic() + _SECONDS_OF_RETRIES, _FIRST_PAUSE, 1
        while True:
            answer = await self._attempt(url, body, sent, last=attempt > self.connector.retries)
            wait = pause if answer is None else _asked_to_wait(answer, pause)
            late = time.monotonic() + wait > deadline
            if answer is not None:
                if answer.status_code not in _TRY_AGAIN or attempt > self.connector.retries or late:
                    return answer, attempt
                await answer.aclose()
            await asyncio.sleep(wait)
            attempt, pause = attempt + 1, pause * 2

    async def close(self) -> None:
        """Idempotent."""
        if self._client is not None or self._making is not None:
            await (await self._ready()).aclose()

    async def _ready(self) -> "httpx2.AsyncClient":
        import asyncio

        if self._client is None:
            self._client = await asyncio.shield(self._begun())
        return self._client

    def _begun(self) -> "asyncio.Future[httpx2.AsyncClient]":
        import asyncio

        if self._making is None:
            self._making = asyncio.get_running_loop().run_in_executor(None, _client, self.connector)
        return self._making

    async def _attempt(
        self, url: str, body: bytes, headers: Mapping[str, str], *, last: bool
    ) -> "httpx2.Response | None":
        import httpx2

        client = await self._ready()
        request = client.build_request("POST", url, content=body, headers=dict(headers))
        try:
            return await client.send(request, stream=True)
        except (httpx2.ConnectError, httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
            if not last:
                return None
            raise _failed(502, self.connector, "cannot be reached, or hung up") from None
        except httpx2.TimeoutException as error:
            costs = isinstance(error, httpx2.ReadTimeout)
            raise _failed(504, self.connector, "does not answer in time", costs=costs) from None
        except httpx2.HTTPError:
            raise _failed(502, self.connector, "answers with something that is no HTTP") from None


def _client(connector: Connector) -> "httpx2.AsyncClient":
    import httpx2

    try:
        client = httpx2.AsyncClient(
            trust_env=False,  # it would send the logins of .netrc along
            follow_redirects=False,
            proxy=connector.proxy,
            timeout=httpx2.Timeout(connector.timeout, connect=_SECONDS_TO_CONNECT, pool=connector.timeout),
            limits=httpx2.Limits(max_connections=_MOST_CONNECTIONS, max_keepalive_connections=32),
        )
    except ImportError:
        raise ConfigError(
            f"The proxy of the connector '{connector.name}' needs a package that is not installed.",
            hint="pip install socksio",
        ) from None
    client.headers.clear()
    return client


def _failed(status: int, connector: Connector, words: str, *, costs: bool = False) -> RequestFailed:
    told = f"The provider of the connector '{connector.name}' {words}."
    return RequestFailed(status, told, outcome="UPSTREAM", costs=costs)


def _asked_to_wait(answer: "httpx2.Response", pause: float) -> float:
    said = answer.headers.get("retry-after", "")
    if said.isascii() and said.isdigit():
        return max(float(said[:6]), pause)
    try:
        return max(email.utils.parsedate_to_datetime(said).timestamp() - time.time(), pause)
    except (ValueError, OverflowError):
        return pause
