"""What goes on at a proxy: each thing that was asked for, from the decision to its end, which is one event."""

import asyncio
from time import perf_counter
from types import TracebackType
from typing import Any, Self

from paddock.audit import EventBus
from paddock.egress.refusing import Refused
from paddock.egress.rules import Rules, Verdict
from paddock.errors import NotAuthorizedError, visible
from paddock.types.addresses import Address
from paddock.types.hosts import shown

_LONGEST = 300


class Flow:
    """One of them. It belongs to the task that began it, and is ended through that."""

    def __init__(self, flows: "Flows", how: str, place: str) -> None:
        self.how = how
        self.host = ""
        self.port = 0
        self.request: tuple[str, str] | None = None
        """Method and target, of a request that was looked at."""
        self.unseen = False
        """Whether what passes is not looked at."""
        self.addresses: tuple[Address, ...] = ()
        """Where it may be connected to."""
        self.size = 0
        self.cut = False
        self.ended = asyncio.Event()
        self._place = visible(place.rpartition("@")[2][:_LONGEST])  # before it are names and passwords
        self._outcome = "ok"
        self._flows = flows
        self._task = asyncio.current_task()

    def aim(self, host: str, port: int) -> None:
        """Whom it is for, once that is known."""
        self.host, self.port, self._place = host, port, shown(host, port)

    def fail(self, outcome: str) -> None:
        """How it ended, if not well."""
        self._outcome = outcome

    def allowed_by(self, rules: Rules) -> bool:
        """Whether these rules would let it begin."""
        if any(rules.address(address) for address in self.addresses):
            return False
        if self.request is not None:
            return rules.request(self.host, self.port, *self.request)
        verdict = rules.place(self.host, self.port)
        return verdict is Verdict.ANYTHING if self.unseen else verdict is not Verdict.NOTHING

    def end(self) -> None:
        """It is not allowed any more."""
        if not self.cut and self._task is not None:
            self.cut = True
            self._flows.cut.add(self._task)
            self._task.cancel()

    def __enter__(self) -> Self:
        self._started = perf_counter()
        self._flows.live.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._flows.live.discard(self)
        self.ended.set()
        if error is not None:
            self._outcome = NotAuthorizedError.code if self.cut else _outcome(error)
        took = perf_counter() - self._started
        self._flows.bus.emit(
            "connection", "egress", self.how, self._outcome, took, self.size, target=self._place, initiator="model"
        )


class Flows:
    """All of a proxy."""

    def __init__(self, bus: EventBus) -> None:
        self.bus = bus
        self.live: set[Flow] = set()
        self.cut: set[asyncio.Task[Any]] = set()
        """The tasks that were ended because what they did is not allowed any more."""

    def begin(self, how: str, place: str) -> Flow:
        """One more; `place` is what was asked for, as it was said."""
        return Flow(self, how, place)


def _outcome(error: BaseException) -> str:
    if isinstance(error, Refused):
        return error.outcome
    if isinstance(error, TimeoutError):
        return "TIMEOUT"
    return "FAILED" if isinstance(error, Exception) else "CANCELLED"
