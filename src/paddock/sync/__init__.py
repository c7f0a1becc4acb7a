"""The same sandbox for code without an event loop: every call blocks; only the mirror of the async classes belongs here."""

from paddock.sync.generated import Process, Sandbox

__all__ = ["Process", "Sandbox"]
