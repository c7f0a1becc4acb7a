"""What agents ask beside their work, which no script is about: these requests take no turn and get an answer that will do."""

import json
from collections.abc import Mapping
from typing import Any

from paddock.gateway.translate import Ask

_TITLE = "A scripted conversation"
_SYSTEMS = {"you are a title generator": "title", "task routing ai": "routing", "in an unproductive loop": "loop"}
"""How their instructions are known: OpenCode's titles, how Gemini chooses a model, and how it notices that it goes round."""
_FIELDS = {"next_speaker": "speaker"}
"""The same by what has to be in the answer."""


def side_of(ask: Ask) -> str:
    """What is wanted if it is no work, else "". Who offers tools wants work, unless one token would do."""
    if ask.max_output == 1:
        return "probe"
    if ask.tools:
        return ""
    system = "\n".join(ask.system).lower()
    fields = _schema(ask).get("properties") or {}
    if "title" in fields and "title" in system:
        return "title"
    known = [side for words, side in _SYSTEMS.items() if words in system]
    return next(iter([*known, *(side for field, side in _FIELDS.items() if field in fields)]), "")


def answer_to(ask: Ask) -> str:
    """A text that will do."""
    return _TITLE if ask.output is None else json.dumps(filled(_schema(ask)))


def _schema(ask: Ask) -> Mapping[str, Any]:
    return (ask.output and ask.output.schema) or {}


def filled(schema: Mapping[str, Any]) -> Any:
    """A small value that fits; Gemini's types are in capitals."""
    if schema.get("enum"):
        return schema["enum"][0]
    kind = str(schema.get("type", "object")).lower()
    if kind == "object":
        return {name: filled(inner) for name, inner in (schema.get("properties") or {}).items()}
    return {"string": _TITLE, "integer": 1, "number": 0, "boolean": False, "array": []}.get(kind)
