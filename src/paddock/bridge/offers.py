"""A tool that can be called, wherever it is: the seam between what is granted and who does it."""

import json
from hashlib import sha256
from typing import Any, Protocol

from mcp_types import CallToolResult
from mcp_types import Tool as ListedTool

from paddock.bridge.context import ToolContext


class Offer(Protocol):
    """One tool."""

    @property
    def listed(self) -> ListedTool:
        """How clients see it."""

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> CallToolResult:
        """Do it. A failure that a model should read is a `SandboxError`, or a result that says so."""


def digest(tool: ListedTool) -> str:
    """The hash of everything that a model is told about it."""
    told = tool.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta", "icons"})
    return sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
