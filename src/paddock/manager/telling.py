"""What a manager does, as events: in the audit log, and for whoever listens."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

from paddock.audit import EventBus, Events, default_log
from paddock.errors import SandboxError
from paddock.manager.keys import Key

NOBODY = "manager"
"""Stands where an event names its sandbox, for what is about none."""
_MOST = 1100


@dataclass(slots=True)
class Act:
    """Something that is under way."""

    sandbox: str | None = None
    why: str | None = None
    count: int | None = None


class Teller:
    """Where a manager's acts are reported to."""

    def __init__(self) -> None:
        self._bus = EventBus(NOBODY, default_log())

    def listen(self) -> Events:
        """What happens from now on."""
        return self._bus.listen()

    @contextmanager
    def telling(self, operation: str, about: Key | str | None = None) -> Iterator[Act]:
        """Reports when it ends, however it ends."""
        act, started = Act(), perf_counter()
        try:
            yield act
        except BaseException as error:
            self._emit(operation, about, act, _outcome(error), perf_counter() - started)
            raise
        self._emit(operation, about, act, "ok", perf_counter() - started)

    def tell(self, operation: str, about: Key | str | None, sandbox: str | None, why: str | None = None) -> None:
        """Report something that is done."""
        self._emit(operation, about, Act(sandbox, why), "ok", 0.0)

    def close(self) -> None:
        """No more is told."""
        self._bus.close()
        self._bus.flush()

    def _emit(self, operation: str, about: Key | str | None, act: Act, outcome: str, duration: float) -> None:
        subject = f"{about.user}/{about.name}"[:_MOST] if isinstance(about, Key) else about
        bus = EventBus(act.sandbox or NOBODY, None, self._bus)
        bus.emit("manager", operation, subject, outcome, duration, count=act.count, target=act.why)


def _outcome(error: BaseException) -> str:
    if isinstance(error, SandboxError):
        return error.code
    return "FAILED" if isinstance(error, Exception) else "CANCELLED"
