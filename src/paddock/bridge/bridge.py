"""`Bridge`: the tools of one sandbox, served to whoever connects from inside."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from time import perf_counter

from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

from paddock.audit import EventBus
from paddock.bridge.calls import Calls
from paddock.bridge.context import Caller
from paddock.bridge.grants import Grant, McpServer, Tool
from paddock.bridge.lines import MAX_LINE, Lines
from paddock.bridge.session import Session
from paddock.bridge.share import Share
from paddock.bridge.table import Table
from paddock.bridge.transport import Incoming, Outgoing
from paddock.consent import Consent
from paddock.driver import Connection, Handler, Listener
from paddock.errors import ClosedError, LimitReachedError

MOST_CONNECTIONS = 64
_log = logging.getLogger("paddock.bridge")

Listen = Callable[[Handler], Awaitable[Listener]]
"""Has a handler called for each connection from inside."""


class Bridge:
    """One sandbox's. It listens from its first grant on."""

    def __init__(
        self, caller: Caller, consent: Consent, bus: EventBus, listen: Listen, *, max_line: int = MAX_LINE
    ) -> None:
        self._caller = caller
        self._bus = bus
        self._listen = listen
        self._max_line = max_line
        self._listener: Listener | None = None
        self._starting = asyncio.Lock()
        self._sessions: set[Session] = set()
        self._announcing: set[asyncio.Task[None]] = set()
        self._count = 0
        self._closed = False
        self._changes = InMemorySubscriptionBus()
        self._listening = ListenHandler(self._changes, max_subscriptions=MOST_CONNECTIONS, max_buffered_events=8)
        self._calls = Calls(consent, bus)
        self._share = Share()
        self._table = Table(self._announce, self._report)

    @property
    def grants(self) -> tuple[Grant, ...]:
        """What is granted now."""
        return self._table.grants

    @property
    def socket(self) -> str | None:
        """Where it listens inside, once it does."""
        return None if self._listener is None else self._listener.address.path

    async def grant(self, given: Iterable[Tool | McpServer]) -> tuple[Grant, ...]:
        """Grant these, and listen if nobody does yet."""
        if self._closed:
            raise ClosedError("The bridge is closed.")
        granted = await self._table.add(given)
        async with self._starting:
            if self._listener is None:
                try:
                    self._listener = await self._listen(self.serve)
                except BaseException:
                    await self._table.clear()
                    raise
        return granted

    async def revoke(self, name: str) -> None:
        """Take back a tool, or all tools of a server."""
        await self._table.remove(name)

    async def serve(self, connection: Connection) -> None:
        """One connection, to its end."""
        self._count += 1
        name, started = f"c{self._count}", perf_counter()
        if self._closed or len(self._sessions) >= MOST_CONNECTIONS:
            self._bus.emit("connection", "bridge", name, LimitReachedError.code, 0.0, initiator="model")
            return
        outgoing = Outgoing(connection, self._share)
        incoming = Incoming(connection, outgoing, Lines(self._max_line), self._share)
        session = Session(name, self._caller, self._table, self._calls, self._listening)
        self._sessions.add(session)
        self._share.backlogs.add(outgoing)
        try:
            await session.run(incoming, outgoing)
        except Exception as error:  # noqa: BLE001 - it is the end of this connection, and of no other
            outgoing.outcome = "FAILED"
            _log.warning("a connection of %s failed", self._caller.sandbox, exc_info=error)
        finally:
            self._sessions.discard(session)
            self._share.backlogs.discard(outgoing)
            incoming.forget()
            took, size = perf_counter() - started, incoming.size + outgoing.size
            self._bus.emit(
                "connection", "bridge", name, outgoing.outcome, took, size, incoming.count, initiator="model"
            )

    async def close(self) -> None:
        """Serve nobody any more, and end what was started for it; idempotent."""
        self._closed = True
        try:
            if self._listener is not None:
                await self._listener.close()
        finally:
            for task in self._announcing:
                task.cancel()
            await self._table.close()

    async def _announce(self) -> None:
        """Nobody waits for clients: each is told when it takes it."""
        for session in self._sessions:
            task = asyncio.create_task(session.announce())
            self._announcing.add(task)
            task.add_done_callback(self._announcing.discard)
        await self._changes.publish(ToolsListChanged())

    def _report(self, operation: str, tool: str, outcome: str) -> None:
        self._bus.emit("tool", operation, tool, outcome, 0.0)


async def preview(given: Iterable[Tool | McpServer]) -> tuple[Grant, ...]:
    """What granting these would grant. Servers are started for it, and ended."""
    table = Table(_nobody, _nothing)
    try:
        return await table.add(given)
    finally:
        await table.close()


async def _nobody() -> None:
    pass


def _nothing(operation: str, tool: str, outcome: str) -> None:
    pass
