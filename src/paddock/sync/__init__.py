"""The same sandbox for code without an event loop: every call blocks; only the mirror of the async classes belongs here."""

from paddock.sync.generated import (
    Attachment,
    ChangeSet,
    Endpoint,
    Gateway,
    Git,
    Lease,
    Manager,
    Pool,
    Process,
    PythonSession,
    Sandbox,
)

__all__ = [
    "Attachment",
    "ChangeSet",
    "Endpoint",
    "Gateway",
    "Git",
    "Lease",
    "Manager",
    "Pool",
    "Process",
    "PythonSession",
    "Sandbox",
]
