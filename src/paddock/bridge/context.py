"""What a tool is told of a call: who asks, by the connection that it came on, and ways to say how it goes."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

Level = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose sandbox it is. It is known before anything is read from a connection."""

    sandbox: str
    user: str | None = None
    chat: str | None = None

    @classmethod
    def of(cls, sandbox: str, labels: Mapping[str, str]) -> "Caller":
        """As the manager wrote it down in the labels, or else by those that are called `user` and `chat`."""
        return cls(sandbox, _label(labels, "user"), _label(labels, "chat"))


def _label(labels: Mapping[str, str], name: str) -> str | None:
    managed = labels.get(f"paddock.{name}")
    if managed is None:
        return labels.get(name)
    with suppress(ValueError):
        return str(json.loads(f'"{managed}"'))
    return None


@dataclass(frozen=True, slots=True)
class ToolContext:
    """An argument of this type is not the client's to give: the bridge fills it in, from the connection."""

    user: str | None
    chat: str | None
    sandbox: str
    """The id of the sandbox."""
    tool: str
    """The name that the tool was called by."""
    call: str
    """Unique in the sandbox; the audit log has it as well."""
    progress: Callable[[float, float | None, str | None], None] | None = field(default=None, repr=False, compare=False)
    message: Callable[[Level, str], None] | None = field(default=None, repr=False, compare=False)

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the client how far it is, if it asked for that. From any thread; nothing is waited for."""
        if self.progress is not None:
            self.progress(progress, total, message)

    def log(self, message: str, level: Level = "info") -> None:
        """Tell the client something, if it wants to hear of that level. From any thread; nothing is waited for."""
        if self.message is not None:
            self.message(level, message)
