"""A sandbox at the gateway: who it is, what it may ask, and the token that it shows."""

import math
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paddock.bridge import Caller
from paddock.gateway.connectors import Connector
from paddock.gateway.intake import Intake
from paddock.gateway.ledger import Bound, Ledger
from paddock.gateway.upstream import Upstream

if TYPE_CHECKING:
    import asyncio

MOST_AT_ONCE = 256
_PREFIX = "paddock-"

Report = Callable[[str, str | None, str, float, int, int], None]
"""Told of each request: operation, model, outcome, seconds, bytes of the answer, tokens."""


def new_token() -> str:
    """One that nobody guesses. It is worth nothing outside of its sandbox."""
    return _PREFIX + secrets.token_urlsafe(32)


@dataclass(slots=True)
class Heard:
    """When something last came from a model, by the monotonic clock."""

    last: float = -math.inf

    def now(self) -> None:
        """It did."""
        self.last = time.monotonic()


@dataclass(frozen=True, slots=True)
class Seat:
    """One sandbox's. Nothing but the listener in that sandbox knows it, so it ends with that."""

    caller: Caller
    connector: Connector
    upstream: Upstream
    ledger: Ledger
    bounds: tuple[Bound, ...]
    report: Report
    token: str = field(default_factory=new_token, repr=False)
    intake: Intake = field(default_factory=Intake, repr=False)
    heard: Heard = field(default_factory=Heard, repr=False)
    places: "asyncio.Semaphore" = field(default_factory=lambda: _places(), repr=False)


def _places() -> "asyncio.Semaphore":
    import asyncio

    return asyncio.Semaphore(MOST_AT_ONCE)
