"""Chat Completions, by OpenAI and everybody who speaks as they do."""

from typing import Any

from paddock.tools.providers.shapes import Asked, arguments, field
from paddock.tools.result import ToolResult
from paddock.tools.tool import ModelTool


class Chat:
    """An entry of a message's `tool_calls` is a call; a message of the role `tool` answers it."""

    def offered(self, tools: list[ModelTool]) -> list[dict[str, Any]]:
        """See `Provider`."""
        told = [{"name": t.name, "description": t.description, "parameters": t.schema} for t in tools]
        return [{"type": "function", "function": one} for one in told]

    def asked(self, call: Any) -> Asked | None:
        """See `Provider`."""
        function = field(call, "function")
        name = field(function, "name")
        if field(call, "type") not in ("function", None) or not isinstance(name, str):
            return None
        return Asked(field(call, "id"), name, arguments(field(function, "arguments")))

    def answer(self, asked: Asked, result: ToolResult) -> dict[str, Any]:
        """See `Provider`."""
        return {"role": "tool", "tool_call_id": asked.id, "content": result.text}
