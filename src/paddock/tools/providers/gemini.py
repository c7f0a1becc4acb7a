"""generateContent, by Google."""

from collections.abc import Mapping
from typing import Any

from paddock.tools.providers.shapes import Asked, arguments, field
from paddock.tools.result import ToolResult
from paddock.tools.tool import ModelTool


class Gemini:
    """A part with a `functionCall`, or what is in it, is a call; a part with a `functionResponse` answers it."""

    def offered(self, tools: list[ModelTool]) -> list[dict[str, Any]]:
        """See `Provider`."""
        told = [{"name": t.name, "description": t.description, "parametersJsonSchema": t.schema} for t in tools]
        return [{"functionDeclarations": told}]

    def asked(self, call: Any) -> Asked | None:
        """See `Provider`."""
        inner = field(call, "functionCall", "function_call") or call
        name = field(inner, "name")
        is_one = inner is not call or _has_arguments(call)
        if not isinstance(name, str) or not is_one or field(inner, "type") is not None:
            return None
        return Asked(field(inner, "id"), name, arguments(field(inner, "args")))

    def answer(self, asked: Asked, result: ToolResult) -> dict[str, Any]:
        """See `Provider`."""
        told = {"name": asked.name, "response": {"output" if result.success else "error": result.text}}
        return {"functionResponse": told if asked.id is None else {"id": asked.id, **told}}


def _has_arguments(call: Any) -> bool:
    """Whether there is a place for them: the SDK leaves it empty where a model gave none."""
    return "args" in call if isinstance(call, Mapping) else hasattr(call, "args")
