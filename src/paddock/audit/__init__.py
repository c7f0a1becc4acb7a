"""What happened: the stream of events of one sandbox, and the log on disk that keeps them."""

from paddock.audit.bus import EventBus, Events
from paddock.audit.log import AuditLog, default_log

__all__ = ["AuditLog", "EventBus", "Events", "default_log"]
