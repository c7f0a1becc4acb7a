"""What a call of a tool came to. A failure is a result too, with what to do about it."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from paddock.errors import SandboxError
from paddock.tools.text import shortened

_ECHOED = 4096
_HINTS = (
    (r'list\("/"\) names what is reachable', 'list_files with the path "/" shows what is reachable'),
    (r", or pass recursive=True to delete\(\)", ", or the whole directory with run_command"),
    (r"Pass recursive=True to delete it", "Delete a directory with run_command"),
    (r"Pass a larger timeout=, or use start\(\) for long work", "Give a larger timeout, or run it in the background"),
    (r"Use read_bytes\(\) for binary files", "Look at binary files with run_command"),
    (r", or pass overwrite=True where the call takes it", ""),
    (r"Create a new one with Sandbox\.create\(\)", "Nothing can be done in it any more; say so"),
    (r"Create a new one; files in host directories are still there", "Nothing can be done in it any more; say so"),
    (r"branches\(\) lists those that there are", "Name another branch"),
)
"""Hints of the library name Python calls; a model has tools."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of one call, for programs and for the model."""

    data: dict[str, Any]
    """By name, as JSON has it."""
    text: str = field(default="")
    """What the model reads."""
    success: bool = True

    def to_dict(self) -> dict[str, Any]:
        """All of it but the text."""
        return {"success": self.success, **self.data}


def done(text: str | None = None, **data: Any) -> ToolResult:
    """It worked. Without a text the model reads the data."""
    return ToolResult(data, _as_json(True, data) if text is None else text)


def failed(error: str, hint: str, path: str | None = None, **data: Any) -> ToolResult:
    """It did not, and this is what to do."""
    told = {"error": error, "hint": hint, "path": path, **data}
    return ToolResult(told, _as_json(False, told), success=False)


def failure(error: SandboxError, path: object = None) -> ToolResult:
    """An error of the sandbox as a result; `path` is what the tool was given, for errors that name none."""
    given = error.path or (path if isinstance(path, str) else None)
    return failed(error.message, for_a_model(error.hint), given, code=error.code)


def for_a_model(hint: str) -> str:
    """A hint in the words of the tools."""
    for python, tool in _HINTS:
        hint = re.sub(python, tool, hint)
    return hint


def _as_json(success: bool, data: dict[str, Any]) -> str:
    """A path that was given is not repeated at any length, and what is no text is an escape, as JSON has it."""
    echoed = {name: shortened(data[name], _ECHOED) for name in ("error", "path") if isinstance(data.get(name), str)}
    told = json.dumps({"success": success, **data, **echoed}, ensure_ascii=False)
    return told.encode("utf-8", "backslashreplace").decode()
