"""One tool that a model is offered. Everything else here makes these, wraps them, or says them in a provider's words."""

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from paddock.bridge.context import ToolContext
from paddock.consent import begun_by
from paddock.errors import ConfigError, SandboxError
from paddock.tools.result import ToolResult, failed, failure
from paddock.tools.schemas import Schema, fitted

Act = Literal["read", "write", "delete", "run", "pull", "stage"]
"""What a tool does, for rules about it."""
Work = Callable[[dict[str, Any], ToolContext | None], Awaitable[ToolResult]]
"""Is given arguments that fit. It may raise a `SandboxError`, which becomes a result."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)
_log = logging.getLogger("paddock.tools")


@dataclass(frozen=True, slots=True)
class ModelTool:
    """A name, what a model is told of it, and what it does."""

    name: str
    description: str
    schema: Schema
    """The JSON schema of its arguments."""
    work: Work = field(repr=False, compare=False)
    act: Act = "read"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"{self.name!r:.80} is no name that every provider takes for a tool.",
                hint="Begin with a letter; letters, digits, '_' and '-' may follow, 64 in all.",
            )

    async def call(self, arguments: Mapping[str, Any], context: ToolContext | None = None) -> ToolResult:
        """Call it, as something that a model began. Whatever goes wrong is a result; only being cancelled is not."""
        with begun_by("model"):
            path = arguments.get("path") if isinstance(arguments, Mapping) else None
            try:
                taken = fitted(arguments, self.schema)
                if isinstance(taken, str):
                    hint = "Correct them and call it again."
                    return failed(f"The arguments of {self.name} do not fit. {taken}", hint)
                return await self.work(taken, context)
            except SandboxError as error:
                return failure(error, path if isinstance(path, str) else None)
            except Exception as error:  # noqa: BLE001 - a model cannot mend it, and it may name files of the host
                _log.warning("the tool %s failed", self.name, exc_info=error)
                return failed(
                    f"{self.name} failed ({type(error).__name__}).", "Try another way; the host's log has more."
                )
