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


@dataclass(frozen=True, slots=True)
class Isolation(Record):
    """What keeps a sandbox's commands apart from the host, part by part."""

    files: Guarantee
    processes: Guarantee
    network: Guarantee
    syscalls: Guarantee
    limits: dict[str, Guarantee] = field(default_factory=dict)
