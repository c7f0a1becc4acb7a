"""The frame around every call: is the sandbox open, what did it do, how did it end."""

from time import perf_counter
from types import TracebackType
from typing import Self
from weakref import WeakSet

from paddock.audit import EventBus
from paddock.consent import initiator
from paddock.driver import Driver
from paddock.errors import ClosedError, SandboxError
from paddock.types.events import EventKind


class Pulse:
    """When a sandbox was last used, through itself or any view of it."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = perf_counter()


class Gate:
    """Whether a sandbox, or a view of one, may still be used."""

    __slots__ = ("__weakref__", "_children", "bus", "closed", "detached", "pulse", "why")

    def __init__(self, bus: EventBus, pulse: Pulse | None = None, detached: Driver | None = None) -> None:
        """`detached` is the driver of a sandbox that ends for all who use it, and its files with it."""
        self.bus = bus
        self.detached = detached
        self.pulse = Pulse() if pulse is None else pulse
        self.closed = False
        self.why = "The sandbox is closed."
        self._children: WeakSet[Gate] = WeakSet()

    def child(self) -> "Gate":
        """A gate that closes with this one, or before it."""
        gate = Gate(self.bus.child(), self.pulse, self.detached)
        self._children.add(gate)
        return gate

    def need_files(self) -> None:
        """Return unless they are gone: what is left to read and write then is nobody's, and tells nothing."""
        if self.detached is not None and self.detached.error is not None:
            raise self.detached.error

    def close(self, why: str | None = None) -> None:
        """No more calls."""
        self.closed = True
        self.why = self.why if why is None else why
        for child in self._children:
            child.close(why)
            child.bus.close()


class Operation:
    """One call. It reports itself when it ends, however it ends; what it is about is filled in as it becomes known."""

    __slots__ = ("_gate", "_kind", "_name", "_started", "count", "size", "subject", "target", "told")

    def __init__(self, gate: Gate, kind: EventKind, name: str, subject: str | None) -> None:
        self._gate = gate
        self._kind = kind
        self._name = name
        self.subject = subject
        self.target: str | None = None
        self.size: int | None = None
        self.count: int | None = None
        self.told = False
        """Whether each part of it that was done has been told by itself."""

    def __enter__(self) -> Self:
        if self._gate.closed:
            raise ClosedError(self._gate.why)
        if self._kind == "file":
            self._gate.need_files()
        self._started = self._gate.pulse.last = perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        bus, now = self._gate.bus, perf_counter()
        self._gate.pulse.last = now
        if bus.quiet or (self.told and error is None):
            return
        bus.emit(
            self._kind,
            self._name,
            self.subject,
            "ok" if error is None else _outcome(error),
            now - self._started,
            self.size,
            self.count,
            self.target,
            initiator(),
        )


def _outcome(error: BaseException) -> str:
    if isinstance(error, SandboxError):
        return error.code
    return "FAILED" if isinstance(error, Exception) else "CANCELLED"
