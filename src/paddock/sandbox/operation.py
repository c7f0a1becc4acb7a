"""The frame around every call: is the sandbox open, what did it do, how did it end."""

from time import perf_counter
from types import TracebackType
from typing import Self
from weakref import WeakSet

from paddock.audit import EventBus
from paddock.errors import ClosedError, SandboxError
from paddock.types.events import EventKind


class Gate:
    """Whether a sandbox, or a view of one, may still be used."""

    __slots__ = ("__weakref__", "_children", "bus", "closed")

    def __init__(self, bus: EventBus) -> None:
        self.bus = bus
        self.closed = False
        self._children: WeakSet[Gate] = WeakSet()

    def child(self) -> "Gate":
        """A gate that closes with this one, or before it."""
        gate = Gate(self.bus.child())
        self._children.add(gate)
        return gate

    def close(self) -> None:
        """No more calls."""
        self.closed = True
        for child in self._children:
            child.close()
            child.bus.close()


class Operation:
    """One call. It reports itself when it ends, however it ends; what it is about is filled in as it becomes known."""

    __slots__ = ("_gate", "_kind", "_name", "_started", "count", "size", "subject", "target")

    def __init__(self, gate: Gate, kind: EventKind, name: str, subject: str | None) -> None:
        self._gate = gate
        self._kind = kind
        self._name = name
        self.subject = subject
        self.target: str | None = None
        self.size: int | None = None
        self.count: int | None = None

    def __enter__(self) -> Self:
        if self._gate.closed:
            raise ClosedError("The sandbox is closed.")
        self._started = perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        bus = self._gate.bus
        if bus.quiet:
            return
        bus.emit(
            self._kind,
            self._name,
            self.subject,
            "ok" if error is None else _outcome(error),
            perf_counter() - self._started,
            self.size,
            self.count,
            self.target,
        )


def _outcome(error: BaseException) -> str:
    if isinstance(error, SandboxError):
        return error.code
    return "FAILED" if isinstance(error, Exception) else "CANCELLED"
