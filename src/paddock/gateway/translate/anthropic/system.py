"""What the system says in the middle of a conversation, for servers that know no such messages.

Claude sends `role: "system"` within `messages`, anywhere. Newer models of Anthropic take it; other servers of its API,
and older models, answer with an error. There it becomes text of the user's turn, marked the way Claude itself marks what
the system says in a user's turn; at the beginning it becomes part of `system`. Neighbours of the same side are put
together, so that the sides still take turns, and results stay first, where Anthropic insists on them.
"""

from paddock.gateway.translate.model import Text, Turn
from paddock.gateway.translate.reading import At, Body

_BEFORE, _AFTER = "<system-reminder>\n", "\n</system-reminder>"


def wrapped(turn: Turn) -> Turn:
    """A turn of the system as one of the user."""
    if turn.role != "system":
        return turn
    return Turn("user", tuple(Text(_mark(part.text)) for part in turn.parts if isinstance(part, Text) and part.text))


def _mark(text: str) -> str:
    return text if text.startswith(_BEFORE.strip()) else f"{_BEFORE}{text}{_AFTER}"


def results_first(blocks: list[Body]) -> list[Body]:
    """`blocks` with results of tools before everything else."""
    return sorted(blocks, key=lambda block: block.get("type") != "tool_result")


def plain_system(body: Body) -> Body:
    """`body`, a request in Anthropic's words, without messages of the system. Nothing else in it changes."""
    messages = At(body)["messages"].items()
    if not any(message["role"].value == "system" for message in messages):
        return body
    at = next((at for at, message in enumerate(messages) if message["role"].value != "system"), len(messages))
    leading = [block for message in messages[:at] for block in _blocks(message["content"])]
    changed = body | {"messages": _alternating(messages[at:])}
    if leading:
        changed["system"] = [*_blocks(At(body)["system"]), *leading]
    return changed


def _blocks(content: At) -> list[Body]:
    if isinstance(content.value, str):
        return [{"type": "text", "text": content.value}]
    return [block.object() for block in content.items()]


def _alternating(messages: list[At]) -> list[Body]:
    turns: list[Body] = []
    for message in messages:
        blocks, role = _blocks(message["content"]), message["role"].value
        if role == "system":
            blocks, role = [_marked(block) for block in blocks], "user"
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({**message.object(), "role": role, "content": blocks})
    return [turn | {"content": results_first(turn["content"])} for turn in turns]


def _marked(block: Body) -> Body:
    text = block.get("text")
    return block | {"text": _mark(text)} if isinstance(text, str) else block
