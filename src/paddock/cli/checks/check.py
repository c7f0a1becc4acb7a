"""One check, and how it is tried."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from paddock.errors import SandboxError
from paddock.types.record import Record


@dataclass(frozen=True, slots=True)
class Check(Record):
    """One thing that was tried."""

    name: str
    status: Literal["ok", "warn", "fail"]
    found: str
    fix: str = ""


Tried = Callable[[str], Check]


def tried(name: str, check: Tried) -> Check:
    """What came of it; an error is a check that failed."""
    try:
        return check(name)
    except SandboxError as error:
        return Check(name, "fail", error.message, error.hint)
    except OSError as error:
        return Check(name, "fail", error.strerror or type(error).__name__, "See the message of the system.")
