"""Whose sandbox it is, and the names that follow from it: two keys never have the same one."""

import json
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

from paddock.errors import ConfigError
from paddock.types.managed import PolicyName
from paddock.types.record import Record

MAX_ID = 512
_READABLE = 16
_BY_WORKSPACE = ("longrunning", "persistent")


@dataclass(frozen=True, slots=True)
class Key(Record):
    """One sandbox of somebody: that of a chat, or that of a workspace which chats share."""

    user: str
    assistant: str | None
    scope: Literal["chat", "workspace"]
    name: str

    def file_name(self) -> str:
        """A name for a file about it."""
        return f"{_readable(self.user, self.name)}.{self._digest()}"

    def sandbox_name(self, directory: str) -> str:
        """The name of its sandbox: unique among those that run, and so there are never two for one key."""
        return f"m-{_readable(self.user, self.name)}-{_digest([directory, self._digest()])[:24]}"

    def _digest(self) -> str:
        return _digest([self.scope, self.user, self.assistant, self.name])


@dataclass(frozen=True, slots=True)
class Place(Record):
    """Whose workspace it is: that of a chat, or one with a name of its own."""

    user: str
    chat: str | None
    name: str | None

    @property
    def id(self) -> str:
        """The id that follows from it."""
        return f"ws-{_digest(['workspace', self.user, self.chat, self.name])}"

    def directory_name(self) -> str:
        """The name of its directory, which ends with the id."""
        return f"{_readable(self.user, self.name or self.chat or '')}.{self.id}"


def key(user: str, chat: str, assistant: str | None, workspace: str | None, policy: PolicyName) -> Key:
    """The key that a request is about. A named workspace that stays has one sandbox, whichever chat asks."""
    checked("user", user)
    checked("chat", chat)
    for what, value in (("assistant", assistant), ("workspace", workspace)):
        if value is not None:
            checked(what, value)
    if workspace is not None and policy in _BY_WORKSPACE:
        return Key(user, assistant, "workspace", workspace)
    return Key(user, assistant, "chat", chat)


def keys(user: str, chat: str, assistant: str | None, workspace: str | None) -> set[Key]:
    """The keys that a request can be about, whichever policy it had."""
    return {key(user, chat, assistant, workspace, policy) for policy in ("session", "longrunning")}


def place(user: str, chat: str, workspace: str | None) -> Place:
    """The workspace that a request is about."""
    return Place(user, chat if workspace is None else None, workspace)


def checked(what: str, value: str) -> str:
    """An id that can be one. Any characters are fine: what is on disk is named by a hash."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_ID:
        long = f": it has {len(value)} characters" if isinstance(value, str) and value else ""
        raise ConfigError(
            f"{what}={repr(value)[:40]} is not the id of a {what}{long}.",
            hint=f"Give a text of 1 to {MAX_ID} characters.",
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{what}= is not text that can be written as UTF-8.", hint="Decode it properly.") from None
    return value


def as_label(value: str) -> str:
    """A text as a label that any engine takes: control characters and the like written out."""
    return json.dumps(value)[1:-1]


def from_label(text: str) -> str:
    """The text again."""
    return str(json.loads(f'"{text}"'))


def _digest(parts: list[Any]) -> str:
    """Of a list and not of a joined text: what belongs to which part is never in doubt."""
    return sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _readable(*texts: str) -> str:
    """For people who look: it has no meaning, and the same one may be there twice."""
    return "-".join(re.sub(r"[^a-z0-9]+", "_", text[:_READABLE].lower(), flags=re.ASCII).strip("_") for text in texts)
