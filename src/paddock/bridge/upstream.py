"""Other MCP servers: started or connected to by the host, in a task of their own, and ended with the sandbox."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
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
from paddock.bridge.program import Program
from paddock.bridge.sdk import version
from paddock.errors import BridgeError, ClosedError, SandboxError

_SECONDS_TO_START = 30.0
_SECONDS_TO_LIST = 10.0
_SECONDS_TO_END = 15.0
_FRESH = 5.0
_MOST_PAGES, _MOST_TOOLS = 100, 1000
_LONGEST = 2000
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
        self._program = None if isinstance(server.server, str) else Program(server)

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
                f"The MCP server '{self.server.called}' cannot be used: {self._why(error)}.",
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
            if self._has_ended() or error.error.code == CONNECTION_CLOSED:
                raise self._ended() from error
            words = error.error.message[:500].rstrip(".")
            raise BridgeError(f"The MCP server '{self.server.called}' refused: {words}.", hint="") from error
        finally:
            self._contexts.discard(context)

    def _connected(self) -> Client:
        if self._client is None or self._has_ended():
            raise self._ended()
        return self._client

    def _has_ended(self) -> bool:
        return self._task is None or self._task.done() or (self._program is not None and self._program.ended.is_set())

    def _ended(self) -> BridgeError:
        return BridgeError(f"The MCP server '{self.server.called}' has ended.", hint="The host has to grant it again.")

    def _why(self, error: BaseException) -> str:
        """Why it cannot be used, with what its program said last."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        program, why = self._program, _in_words(error)
        is_closed = isinstance(error, MCPError) and error.error.code == CONNECTION_CLOSED
        if is_closed and program is not None and program.status is not None:
            why = f"its program ended with {'exit code' if program.status >= 0 else 'signal'} {abs(program.status)}"
        said = "" if program is None else program.words
        return f"{why}. It said: {said}"[:_LONGEST].rstrip(".") if said else why

    async def _run(self, ready: "asyncio.Future[None]") -> None:
        """The whole life of the connection is in this one task, since the SDK's scopes belong to tasks."""
        try:
            async with self._transport() as transport:
                client = Client(
                    transport,
                    mode="legacy",
                    client_info=Implementation(name="paddock", version=version()),
                    logging_callback=self._on_log,
                    message_handler=self._on_message,
                )
                async with client:
                    self._client = client
                    if self._program is not None:
                        self._program.patient = True
                    if not ready.done():
                        ready.set_result(None)
                    await self._stop.wait()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this server's end, and told to who waits for it
            if not ready.done() and not self._stop.is_set():
                ready.set_exception(error)
        finally:
            self._client = None
            if not ready.done():
                ready.set_exception(ClosedError("The tools were closed before the MCP server was there."))

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[AbstractAsyncContextManager[Any]]:
        """For the SDK's client, with what it needs open around it."""
        if self._program is not None:
            yield self._program.connected()
            return
        async with create_mcp_http_client(headers=dict(self.server.headers)) as http:
            yield streamable_http_client(str(self.server.server), http_client=http)

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


def _in_words(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"it did not answer for {_SECONDS_TO_START:g} seconds"
    if isinstance(error, ValidationError):
        return "what it answers is not MCP"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).rstrip(".")[:500]
