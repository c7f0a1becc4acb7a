"""Tools for models, over a sandbox: what they do, who is asked first, and how each provider offers and calls them."""

from paddock.tools.result import ToolResult
from paddock.tools.rules import ToolRules
from paddock.tools.sandbox import sandbox_tools
from paddock.tools.tool import ModelTool
from paddock.tools.tools import Tools
from paddock.tools.wrapping import asking, audited

__all__ = ["ModelTool", "ToolResult", "ToolRules", "Tools", "asking", "audited", "sandbox_tools"]
