"""Granted tools without a sandbox: for a model that is asked from the host, which calls them here."""

from collections.abc import Iterable
from itertools import count
from types import TracebackType
from typing import Any, Self

from paddock.audit import EventBus, default_log
from paddock.bridge.calls import Calls
from paddock.bridge.context import Caller, ToolContext
from paddock.bridge.grants import Grant, McpServer, Tool
from paddock.bridge.table import Table
from paddock.consent import Consent, Policy


class HostTools:
    """The tools of one caller. As a context manager it grants them, and ends their servers at the end of the block."""

    def __init__(self, caller: Caller, given: Iterable[Tool | McpServer], approve: Policy = None) -> None:
        bus = EventBus(caller.sandbox, default_log())
        self._caller = caller
        self._given = tuple(given)
        self._calls = Calls(Consent(approve, bus), bus)
        self._table = Table(_nobody, _nothing)
        self._numbers = count(1)

    @property
    def grants(self) -> tuple[Grant, ...]:
        """What there is."""
        return self._table.grants

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        """What a tool gives back as text, and whether it failed. One that is not granted is a failure too."""
        number = f"d{next(self._numbers)}"
        entry = await self._table.find(name)
        if entry is None:
            self._calls.refused(name, number)
            return "tool not found or not authorized", True
        context = ToolContext(self._caller.user, self._caller.chat, self._caller.sandbox, name, number)
        result = await self._calls.make(entry, arguments, context)
        texts = [getattr(block, "text", None) or f"[{block.type}]" for block in result.content]
        return "\n".join(texts), bool(result.is_error)

    async def __aenter__(self) -> Self:
        try:
            await self._table.add(self._given)
        except BaseException:
            await self._table.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._table.close()


async def _nobody() -> None:
    pass


def _nothing(operation: str, tool: str, outcome: str) -> None:
    pass
