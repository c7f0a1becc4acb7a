"""One sandbox's events, to everybody who listens."""

from collections import deque
from collections.abc import AsyncIterator, Callable
from time import time
from typing import TYPE_CHECKING, Any

from paddock.audit.log import AuditLog
from paddock.types import Event
from paddock.types.events import EventKind, Initiator

if TYPE_CHECKING:
    import asyncio

BACKLOG = 10_000


class EventBus:
    """Where operations report to. Reporting costs next to nothing while nobody listens."""

    def __init__(self, sandbox: str, log: AuditLog | None, parent: "EventBus | None" = None) -> None:
        self._sandbox = sandbox
        self._log = log
        self._parent = parent
        self._listeners: list[Events] = []
        self.quiet = log is None and parent is None
        """Whether nobody listens, so that there is nothing to report."""

    def child(self) -> "EventBus":
        """The bus of a view: what it reports is heard here too, but not the other way."""
        return EventBus(self._sandbox, None, self)

    def emit(
        self,
        kind: EventKind,
        operation: str,
        subject: str | None,
        outcome: str,
        duration: float,
        size: int | None = None,
        count: int | None = None,
        target: str | None = None,
        initiator: Initiator = "host",
    ) -> None:
        """Report one operation that has ended."""
        now, sandbox = time(), self._sandbox
        fields = (now, sandbox, kind, operation, subject, outcome, duration, size, count, target, initiator)
        bus: EventBus | None = self
        while bus is not None:
            if bus._log is not None:
                bus._log.append(fields)
            for listener in bus._listeners:
                listener.push(Event(*fields))
            bus = bus._parent

    def listen(self) -> "Events":
        """The events from now on."""
        events = Events(self._forget)
        self._listeners.append(events)
        self.quiet = False
        return events

    def _forget(self, events: "Events") -> None:
        if events in self._listeners:
            self._listeners.remove(events)
            self.quiet = self._log is None and self._parent is None and not self._listeners

    def close(self) -> None:
        """End every stream after what it still holds."""
        for listener in list(self._listeners):
            listener.end()

    def flush(self) -> None:
        """Put the log's lines on disk."""
        if self._log is not None:
            self._log.flush()

    def flush_few(self) -> bool:
        """The same if that is done without waiting for anybody; whether it was."""
        return self._log is None or self._log.flush_few()


class Events(AsyncIterator[Event]):
    """A stream of events; it ends when the sandbox closes. A slow reader loses the oldest and is told how many."""

    def __init__(self, forget: "Callable[[Events], None]") -> None:
        self._forget = forget
        self._waiting: deque[Event] = deque()
        self._missed = 0
        self._ended = False
        self._wakeup: asyncio.Future[None] | None = None

    def push(self, event: Event) -> None:
        """Take one more."""
        if len(self._waiting) >= BACKLOG:
            self._waiting.popleft()
            self._missed += 1
        self._waiting.append(event)
        self._wake()

    def end(self) -> None:
        """Take no more."""
        self._ended = True
        self._forget(self)
        self._wake()

    async def __anext__(self) -> Event:
        import asyncio

        while not self._waiting:
            if self._ended:
                raise StopAsyncIteration
            if self._wakeup is None or self._wakeup.done():
                self._wakeup = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._wakeup)
        if self._missed:
            first = self._waiting[0]
            missed, self._missed = self._missed, 0
            return Event(first.time, first.sandbox, "events", "missed", None, "ok", 0.0, count=missed)
        return self._waiting.popleft()

    async def aclose(self) -> None:
        """Stop listening."""
        self._waiting.clear()
        self.end()

    async def __aenter__(self) -> "Events":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()

    def _wake(self) -> None:
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)
