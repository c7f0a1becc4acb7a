"""Names of tools as every provider takes them, and back.

Providers take 64 letters, digits, `_` and `-`, and know no namespaces except in Responses. A longer name, as those of
tools of an MCP server easily are, is shortened with a hash; the same name always becomes the same.
"""

import hashlib
import re
from collections.abc import Iterable

from paddock.gateway.translate.deltas import Delta, ToolBegan
from paddock.gateway.translate.model import Tool

_LONGEST = 64
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]")


def sent_name(name: str, namespace: str = "") -> str:
    """The name as it is sent."""
    full = f"{namespace}__{name}" if namespace else name
    plain = _FORBIDDEN.sub("_", full)
    if plain == full and len(full) <= _LONGEST:
        return full
    return f"{plain[: _LONGEST - 9]}_{hashlib.sha256(full.encode(errors='replace')).hexdigest()[:8]}"


class Names:
    """The tools of a request by the names that were sent."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = {sent_name(tool.name, tool.namespace): tool for tool in tools}

    def meant(self, delta: Delta) -> Delta:
        """`delta` with the name as the client knows it."""
        if not isinstance(delta, ToolBegan) or delta.namespace or delta.name not in self._tools:
            return delta
        tool = self._tools[delta.name]
        return ToolBegan(delta.id, tool.name, tool.namespace, tool.custom)
