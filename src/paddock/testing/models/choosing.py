"""Which of the tools that an agent offers is meant, and what it wants to be called with."""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from paddock.gateway.translate import Ask
from paddock.gateway.translate.model import Tool
from paddock.gateway.translate.names import sent_name
from paddock.testing.models.asked import all_text
from paddock.testing.models.turns import Shell, Use

SHELLS = ("Bash", "bash", "run_shell_command", "exec_command", "shell_command", "shell")
"""What agents call the tool that runs a command: Claude, OpenCode, Gemini, Codex and earlier ones of it."""
_COMMAND = ("command", "cmd")
_SEARCHES = ("ToolSearch", "tool_search")
"""By which an agent has tools found that it does not offer at first. They may be called by their names all the same."""


class Call(NamedTuple):
    """A tool as the agent knows it, and arguments."""

    name: str
    namespace: str
    arguments: str


class NoTool(Exception):  # noqa: N818 - becomes an answer
    """Nothing that is offered fits."""


def call(ask: Ask, part: Shell | Use) -> Call:
    """The call that is meant; `NoTool` says what was offered instead."""
    if isinstance(part, Shell):
        return _shell(ask, part.command)
    tool = _declared(ask, part) or _deferred(ask, part)
    if tool is None:
        name = f"{part.server}'s tool '{part.tool}'" if part.server else f"the tool '{part.tool}'"
        raise NoTool(f"I was to call {name}, which is not offered. {_offered(ask)}")
    return _call(tool, part.arguments)


def _call(tool: Tool, arguments: Mapping[str, Any]) -> Call:
    return Call(tool.name, tool.namespace, json.dumps(dict(arguments)))


def _shell(ask: Ask, command: str) -> Call:
    offered = {tool.name: tool for tool in ask.tools if not tool.namespace}
    tool = next((offered[name] for name in SHELLS if name in offered), None)
    if tool is None:
        raise NoTool(f"I was to run a shell command, and there is no tool for that. {_offered(ask)}")
    properties = tool.schema.get("properties") or {}
    name = next((name for name in _COMMAND if name in properties), _COMMAND[0])
    words = (properties.get(name) or {}).get("type") == "array"
    arguments: dict[str, Any] = {name: ["bash", "-lc", command] if words else command}
    if "description" in (tool.schema.get("required") or ()):
        arguments["description"] = "A scripted command"
    return _call(tool, arguments)


def _declared(ask: Ask, part: Use) -> Tool | None:
    """The tool of exactly this name, or else the one that an MCP server has: agents put the server's name before it."""
    exact = [] if part.server else [tool for tool in ask.tools if tool.name == part.tool and not tool.namespace]
    fitting = exact or [tool for tool in ask.tools if _of_server(tool, part)]
    if len(fitting) > 1:
        names = ", ".join(sent_name(tool.name, tool.namespace) for tool in fitting)
        raise NoTool(f"I was to call the tool '{part.tool}', and several are offered: {names}. Name its server.")
    return fitting[0] if fitting else None


def _of_server(tool: Tool, part: Use) -> bool:
    full = sent_name(tool.name, tool.namespace)
    before = rf"(mcp_{{1,2}})?{re.escape(part.server)}" if part.server else r".+"
    return re.fullmatch(rf"{before}_{{1,2}}{re.escape(part.tool)}", full) is not None


def _deferred(ask: Ask, part: Use) -> Tool | None:
    """One that is not offered yet, where the agent has others searched for."""
    if not any(tool.name in _SEARCHES for tool in ask.tools):
        return None
    server = re.escape(part.server) if part.server else r"[A-Za-z0-9_-]+?"
    found = re.search(rf"\bmcp__{server}__{re.escape(part.tool)}\b", all_text(ask))
    return Tool(found.group()) if found else None


def _offered(ask: Ask) -> str:
    names = ", ".join(sent_name(tool.name, tool.namespace) for tool in ask.tools)
    return f"Offered: {names}." if names else "No tools are offered."
