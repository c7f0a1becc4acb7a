"""The bridge: tools of the host that were granted, as an MCP server inside. It is given a way to listen, and no sandbox."""

from paddock.bridge.context import Caller, ToolContext
from paddock.bridge.grants import Grant, Grantable, McpServer, Tool

__all__ = ["Caller", "Grant", "Grantable", "McpServer", "Tool", "ToolContext"]
