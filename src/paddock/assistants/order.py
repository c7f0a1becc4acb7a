"""What a request is, and what it works with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paddock.assistants.assistant import Assistant
from paddock.assistants.attachments import Fetch
from paddock.assistants.desks import Desks
from paddock.assistants.history import History, Whose
from paddock.consent import Policy
from paddock.manager import Manager
from paddock.runners import Message, Sessions

if TYPE_CHECKING:
    from paddock.gateway import Gateway


@dataclass(frozen=True, slots=True)
class Means:
    """What requests work with: the same for all of a service."""

    manager: Manager | None
    gateway: "Gateway | None"
    history: History
    sessions: Sessions
    desks: Desks
    fetch: Fetch | None = None
    approve: Policy = None
    """Who is asked about calls of tools, for sandboxes and without one."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is asked, of whom, by whom: all of it this request's own."""

    assistant: Assistant
    messages: tuple[Message, ...]
    user: str
    chat: str
    variables: Mapping[str, str] = field(default_factory=dict)
    remembers: bool = True

    @property
    def whose(self) -> Whose:
        """The conversation that it belongs to."""
        return Whose(self.user, self.chat, self.assistant.name)
