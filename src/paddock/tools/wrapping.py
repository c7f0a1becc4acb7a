"""Behaviour by wrapping: each of these takes a tool and gives one that does something more."""

import json
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from time import perf_counter
from typing import Any

from paddock import paths
from paddock.bridge.context import ToolContext
from paddock.errors import ConfigError, NotAuthorizedError, SandboxError, visible
from paddock.sandbox import Sandbox
from paddock.sandbox.behalf import is_blocked
from paddock.tools.result import ToolResult
from paddock.tools.rules import ASKED, ToolRules
from paddock.tools.tool import ModelTool

Wrap = Callable[[ModelTool], ModelTool]
_SHOWN = 4000


def unless_blocked(sb: Sandbox) -> Wrap:
    """What a rule of the sandbox's own `approve=` blocks is not done."""

    def wrap(tool: ModelTool) -> ModelTool:
        async def work(arguments: dict[str, Any], context: ToolContext | None) -> ToolResult:
            if is_blocked(sb, tool.act):
                raise _blocked(tool, str(arguments.get("path") or arguments.get("command") or tool.name))
            return await tool.work(arguments, context)

        return replace(tool, work=work)

    return wrap


def asking(sb: Sandbox, rules: ToolRules) -> Wrap:
    """What a rule says `ask` about is asked before it is done, by `approve=` of the sandbox; what is blocked is not."""
    if not isinstance(rules, ToolRules):
        raise ConfigError(f"rules={rules!r} is no ToolRules.", hint='Such as ToolRules(run="blocked").')

    def wrap(tool: ModelTool) -> ModelTool:
        if tool.act not in ASKED:
            return tool

        async def work(arguments: dict[str, Any], context: ToolContext | None) -> ToolResult:
            places = await _places(sb, tool, arguments)
            rule, place = rules.of(tool.act, *places), places[-1] if places else None
            subject = place or str(arguments.get("repo") or arguments.get("command") or tool.name)
            if rule == "blocked":
                raise _blocked(tool, subject, place)
            if rule == "ask":
                given = json.dumps(arguments, sort_keys=True)
                digest = sha256(json.dumps([tool.name, given]).encode()).hexdigest()
                await sb.ask(tool.act, subject, digest, f"A model calls {tool.name} with {_shown(given)}")
            return await tool.work(arguments if place is None else {**arguments, "path": place}, context)

        return replace(tool, work=work)

    return wrap


def audited(sb: Sandbox) -> Wrap:
    """Each call is an event of the sandbox, beside those of what it did there."""

    def wrap(tool: ModelTool) -> ModelTool:
        async def work(arguments: dict[str, Any], context: ToolContext | None) -> ToolResult:
            started, outcome, size = perf_counter(), "CANCELLED", None
            try:
                result = await tool.work(arguments, context)
                outcome, size = "ok" if result.success else "FAILED", len(result.text)
                return result
            except Exception as error:
                outcome = error.code if isinstance(error, SandboxError) else "FAILED"
                raise
            finally:
                sb.report("tool", "call", tool.name, outcome, perf_counter() - started, size=size, initiator="model")

        return replace(tool, work=work)

    return wrap


async def _places(sb: Sandbox, tool: ModelTool, arguments: dict[str, Any]) -> tuple[str, ...]:
    """The path that would be changed, as it was named, and last without links: what was asked about is what is done.

    A link is deleted itself.
    """
    if tool.act not in ("write", "delete") or not isinstance(arguments.get("path"), str):
        return ()
    full = paths.normalise(arguments["path"], sb.workdir)
    if tool.act == "write":
        return full, await sb.canonical(full)
    return full, paths.join(await sb.canonical(paths.parent(full)), paths.name(full))


def _blocked(tool: ModelTool, subject: str, path: str | None = None) -> NotAuthorizedError:
    return NotAuthorizedError(
        f"To {tool.act} '{visible(subject[:_SHOWN])}' is blocked.", path=path, hint="Find another way."
    )


def _shown(given: str) -> str:
    left_out = len(given) - _SHOWN
    return given if left_out <= 0 else f"{given[:_SHOWN]} … and {left_out} characters more that are not shown"
