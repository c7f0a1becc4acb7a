"""Responses, by OpenAI."""

from typing import Any

from paddock.tools.providers.shapes import Asked, arguments, field
from paddock.tools.result import ToolResult
from paddock.tools.tool import ModelTool


class Responses:
    """An item `function_call` of the output is a call; an item `function_call_output` of the next input answers it."""

    def offered(self, tools: list[ModelTool]) -> list[dict[str, Any]]:
        """See `Provider`. It is not `strict`, where everything would have to be given."""
        told = [{"name": t.name, "description": t.description, "parameters": t.schema} for t in tools]
        return [{"type": "function", **one, "strict": False} for one in told]

    def asked(self, call: Any) -> Asked | None:
        """See `Provider`."""
        if field(call, "type") != "function_call":
            return None
        return Asked(field(call, "call_id"), str(field(call, "name")), arguments(field(call, "arguments")))

    def answer(self, asked: Asked, result: ToolResult) -> dict[str, Any]:
        """See `Provider`."""
        return {"type": "function_call_output", "call_id": asked.id, "output": result.text}
