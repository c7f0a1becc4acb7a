"""What really holds in a sandbox, and what holds it."""

from dataclasses import dataclass, field

from paddock.types.record import Record


@dataclass(frozen=True, slots=True)
class Guarantee(Record):
    """Whether one thing is enforced, and by what (or why not)."""

    enforced: bool
    by: str

    def __bool__(self) -> bool:
        return self.enforced


NO_SECRETS = Guarantee(True, "Paddock, which gives commands no key: its gateway and its proxy add them outside")


@dataclass(frozen=True, slots=True)
class Isolation(Record):
    """What keeps a sandbox's commands apart from the host and its secrets, part by part."""

    files: Guarantee
    processes: Guarantee
    network: Guarantee
    syscalls: Guarantee
    limits: dict[str, Guarantee] = field(default_factory=dict)
    secrets: Guarantee = field(default_factory=lambda: NO_SECRETS)
    """It is not enforced from when on an agent's program was given one."""
