"""What is answered: the tools, and files as resources."""

import asyncio
import mimetypes
from base64 import b64encode
from itertools import count
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    TextContent,
    TextResourceContents,
)
from mcp_types import Tool as ListedTool

from paddock import paths
from paddock.bridge.context import Level, ToolContext
from paddock.bridge.lines import INVALID_PARAMS, MAX_LINE, Lines
from paddock.bridge.sdk import version
from paddock.bridge.share import Share
from paddock.bridge.telling import Telling
from paddock.bridge.transport import Incoming, Outgoing
from paddock.consent import begun_by
from paddock.driver import Connection
from paddock.errors import SandboxError, visible
from paddock.finishing import to_the_end
from paddock.sandbox import Sandbox
from paddock.tools.text import is_binary
from paddock.tools.tools import Tools

SCHEME = "sandbox"
PAGE = 200
MOST_RESOURCES = 2000
LARGEST = 1 << 20
_READING = "read_file"

_Context = ServerRequestContext[Any, Any]


class McpTools:
    """One sandbox's tools, for any number of clients."""

    def __init__(self, sb: Sandbox, tools: Tools) -> None:
        self._sb = sb
        self._tools = tools
        self._calls = count(1)
        reads = _READING in tools  # whoever is not to read files by a tool does not do so by another name
        self.server: Server[Any] = Server(
            "paddock",
            version=version(),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources if reads else None,
            on_read_resource=self._read_resource if reads else None,
        )
        self.server.middleware.clear()  # names and sizes are in the audit log, and go nowhere else

    async def serve(self, connection: Connection) -> None:
        """One client, over lines, until it ends."""
        share = Share()
        outgoing = Outgoing(connection, share)
        incoming = Incoming(connection, outgoing, Lines(MAX_LINE), share)
        await self.server.run(incoming, outgoing, self.server.create_initialization_options(NotificationOptions()))

    async def _list_tools(self, ctx: _Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        told = [ListedTool(name=t.name, description=t.description, input_schema=t.schema) for t in self._tools]
        return ListToolsResult(tools=told)

    async def _call_tool(self, ctx: _Context, params: CallToolRequestParams) -> CallToolResult:
        """A tool's failure is a result. A client that cancels ends what runs, with all that it started."""
        if params.name not in self._tools:
            raise MCPError(INVALID_PARAMS, f"there is no tool {visible(params.name[:100])}")
        telling = Telling(ctx.session.report_progress, _nothing)
        sandbox, call = self._sb.id, f"mcp.{next(self._calls)}"
        context = ToolContext(None, None, sandbox, params.name, call, telling.progress)
        task = asyncio.ensure_future(self._tools.call(params.name, params.arguments or {}, context))
        try:
            await asyncio.wait([task])
        finally:
            if not task.done():
                task.cancel()
                await to_the_end(_over(task))
        await telling.end()
        result = task.result()
        return CallToolResult(content=[TextContent(type="text", text=_sound(result.text))], is_error=not result.success)

    async def _list_resources(self, ctx: _Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        """The files below the working directory, page by page, up to a number of them."""
        cursor = params.cursor if params is not None else None
        start = int(cursor) if cursor and cursor.isascii() and cursor.isdigit() and len(cursor) < 9 else 0
        with begun_by("model"):
            try:
                found = (await self._sb.glob("**/*"))[:MOST_RESOURCES]
                described = [one for path in found[start : start + PAGE] if (one := await self._described(path))]
            except SandboxError as error:
                raise MCPError(INVALID_PARAMS, error.to_llm()) from None
        more = str(start + PAGE) if start + PAGE < len(found) else None
        return ListResourcesResult(resources=described, next_cursor=more)

    async def _described(self, path: str) -> Resource | None:
        """A file; None for everything else, and for what is gone already."""
        try:
            info = await self._sb.stat(path)
        except SandboxError:
            return None
        if info.kind != "file":
            return None
        kind = mimetypes.guess_type(path)[0]
        name = _sound(paths.below(path, self._sb.workdir) if paths.within(path, self._sb.workdir) else path)
        return Resource(uri=uri(path), name=name, mime_type=kind, size=info.size)

    async def _inside(self, path: str) -> str:
        """Where a resource really is, which has to be below the working directory, as all are that are listed."""
        real = await self._sb.canonical(path)
        if not paths.within(real, self._sb.workdir):
            raise MCPError(INVALID_PARAMS, f"a resource is below {self._sb.workdir}; read_file shows other files")
        return real

    async def _read_resource(self, ctx: _Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        given = str(params.uri)
        with begun_by("model"):
            try:
                data = await self._sb.read_bytes(await self._inside(path_of(given)), limit=LARGEST + 1)
            except SandboxError as error:
                raise MCPError(INVALID_PARAMS, error.to_llm()) from None
        if len(data) > LARGEST:
            raise MCPError(INVALID_PARAMS, f"the file has more than {LARGEST} bytes; read_file shows parts of it")
        kind = mimetypes.guess_type(given)[0]
        if is_binary(data):
            blob = BlobResourceContents(uri=given, mime_type=kind, blob=b64encode(data).decode())
            return ReadResourceResult(contents=[blob])
        text = TextResourceContents(uri=given, mime_type=kind or "text/plain", text=data.decode("utf-8", "replace"))
        return ReadResourceResult(contents=[text])


def uri(path: str) -> str:
    """A path of the sandbox as the address of a resource."""
    return f"{SCHEME}://{quote(paths.encode(path))}"


def path_of(address: str) -> str:
    """The inverse; what is no such address is a path that cannot be."""
    try:
        parts = urlsplit(address)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme != SCHEME or parts.netloc:
        raise MCPError(INVALID_PARAMS, f"a resource begins with {SCHEME}:///")
    return unquote(parts.path, errors="surrogateescape")


async def _over(task: "asyncio.Future[Any]") -> None:
    await asyncio.wait([task])


async def _nothing(level: Level, words: str) -> None:
    """The tools say nothing but how far they are."""


def _sound(text: str) -> str:
    """Without what cannot be written as UTF-8."""
    return text.encode("utf-8", "replace").decode()
