"""Places inside a sandbox that connections lead to, and where such a place can be reached on the host."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from paddock.errors import ConfigError
from paddock.paths import normalise
from paddock.types.record import Record

_LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class RelayAddress(Record):
    """A port of the sandbox's loopback, or a Unix socket at a path inside; made by `loopback` or `unix`."""

    port: int = 0
    path: str | None = None

    def __post_init__(self) -> None:
        if self.path is None:
            if not isinstance(self.port, int) or isinstance(self.port, bool) or not 0 <= self.port <= _LAST_PORT:
                raise ConfigError(f"{self.port!r} is no port.", hint=f"Ports are numbers from 1 to {_LAST_PORT}.")
        elif self.port or not self.path.startswith("/") or normalise(self.path) != self.path:
            raise ConfigError(
                "The path of a socket inside is absolute, and without `.` and `..`.",
                hint="Such as /run/paddock/bridge.sock.",
            )

    @classmethod
    def loopback(cls, port: int = 0) -> "RelayAddress":
        """127.0.0.1 and ::1 inside; to listen at, 0 is any port that is free."""
        return cls(port=port)

    @classmethod
    def unix(cls, path: str) -> "RelayAddress":
        """A Unix socket at this path inside."""
        return cls(path=path)

    def __str__(self) -> str:
        return f"port {self.port}" if self.path is None else repr(self.path)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a port inside is reached from this host, until `close` or the end of the sandbox."""

    host: str
    port: int
    inside: int
    """The port inside."""
    end: Callable[[], Awaitable[None]] = field(repr=False, compare=False)

    @property
    def url(self) -> str:
        """What to open in a browser, if it is HTTP that is spoken there."""
        return f"http://{self.host}:{self.port}/"

    async def close(self) -> None:
        """Listen no more, and end the connections that are there; idempotent."""
        await self.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
