"""How long a sandbox is kept: the four policies, and what they say about one at a moment."""

from dataclasses import dataclass
from typing import Literal

from paddock.types.managed import ManagedState, PolicyName
from paddock.types.record import Record

GRACE = 300.0
_STAYS = ("longrunning", "persistent")


@dataclass(frozen=True, slots=True)
class Policy(Record):
    """The rules for one sandbox. Times are seconds; None is for ever."""

    name: PolicyName
    idle_timeout: float | None = None
    """Without a call or a heartbeat for so long it is stopped, if it is long-running, or else removed."""
    lifetime: float | None = None
    """So long after it was made it is removed."""
    grace: float = GRACE
    """How much longer it may live while somebody has a lease."""

    @property
    def when_idle(self) -> Literal["stop", "remove"]:
        """What becomes of one that nobody uses."""
        return "stop" if self.name == "longrunning" else "remove"

    @property
    def stays(self) -> bool:
        """Whether it is still known when its sandbox has ended, and starts again when it is asked for."""
        return self.name in _STAYS

    @property
    def evictable(self) -> bool:
        """Whether it makes room for others when nobody has a lease."""
        return self.name != "persistent"


@dataclass(frozen=True, slots=True)
class Facts:
    """What a policy looks at."""

    state: ManagedState
    age: float
    idle: float
    leases: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be done, and why."""

    action: Literal["stop", "remove"]
    reason: str


def verdict(policy: Policy, facts: Facts) -> Verdict | None:
    """What a policy says about a sandbox that runs, or is stopped; None: nothing is to be done."""
    if policy.name == "persistent":
        return None
    if policy.name == "oneshot" and not facts.leases:
        return Verdict("remove", "its last lease has ended")
    if policy.lifetime is not None and facts.age >= policy.lifetime + (policy.grace if facts.leases else 0):
        return Verdict("remove", f"its lifetime of {policy.lifetime:g} seconds is over")
    can_be_idle = facts.state == "running" or policy.when_idle == "remove"
    if can_be_idle and policy.idle_timeout is not None and facts.idle >= policy.idle_timeout:
        return Verdict(policy.when_idle, f"it was not used for {policy.idle_timeout:g} seconds")
    return None
