"""What all providers have in common, and reading their objects and plain data alike."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from paddock.tools.result import ToolResult
from paddock.tools.tool import ModelTool


@dataclass(frozen=True, slots=True)
class Asked:
    """A tool call of a model."""

    id: str | None
    name: str
    arguments: Mapping[str, Any] | str
    """A text if they are no JSON object."""


class Provider(Protocol):
    """One provider's words for tools."""

    def offered(self, tools: list[ModelTool]) -> list[dict[str, Any]]:
        """The `tools` of a request."""

    def asked(self, call: Any) -> Asked | None:
        """A tool call, if this is one of this provider's: plain data, or an object of its SDK."""

    def answer(self, asked: Asked, result: ToolResult) -> dict[str, Any]:
        """The result as it is sent back."""


def field(value: Any, *names: str) -> Any:
    """What it has by the first of these names that it has, as a key or an attribute; else None."""
    for name in names:
        found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if found is not None:
            return found
    return None


def arguments(given: Any) -> Mapping[str, Any] | str:
    """Arguments that came as JSON text, or as an object. Nothing at all is none."""
    if isinstance(given, Mapping):
        return given
    if given is None or given == "":
        return {}
    try:
        found = json.loads(given)
    except (TypeError, ValueError, RecursionError):
        return str(given)
    return found if isinstance(found, dict) else str(given)
