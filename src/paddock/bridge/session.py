"""One connection: an MCP server of its own, for whoever is at the other end."""

from contextlib import suppress
from typing import Any, get_args

import anyio
from mcp.server.connection import allowed_log_levels
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    EmptyResult,
    JSONRPCNotification,
    ListResourcesResult,
    ListToolsResult,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    SetLevelRequestParams,
)

from paddock.bridge.calls import Calls
from paddock.bridge.context import Caller, Level, ToolContext
from paddock.bridge.lines import INVALID_PARAMS
from paddock.bridge.sdk import version
from paddock.bridge.table import Table
from paddock.bridge.telling import Telling
from paddock.bridge.transport import Incoming, Outgoing

NOT_GRANTED = "tool not found or not authorized"
_LEVELS: tuple[Level, ...] = get_args(Level)
_CHANGED = JSONRPCNotification(jsonrpc="2.0", method="notifications/tools/list_changed")

_Context = ServerRequestContext[Any, Any]


class Session:
    """What is answered on one connection. Who asks is known from the start, and nothing that is said changes it."""

    def __init__(self, name: str, caller: Caller, table: Table, calls: Calls, listening: ListenHandler) -> None:
        self._name = name
        self._caller = caller
        self._table = table
        self._calls = calls
        self._count = 0
        self._level: Level = "info"
        self._outgoing: Outgoing | None = None
        self._incoming: Incoming | None = None
        self._announcing = False
        self._server = self._made(listening)

    async def run(self, incoming: Incoming, outgoing: Outgoing) -> None:
        """Until the other side ends."""
        self._incoming, self._outgoing = incoming, outgoing
        options = self._server.create_initialization_options(NotificationOptions(tools_changed=True))
        await self._server.run(incoming, outgoing, options)

    async def announce(self) -> None:
        """The tools have become others; those who speak the newer protocol have asked to be told."""
        if self._announcing or self._outgoing is None or self._incoming is None or not self._incoming.initialized:
            return
        self._announcing = True
        try:
            with suppress(anyio.BrokenResourceError):
                await self._outgoing.write(_CHANGED)
        finally:
            self._announcing = False

    def _made(self, listening: ListenHandler) -> Server[Any]:
        server: Server[Any] = Server(
            "paddock",
            version=version(),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_read_resource=self._read_resource,
            on_subscriptions_listen=listening,
        )
        server.middleware.clear()  # names and sizes are in the audit log, and go nowhere else
        server.add_request_handler("logging/setLevel", SetLevelRequestParams, self._set_level)
        return server

    async def _list_tools(self, ctx: _Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=await self._table.listed())

    async def _call_tool(self, ctx: _Context, params: CallToolRequestParams) -> CallToolResult:
        self._count += 1
        call = f"{self._name}.{self._count}"
        entry = await self._table.find(params.name)
        if entry is None:
            self._calls.refused(params.name, call)
            raise MCPError(INVALID_PARAMS, NOT_GRANTED)
        telling = Telling(ctx.session.report_progress, lambda level, words: self._log(ctx, level, words))
        context = ToolContext(
            user=self._caller.user,
            chat=self._caller.chat,
            sandbox=self._caller.sandbox,
            tool=entry.grant.name,
            call=call,
            progress=telling.progress,
            message=telling.message,
        )
        try:
            return await self._calls.make(entry, params.arguments or {}, context)
        finally:
            await telling.end()

    async def _log(self, ctx: _Context, level: Level, words: str) -> None:
        if level not in _LEVELS[_LEVELS.index(self._level) :]:
            return
        if level in allowed_log_levels(ctx.protocol_version, ctx.meta):
            said = LoggingMessageNotificationParams(level=level, logger="tool", data=words)
            await ctx.session.send_notification(LoggingMessageNotification(params=said), ctx.request_id)

    async def _set_level(self, ctx: _Context, params: SetLevelRequestParams) -> EmptyResult:
        self._level = params.level
        return EmptyResult()

    async def _list_resources(self, ctx: _Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        return ListResourcesResult(resources=[])

    async def _read_resource(self, ctx: _Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        raise MCPError(INVALID_PARAMS, "there are no resources")
