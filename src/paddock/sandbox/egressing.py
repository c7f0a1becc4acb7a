"""The way out of a sandbox: who serves it, where it is inside, and how commands find it.

Several objects of one process may hold one detached sandbox, as leases of a manager do. One of them serves; when that is
closed, another goes on. A process that finds that another one serves lets it.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from paddock import records, state
from paddock.consent import initiator
from paddock.driver import HOME, RelayingDriver
from paddock.egress import packages
from paddock.egress.attaching import Secrets
from paddock.errors import ConfigError, ConflictError, NotAuthorizedError, NotFoundError, SandboxError
from paddock.finishing import in_thread
from paddock.sandbox.bridging import relaying
from paddock.sandbox.core import Core
from paddock.sandbox.create import checked_secrets
from paddock.sandbox.serving import Service, serve
from paddock.types import Guarantee, Isolation, Network, Secret

if TYPE_CHECKING:
    from paddock.egress.authority import Authority
    from paddock.egress.proxy import Proxy

BUNDLE = f"{HOME}/.paddock/certificates.pem"
_PROXY, _AUTHORITY = "paddock.egress.proxy", "paddock.egress.authority"
_TRUSTING = (
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO"),
    *("PIP_CERT", "AWS_CA_BUNDLE"),
)
_HERE = "localhost,127.0.0.1,::1"

Put = Callable[[str, bytes], Awaitable[None]]
"""Writes a file that commands can read."""


class Way:
    """The way out of one sandbox, as far as this process and this event loop have it."""

    def __init__(self, proxy: "Proxy", port: int) -> None:
        self.proxy = proxy
        self.port = port
        self.trusting = False
        self.holders: list[Egress] = []
        self.server: Egress | None = None
        self.changing = asyncio.Lock()


_ways: dict[tuple[str, asyncio.AbstractEventLoop], Way] = {}


async def begin(core: Core, network: Network, secrets: Secrets, put: Put) -> None:
    """Serve it, or find it served."""
    driver = relaying(core, "network", "has no network")
    packages.need(tls=secrets.opens_tls)
    for name in secrets.missing:
        core.launched.bus.emit("connection", "secret", name, NotFoundError.code, 0.0)
    await _load(_PROXY)
    key = (core.launched.id, asyncio.get_running_loop())
    if key not in _ways:
        from paddock.egress.proxy import PORT, Proxy

        _ways[key] = Way(Proxy(network, core.launched.bus, secrets), core.launched.port or PORT)
    way = _ways[key]
    async with way.changing:
        if core.egress is not None:  # another call was first
            return
        _ways.setdefault(key, way)  # that of one who failed is gone by now
        egress = Egress(core, driver, way, key)
        await egress.join(put)
        core.egress = egress


async def change(core: Core, network: Network, given: Iterable[Secret] | None, put: Put) -> None:
    """Another policy."""
    relaying(core, "network", "has no network")
    if not isinstance(network, Network):
        raise ConfigError(f"{network!r} is not a Network value.", hint="Such as Network.none().")
    if initiator() == "model":
        raise NotAuthorizedError("A model cannot change the network.", hint="The host program does.")
    secrets = None if given is None else checked_secrets(network, given)
    if core.egress is None:
        if network.policy == "none" and not await _is_there(core):
            return
        await begin(core, Network.none(), Secrets(), put)
    if core.egress is not None:
        await core.egress.change(network, secrets, put)


async def _is_there(core: Core) -> bool:
    """Whether somebody else who holds this sandbox has begun one since we connected."""
    if not core.launched.detached:
        return False
    record = await in_thread(records.find, core.launched.id)
    return record.network.policy != "none"


async def _load(module: str) -> None:
    """Tens of milliseconds, the first time."""
    if module not in sys.modules:
        await in_thread(import_module, module)


async def _keep_policy(core: Core, network: Network, secrets: Secrets | None) -> None:
    await _keep(core, network=network, **({} if secrets is None else {"secrets": secrets.described}))


async def _keep(core: Core, **fields: object) -> None:
    if core.launched.detached:
        await in_thread(partial(records.change, core.launched.id, **fields))


class Egress:
    """The way out as one holder of the sandbox has it."""

    def __init__(
        self, core: Core, driver: RelayingDriver, way: Way, key: tuple[str, asyncio.AbstractEventLoop]
    ) -> None:
        self._core = core
        self._driver = driver
        self._way = way
        self._key = key
        self._mark: int | None = None
        self._service: Service | None = None

    @property
    def network(self) -> Network:
        """The policy that holds, as far as we know."""
        return self._way.proxy.network

    def described(self, held: Isolation) -> Isolation:
        """What is said of the network, truly."""
        network = self.network
        ways = {
            "none": "which lets nothing through",
            "allow": f"to the hosts that are allowed ({len(network.hosts)})",
            "open": "to every public address",
        }
        words = f"{held.network.by}; the only way out is Paddock's proxy, {ways[network.policy]}"
        return replace(held, network=Guarantee(held.network.enforced, words))

    async def join(self, put: Put) -> None:
        """Be one of those who hold it, and serve it if nobody does."""
        way = self._way
        way.holders.append(self)
        try:
            if way.server is None:
                await self._try_to_serve(put)
            self._offer()
            self._driver.on_close(self.close)
        except BaseException:
            await self.close()
            raise

    async def change(self, network: Network, secrets: Secrets | None, put: Put) -> None:
        """Another policy for all."""
        way = self._way
        async with way.changing:
            if way.server is None:
                await self._try_to_serve(put)
            if way.server is None:
                raise ConflictError(
                    "Another process serves the network of this sandbox.",
                    hint="Change it there, or end that one first.",
                )
            authority = await way.server._authority(secrets, put) if secrets is not None else None
            await _keep_policy(
                self._core, network, secrets
            )  # before: who goes on after a crash must not go on with more
            await way.proxy.update(network, secrets, authority)
            for holder in way.holders:
                holder._offer()

    async def close(self) -> None:
        """Serve it no more; another one of this process goes on with it."""
        way = self._way
        if self not in way.holders:
            return
        way.holders.remove(self)
        if way.server is self:
            way.server = None
            await self._stop()
            for other in list(way.holders):
                if way.server is None:
                    await other._go_on()
        if not way.holders:
            _ways.pop(self._key, None)

    async def _go_on(self) -> None:
        with suppress(SandboxError):  # it is ending as well
            await self._try_to_serve(None)

    async def _try_to_serve(self, put: Put | None) -> None:
        """Unless another process does, which holds the mark."""
        if self._core.launched.detached:
            self._mark = state.serve_alone(self._core.launched.id)
            if self._mark is None:
                return
        try:
            await self._serve(put)
        except BaseException:
            await self._stop()  # or nobody could, as long as we live
            raise

    async def _serve(self, put: Put | None) -> None:
        way = self._way
        if put is not None:
            authority = await self._authority(way.proxy.secrets, put)
            await way.proxy.update(way.proxy.network, authority=authority)
        way.proxy.report_to(self._core.launched.bus)
        self._service = await serve(self._core, self._driver, "egress", way.proxy.serve, way.port, self._variables)
        if way.port != self._service.port or self._core.launched.port != self._service.port:
            way.port = self._service.port
            await _keep(self._core, port=way.port)
        way.server = self

    async def _authority(self, secrets: Secrets, put: Put) -> "Authority | None":
        """The one that is trusted inside from now on, where a secret needs one."""
        if not secrets.opens_tls or self._way.trusting:
            return None
        await _load(_AUTHORITY)
        from paddock.egress.authority import Authority

        authority = Authority(self._core.launched.id)
        await put(BUNDLE, await in_thread(authority.bundle))
        self._way.trusting = True
        return authority

    async def _stop(self) -> None:
        service, mark = self._service, self._mark
        self._service = self._mark = None
        try:
            if service is not None:
                await service.close()
        finally:
            if mark is not None:
                os.close(mark)

    def _offer(self) -> None:
        self._core.offer("egress", self._variables(self._way.port))

    def _variables(self, port: int) -> dict[str, str]:
        """What programs look for. Some break off at a SOCKS proxy in ALL_PROXY, so that has a variable of its own."""
        proxy = f"http://127.0.0.1:{port}"
        told = {name: proxy for lower in ("http_proxy", "https_proxy", "all_proxy") for name in (lower, lower.upper())}
        told |= {"NO_PROXY": _HERE, "no_proxy": _HERE, "NODE_USE_ENV_PROXY": "1"}
        told["PIP_BREAK_SYSTEM_PACKAGES"] = "1"  # what a distribution manages cannot be written to: it is for a home
        told["PADDOCK_SOCKS"] = f"socks5h://127.0.0.1:{port}"
        if self._way.trusting or self._way.proxy.secrets.opens_tls:
            told |= dict.fromkeys(_TRUSTING, BUNDLE)
        return told
