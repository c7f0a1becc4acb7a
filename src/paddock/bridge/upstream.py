"""Other MCP servers: started or connected to by the host, in a task of their own, and ended with the sandbox."""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, TextIO

from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolResult,
    Implementation,
    LoggingMessageNotificationParams,
    PaginatedRequestParams,
    ToolListChangedNotification,
)
from mcp_types import Tool as ListedTool
from pydantic import ValidationError

from paddock.bridge.context import ToolContext
from paddock.bridge.grants import McpServer
from paddock.bridge.offers import digest
from paddock.bridge.sdk import version
from paddock.errors import BridgeError, ClosedError, SandboxError

_SECONDS_TO_START = 30.0
_SECONDS_TO_LIST = 10.0
_SECONDS_TO_END = 15.0
_FRESH = 5.0
_MOST_PAGES, _MOST_TOOLS = 100, 1000
_log = logging.getLogger("paddock.bridge")


class Upstream:
    """One server that runs."""

    def __init__(self, server: McpServer) -> None:
        self.server = server
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._looked = 0.0
        self._found: dict[str, str] = {}
        self._looking = asyncio.Lock()
        self._contexts: set[ToolContext] = set()

    async def start(self) -> list[ListedTool]:
        """Its tools, when it is there; `BridgeError` if it does not come."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(ready))
        try:
            async with asyncio.timeout(_SECONDS_TO_START):
                await ready
                return await self._list()
        except SandboxError:
            await self.close()
            raise
        except Exception as error:
            await self.close()
            raise BridgeError(
                f"The MCP server '{self.server.called}' cannot be used: {_why(error)}.",
                hint="Try its program, or its URL, by hand.",
            ) from error
        except BaseException:
            await self.close()
            raise

    def stop(self) -> None:
        """Have it end; nothing is waited for."""
        self._stop.set()
        if self._task is not None and self._client is None:  # it is not there yet, and may never be
            self._task.cancel()

    async def close(self) -> None:
        """End it; idempotent."""
        self.stop()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_SECONDS_TO_END)
            self._task.cancel()

    async def current(self) -> dict[str, str]:
        """The hashes of its tools as they are now, or were a moment ago."""
        async with self._looking:
            if time.monotonic() - self._looked > _FRESH:
                try:
                    async with asyncio.timeout(_SECONDS_TO_LIST):
                        await self._list()
                except Exception as error:  # noqa: BLE001 - whatever it says instead: a call will fail too
                    self._looked = time.monotonic()  # and nobody else has to wait for that just now
                    _log.warning("the MCP server %s does not say what it has", self.server.called, exc_info=error)
            return self._found

    async def call(self, name: str, arguments: dict[str, Any], context: ToolContext) -> CallToolResult:
        """Call one of its tools; what it says meanwhile goes to the client."""

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            context.report_progress(progress, total, message)

        self._contexts.add(context)
        try:
            return await self._connected().session.call_tool(name, arguments, progress_callback=on_progress)
        except MCPError as error:
            words = error.error.message[:500].rstrip(".")
            raise BridgeError(f"The MCP server refused: {words}.", hint="") from error
        finally:
            self._contexts.discard(context)

    def _connected(self) -> Client:
        if self._client is None or self._task is None or self._task.done():
            raise BridgeError(f"The MCP server '{self.server.called}' has ended.", hint="Grant it anew.")
        return self._client

    async def _run(self, ready: "asyncio.Future[None]") -> None:
        """The whole life of the connection is in this one task, since the SDK's scopes belong to tasks."""
        try:
            async with _transport(self.server) as transport:
                client = Client(
                    transport,
                    mode="legacy",
                    client_info=Implementation(name="paddock", version=version()),
                    logging_callback=self._on_log,
                    message_handler=self._on_message,
                )
                async with client:
                    self._client = client
                    if not ready.done():
                        ready.set_result(None)
                    await self._stop.wait()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this server's end, and told to who waits for it
            if not ready.done():
                ready.set_exception(error)
        finally:
            self._client = None
            if not ready.done():
                ready.set_exception(ClosedError("The tools were closed before the MCP server was there."))

    async def _list(self) -> list[ListedTool]:
        session, cursor = self._connected().session, None
        found: list[ListedTool] = []
        self._looked = time.monotonic()  # before: it may announce a change meanwhile
        for _ in range(_MOST_PAGES):
            page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
            found += page.tools
            cursor = page.next_cursor
            if cursor is None or len(found) > _MOST_TOOLS:
                break
        self._found = {tool.name: digest(tool) for tool in found}
        return found[:_MOST_TOOLS]

    async def _on_log(self, params: LoggingMessageNotificationParams) -> None:
        for context in list(self._contexts):
            context.log(params.data if isinstance(params.data, str) else str(params.data), params.level)

    async def _on_message(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._looked = 0.0


class UpstreamOffer:
    """One tool of a server, under the name that clients know."""

    def __init__(self, upstream: Upstream, tool: ListedTool) -> None:
        self.upstream = upstream
        self.digest = digest(tool)
        self._tool = tool.name
        self.listed = tool.model_copy(
            update={"name": upstream.server.name_of(tool.name), "output_schema": None, "icons": None, "meta": None}
        )

    async def is_the_same(self) -> bool:
        """Whether the server still says of it what it said when it was granted."""
        return (await self.upstream.current()).get(self._tool) == self.digest

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> CallToolResult:
        """See `Offer`."""
        return await self.upstream.call(self._tool, arguments, context)


@asynccontextmanager
async def _transport(server: McpServer) -> AsyncIterator[AbstractAsyncContextManager[Any]]:
    """The SDK's own, with what it needs open around it."""
    async with AsyncExitStack() as stack:
        if isinstance(server.server, str):
            http = await stack.enter_async_context(create_mcp_http_client(headers=dict(server.headers)))
            yield streamable_http_client(server.server, http_client=http)
            return
        program, *arguments = server.server
        words = stack.enter_context(_nowhere())
        started = StdioServerParameters(
            command=program,
            args=arguments,
            env=dict(server.env),
            cwd=None if server.cwd is None else os.fspath(server.cwd),
        )
        yield stdio_client(started, words)


def _nowhere() -> TextIO:
    """Where a program's own words go: it may not write to ours."""
    return open(os.devnull, "w", encoding="utf-8")


def _why(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return f"it did not answer for {_SECONDS_TO_START:g} seconds"
    if isinstance(error, ValidationError):
        return "what it answers is not MCP"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).rstrip(".")[:500]
