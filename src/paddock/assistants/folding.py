"""What is new to an agent, as one message: an agent whose session goes on is given the last one only."""

from collections.abc import Sequence

from paddock.runners import Message
from paddock.runners.messages import conversation


def folded(told: Sequence[Message], known: Sequence[Message]) -> list[Message]:
    """The same messages, with all that is not known in the last of them: nothing that was said now is lost.

    A hook may have put messages anywhere, or left some out; what the agent's session has heard is not said again.
    """
    left = list(known)
    last = max((at for at, message in enumerate(told) if message.role == "user"), default=None)
    before: list[Message] = []
    new: list[Message] = []
    for at, message in enumerate(told):
        if message.role == "system":
            before.append(message)
        elif at != last and message in left:
            left.remove(message)
            before.append(message)
        else:
            new.append(message)
    return [*before, *_as_one(new)]


def _as_one(new: list[Message]) -> list[Message]:
    if all(message.role == "user" for message in new):
        return [Message("user", "\n\n".join(message.text for message in new if message.text))]
    return [Message("user", conversation(new).whole())] if any(message.role == "user" for message in new) else new
