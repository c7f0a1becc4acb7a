"""`Gateway`: the one service of a process that its sandboxes ask for models."""

import os
import pwd
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from paddock.bridge import Caller
from paddock.consent import initiator
from paddock.driver import Connection
from paddock.errors import ClosedError, ConfigError, NotAuthorizedError
from paddock.finishing import to_the_end
from paddock.gateway import configured, extra
from paddock.gateway.allowances import Allowance
from paddock.gateway.connectors import Connector
from paddock.gateway.environment import variables
from paddock.gateway.ledger import Bound, Ledger
from paddock.sandbox import Sandbox
from paddock.sandbox.serving import Service

if TYPE_CHECKING:  # what serves needs asyncio, and is loaded when it does
    from paddock.gateway.direct import Direct
    from paddock.gateway.seats import Report, Seat
    from paddock.gateway.upstream import Upstream

PORT = 4141
SERVICE = "gateway"


class Attachment:
    """A sandbox that can ask for models, until `close` or its end."""

    def __init__(self, service: Service, seat: "Seat") -> None:
        self._service = service
        self._seat = seat

    @property
    def url(self) -> str:
        """Where the gateway is, inside."""
        return f"http://127.0.0.1:{self._service.port}"

    @property
    def token(self) -> str:
        """What the sandbox shows as its key. It is good there, and nowhere else."""
        return self._seat.token

    @property
    def connector(self) -> Connector:
        """What it is connected to."""
        return self._seat.connector

    @property
    def last_heard(self) -> float:
        """When a model last said something to it, by `time.monotonic`; minus infinity before the first word."""
        return self._seat.heard.last

    async def close(self) -> None:
        """Answer it no more; requests that run are cut off. Idempotent."""
        await self._service.close()


class Gateway:
    """Models for sandboxes. Keys, addresses and bounds stay here."""

    def __init__(
        self,
        connectors: Connector | Iterable[Connector] | None = None,
        *,
        per_sandbox: Allowance | None = None,
        per_user: Allowance | None = None,
        ledger: str | Path | None = None,
    ) -> None:
        """`connectors` are those of the configuration if none are given, and so are the allowances."""
        extra.need()
        usual = configured.allowances()
        given = [connectors] if isinstance(connectors, Connector) else connectors
        self._connectors = configured.connectors() if given is None else _by_name(given)
        self._per_sandbox = per_sandbox or usual.sandbox
        self._per_user = per_user or usual.user
        self._ledger = Ledger(None if ledger is None else Path(ledger))
        self._upstreams: dict[str, Upstream] = {}
        self._attached: set[Attachment] = set()
        self._closed = False

    @property
    def connectors(self) -> Mapping[str, Connector]:
        """What sandboxes can be connected to."""
        return dict(self._connectors)

    async def attach(
        self, sandbox: Sandbox, connector: str | None = None, *, allowance: Allowance | None = None, port: int = PORT
    ) -> Attachment:
        """Let a sandbox ask for models, by a connector or the only one there is.

        Commands that are started from now on find it in their environment. `allowance` is this sandbox's own.
        """
        if self._closed:
            raise ClosedError("The gateway is closed.", hint="Make a new one.")
        if initiator() == "model":
            raise NotAuthorizedError("A model cannot attach a gateway.", hint="The host program does.")
        chosen = self._chosen(connector)
        chosen.read_key()  # a key that is missing is better heard of now
        seat = self._seat(sandbox, chosen, allowance or self._per_sandbox)
        service = await sandbox.serve(
            SERVICE, partial(_serve, seat), port=port, variables=partial(variables, chosen, seat.token)
        )
        attachment = Attachment(service, seat)
        self._attached.add(attachment)
        service.when_closed = partial(self._attached.discard, attachment)
        if self._closed:  # meanwhile
            await attachment.close()
            raise ClosedError("The gateway is closed.", hint="Make a new one.")
        return attachment

    def direct(self, connector: str | None = None, *, user: str | None = None, chat: str | None = None) -> "Direct":
        """Models for the host program itself, without a sandbox: by the same connectors, and counted in the same way."""
        if self._closed:
            raise ClosedError("The gateway is closed.", hint="Make a new one.")
        from paddock.gateway.direct import Direct, report

        chosen = self._chosen(connector)
        chosen.read_key()
        caller = Caller("direct", user or _whoever_runs_this(), chat)
        return Direct(self._seated(caller, chosen, [], report))

    async def close(self) -> None:
        """Answer nobody any more; idempotent."""
        self._closed = True
        await to_the_end(self._close())

    async def _close(self) -> None:
        import asyncio

        closing = [attachment.close() for attachment in self._attached]
        closing += [upstream.close() for upstream in self._upstreams.values()]
        ended = await asyncio.gather(*closing, return_exceptions=True)
        self._upstreams.clear()
        await asyncio.to_thread(self._ledger.close)  # it may wait for another process
        for error in ended:
            if error is not None:
                raise error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _chosen(self, name: str | None) -> Connector:
        if name is None and len(self._connectors) == 1:
            return next(iter(self._connectors.values()))
        if name is None:
            raise ConfigError("Say which connector.", hint=f"Known: {', '.join(sorted(self._connectors)) or 'none'}.")
        return configured.find(name, self._connectors)

    def _seat(self, sandbox: Sandbox, connector: Connector, own: Allowance | None) -> "Seat":
        caller = Caller.of(sandbox.id, sandbox.labels)
        if caller.user is None:  # an allowance of users has to be somebody's
            caller = replace(caller, user=_whoever_runs_this())
        bounds = [] if own is None else [Bound("sandbox", sandbox.id, own)]
        return self._seated(caller, connector, bounds, partial(_report, sandbox))

    def _seated(self, caller: Caller, connector: Connector, bounds: list[Bound], report: "Report") -> "Seat":
        from paddock.gateway.seats import Seat
        from paddock.gateway.upstream import Upstream

        if self._per_user is not None:
            bounds.append(Bound("user", caller.user or "", self._per_user))
        if connector.name not in self._upstreams:
            self._upstreams[connector.name] = Upstream(connector)
            self._upstreams[connector.name].prepare()
        upstream = self._upstreams[connector.name]
        return Seat(caller, connector, upstream, self._ledger, tuple(bounds), report)


async def _serve(seat: "Seat", connection: Connection) -> None:
    from paddock.gateway.asking import answer
    from paddock.gateway.intake import Paced
    from paddock.http.server import serve

    share = seat.intake.share
    await serve(Paced(connection, share), partial(answer, seat), working=share.working)


def _report(
    sandbox: Sandbox, operation: str, model: str | None, outcome: str, seconds: float, size: int, tokens: int
) -> None:
    sandbox.report("model", operation, model, outcome, seconds, size=size, count=tokens, initiator="model")


def _whoever_runs_this() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _by_name(connectors: Iterable[Connector]) -> dict[str, Connector]:
    given = list(connectors)
    found = {connector.name: connector for connector in given}
    if len(found) < len(given):
        raise ConfigError("Two connectors have the same name.", hint="Give each its own.")
    return found
