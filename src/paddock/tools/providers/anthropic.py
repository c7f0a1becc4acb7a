"""Messages, by Anthropic."""

from typing import Any

from paddock.tools.providers.shapes import Asked, arguments, field
from paddock.tools.result import ToolResult
from paddock.tools.tool import ModelTool


class Anthropic:
    """A block of the type `tool_use` is a call; a block `tool_result` of the next user's message answers it."""

    def offered(self, tools: list[ModelTool]) -> list[dict[str, Any]]:
        """See `Provider`."""
        return [{"name": t.name, "description": t.description, "input_schema": t.schema} for t in tools]

    def asked(self, call: Any) -> Asked | None:
        """See `Provider`."""
        if field(call, "type") != "tool_use":
            return None
        return Asked(field(call, "id"), str(field(call, "name")), arguments(field(call, "input")))

    def answer(self, asked: Asked, result: ToolResult) -> dict[str, Any]:
        """See `Provider`."""
        told = {"type": "tool_result", "tool_use_id": asked.id, "content": result.text}
        return told if result.success else {**told, "is_error": True}
