"""The same sandbox for code without an event loop: every call blocks; only the mirror of the async classes belongs here."""

from paddock.sync.generated import ChangeSet, Endpoint, Git, Lease, Manager, Pool, Process, Sandbox

__all__ = ["ChangeSet", "Endpoint", "Git", "Lease", "Manager", "Pool", "Process", "Sandbox"]
