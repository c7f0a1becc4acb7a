"""What a manager tells of the sandboxes and workspaces that it looks after."""

from dataclasses import dataclass, field
from typing import Literal

from paddock.types.record import Record

PolicyName = Literal["oneshot", "session", "longrunning", "persistent"]
ManagedState = Literal["created", "running", "stopped"]


@dataclass(frozen=True, slots=True)
class ManagedInfo(Record):
    """A sandbox that a manager keeps for somebody."""

    user: str
    chat: str
    """The chat that asked last."""
    assistant: str | None
    policy: PolicyName
    state: ManagedState
    """`created` while it is being made; one that is removed is no longer listed."""
    workspace: str
    """The id of the workspace that it works on."""
    sandbox: str | None
    """Its id, which `Sandbox.connect` takes; None unless it runs."""
    backend: str | None
    created: float
    """In seconds since 1970."""
    last_used: float
    """The last call or heartbeat, in seconds since 1970."""
    leases: int | None = None
    """How many have one now: the manager knows, and nobody else."""


@dataclass(frozen=True, slots=True)
class WorkspaceInfo(Record):
    """A directory that outlives the sandboxes which work on it."""

    id: str
    user: str
    chat: str | None
    """The chat that it belongs to, or None for one that has a name."""
    name: str | None
    path: str
    """What a sandbox sees at `/workspace`, on this host; its `/cache` lies beside it."""
    created: float
    last_used: float
    quota: int | None = None
    labels: dict[str, str] = field(default_factory=dict)
    size: int | None = None
    """Bytes on disk when it was last measured."""
    in_use: bool = False
    """Whether a lease or a sandbox that runs holds it now."""


@dataclass(frozen=True, slots=True)
class Removal(Record):
    """Something that was put away, or would be, and why."""

    what: Literal["sandbox", "workspace"]
    action: Literal["stop", "remove"]
    id: str
    """Of the sandbox, or of the workspace."""
    user: str
    chat: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class ManagerStats(Record):
    """How much there is of everything, and how much there may be."""

    total: int
    """Sandboxes that run or are being made: what the limits count."""
    max_total: int
    max_per_user: int | None
    leases: int | None
    """None where the manager itself was not asked."""
    states: dict[str, int]
    policies: dict[str, int]
    users: dict[str, int]
    """Sandboxes that count against the limit, by user."""
    workspaces: int
    workspace_bytes: int
    measured: bool
    """Whether all of the workspaces were measured to the end; if not, there are more bytes than this."""
