"""The conversation that an agent is given: who said what, and what of it becomes its prompt."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from paddock.errors import ConfigError
from paddock.runners.shapes import can_be_said
from paddock.types.record import Record

Role = Literal["system", "user", "assistant"]
Part = Mapping[str, Any]
"""A piece of a message with several: `{"type": "text", "text": …}`."""


@dataclass(frozen=True, slots=True)
class Message(Record):
    """One turn of a conversation."""

    role: Role
    content: str | Sequence[Part] | None

    def __post_init__(self) -> None:
        if self.role not in ("system", "user", "assistant"):
            raise ConfigError(f"{self.role!r} is no role.", hint="It is 'system', 'user' or 'assistant'.")
        if not (self.content is None or isinstance(self.content, str) or _are_parts(self.content)):
            raise ConfigError(f"{self.content!r:.80} is no content.", hint="It is a text, or a list of parts.")

    @property
    def text(self) -> str:
        """What it says: the texts of its parts, a line each."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        return "\n".join(str(part.get("text") or "") for part in self.content if part.get("type") in ("text", None))


def _are_parts(content: object) -> bool:
    return isinstance(content, Sequence) and all(isinstance(part, Mapping) for part in content)


_BEFORE = "# The conversation so far\n\n"
_NOW = "\n\n# Now the user says\n\n"
Messages = str | Message | Iterable[Message | Mapping[str, Any]]
"""A text is one message of the user."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages, sorted by what they are for."""

    system: str
    turns: tuple[Message, ...]
    """What user and assistant said before."""
    prompt: str
    """What the user says now."""

    def whole(self) -> str:
        """The prompt for an agent that knows nothing of what was said before."""
        if not self.turns:
            return self.prompt
        said = "\n\n".join(f"{turn.role.capitalize()}: {turn.text}" for turn in self.turns)
        return f"{_BEFORE}{said}{_NOW}{self.prompt}"


def said_now(whole: str) -> str:
    """Of such a prompt, what the user says now; any other is that as it is."""
    return whole.rpartition(_NOW)[2] if whole.startswith(_BEFORE) else whole


def conversation(messages: Messages) -> Conversation:
    """Messages as a conversation; one without anything from the user is an error."""
    given = listed(messages)
    if not all(can_be_said(message.text) for message in given):
        raise ConfigError("A message has characters that are none.", hint="Give text, and other data in files.")
    system = "\n\n".join(message.text for message in given if message.role == "system" and message.text)
    turns = [message for message in given if message.role != "system"]
    last = max((at for at, message in enumerate(turns) if message.role == "user"), default=None)
    if last is None or not turns[last].text.strip():
        raise ConfigError("There is no message of the user.", hint="End with what the agent is to do.")
    return Conversation(system, tuple(turns[:last]), turns[last].text)


def listed(messages: Messages) -> list[Message]:
    """Messages, each as one."""
    if isinstance(messages, str):
        return [Message("user", messages)]
    if isinstance(messages, Message):
        return [messages]
    if not isinstance(messages, Iterable) or isinstance(messages, Mapping):
        raise ConfigError(
            f"{messages!r:.80} are no messages.", hint="Give a text, or a list with a role and content each."
        )
    return [_message(given) for given in messages]


def _message(given: Message | Mapping[str, Any]) -> Message:
    if isinstance(given, Message):
        return given
    try:
        return Message(given["role"], given.get("content"))
    except (KeyError, TypeError, AttributeError):
        raise ConfigError(f"{given!r:.80} is no message.", hint="It has a role and content.") from None
