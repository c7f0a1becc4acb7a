"""What is told of a sandbox that runs by itself."""

from dataclasses import dataclass, field

from paddock.types.record import Record


@dataclass(frozen=True, slots=True)
class SandboxInfo(Record):
    """A detached sandbox that runs: `Sandbox.connect` takes its id or its name."""

    id: str
    name: str | None
    backend: str
    created: float
    """In seconds since 1970."""
    labels: dict[str, str] = field(default_factory=dict)
    idle_timeout: float | None = None
    """It ends after so many seconds with nobody connected and no command."""
    lifetime: float | None = None
    """It ends so many seconds after it was made."""
