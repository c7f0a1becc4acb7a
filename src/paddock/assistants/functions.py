"""Tools of an assistant that are functions of its own files."""

import inspect
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from paddock.assistants.isolation import Folder
from paddock.bridge import McpServer, Tool
from paddock.bridge.threads import Threads
from paddock.documents import Value
from paddock.errors import ConfigError
from paddock.types.times import parse_time


def functions(block: Value | None, folder: Folder) -> tuple[Tool | McpServer, ...]:
    """The functions that are named, loaded now."""
    found: dict[str, Tool | McpServer] = {}
    for value in block.items() if block else ():
        tool = _tool(value, folder)
        if tool.called in found:
            raise value.error(f"there is a tool '{tool.called}' already.", "Remove one of them, or give it a name.")
        found[tool.called] = tool
    return tuple(found.values())


def _tool(value: Value, folder: Folder) -> Tool | McpServer:
    given = value.plain()
    terms: dict[str, Any] = {"use": given} if isinstance(given, str) else dict(given)
    file, _, name = terms.pop("use").rpartition(":")
    if "timeout" in terms:
        terms["timeout"] = parse_time(terms["timeout"])
    try:
        found = getattr(folder.module(file), name, None)
        if isinstance(found, (Tool, McpServer)):  # which may have terms of its own; those of the line come first
            return _usable(replace(found, **terms))
        if not callable(found) or inspect.isclass(found):
            raise value.error(f"{file} has no function '{name}'.", "Name one that it defines.")
        return _usable(Tool(found, **{"name": name, **terms}))
    except ConfigError as error:
        if value.file in error.message:
            raise
        raise value.error(error.message, error.hint) from error


def _usable(tool: Tool | McpServer) -> Tool | McpServer:
    """What a model cannot be told of, or cannot call, is better heard of now."""
    if isinstance(tool, Tool) and find_spec("mcp"):
        from paddock.bridge.functions import FunctionOffer

        FunctionOffer(tool, Threads())
    return tool
