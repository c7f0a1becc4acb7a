"""generateContent, by Google."""

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
        name, given = field(inner, "name"), field(inner, "args")
        if not isinstance(name, str) or (inner is call and given is None) or field(inner, "type") is not None:
            return None
        return Asked(field(inner, "id"), name, arguments(given))

    def answer(self, asked: Asked, result: ToolResult) -> dict[str, Any]:
        """See `Provider`."""
        told = {"name": asked.name, "response": {"output" if result.success else "error": result.text}}
        return {"functionResponse": told if asked.id is None else {"id": asked.id, **told}}
