"""What is granted just now: the only place that says which tools there are."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from mcp_types import Tool as ListedTool

from paddock.bridge.functions import FunctionOffer
from paddock.bridge.grants import Grant, McpServer, Tool, is_name
from paddock.bridge.offers import Offer, digest
from paddock.bridge.threads import Threads
from paddock.bridge.upstream import Upstream, UpstreamOffer
from paddock.errors import ClosedError, ConfigError, ExistsError, NotFoundError, visible

_MOST_NAMED = 50

Report = Callable[[str, str, str], None]
"""Told the operation, the tool's name and the outcome of what is decided here."""


@dataclass(slots=True, eq=False)
class Entry:
    """One tool that is granted."""

    grant: Grant
    offer: Offer
    ended: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """Done when it is no longer granted; its calls wait for that as well."""
    changed: bool = False

    def end(self) -> None:
        """It is no longer granted: its calls end too."""
        if not self.revoked:
            self.ended.set_result(None)

    @property
    def revoked(self) -> bool:
        """Whether it is no longer granted."""
        return self.ended.done()


class Table:
    """The tools of one sandbox."""

    def __init__(self, announce: Callable[[], Awaitable[None]], report: Report) -> None:
        self._announce = announce
        self._report = report
        self._entries: dict[str, Entry] = {}
        self._servers: dict[str, Upstream] = {}
        self._starting: list[Upstream] = []
        self._threads = Threads()
        self._changing = asyncio.Lock()
        self._closed = False

    @property
    def grants(self) -> tuple[Grant, ...]:
        """Those that are there, by name."""
        return tuple(self._entries[name].grant for name in sorted(self._entries))

    async def add(self, given: Iterable[Tool | McpServer]) -> tuple[Grant, ...]:
        """Grant all of these, or none. One of the same name and the same server takes the old one's place."""
        async with self._changing:
            entries: list[Entry] = []
            servers = self._starting = []
            try:
                for one in given:
                    if self._closed:
                        raise ClosedError("The bridge is closed.")
                    if isinstance(one, McpServer):
                        servers.append(Upstream(one))
                        entries += self._of_server(servers[-1], await servers[-1].start())
                    else:
                        entries.append(self._of_function(one))
                self._check(entries, servers)
            except BaseException:
                await _end_all(servers)
                raise
            finally:
                self._starting = []
            await self._put(entries, servers)
        await self._announce()
        return tuple(entry.grant for entry in entries)

    async def remove(self, name: str) -> None:
        """Revoke a tool, or all tools of a server; their calls end."""
        async with self._changing:
            gone = [key for key, entry in self._entries.items() if name in (key, entry.grant.server)]
            if not gone and name not in self._servers:
                known = ", ".join(sorted(self._entries)) or "nothing"
                raise NotFoundError(f"No tool '{name}' is granted.", hint=f"Granted: {known}.")
            self._revoke(gone)
            await _end_all(self._unused())
        await self._announce()

    async def listed(self) -> list[ListedTool]:
        """What clients see, in the words that were granted. Servers are not asked one after the other."""
        await asyncio.gather(*(upstream.current() for upstream in self._servers.values()))
        found = [await self.find(name) for name in sorted(self._entries)]
        return [entry.offer.listed for entry in found if entry is not None]

    async def find(self, name: str) -> Entry | None:
        """The entry of a tool that may be called now."""
        entry = self._entries.get(name)
        if entry is None or not isinstance(entry.offer, UpstreamOffer):
            return entry
        same = await entry.offer.is_the_same()
        if not same and not entry.changed:
            entry.changed = True
            self._report("changed", name, "NOT_AUTHORIZED")
            await self._announce()
        return None if entry.changed or entry.revoked else entry

    async def close(self) -> None:
        """Nothing is granted any more, and nothing will be; servers that are only about to be there are not waited for."""
        self._closed = True
        for upstream in self._starting:
            upstream.stop()
        await self.clear()

    async def clear(self) -> None:
        """Nothing is granted any more."""
        async with self._changing:
            for entry in self._entries.values():
                entry.end()
            self._entries.clear()
            await _end_all(self._unused())

    def _of_function(self, tool: Tool) -> Entry:
        offer = FunctionOffer(tool, self._threads)
        return Entry(_grant(offer.listed, tool, None), offer)

    def _of_server(self, upstream: Upstream, tools: list[ListedTool]) -> list[Entry]:
        """A tool whose name no client could use is left out, and that is an event."""
        entries, server = [], upstream.server
        _check_named(server, {tool.name for tool in tools})
        for tool in tools:
            if not server.takes(tool.name):
                continue
            offer = UpstreamOffer(upstream, tool)
            if is_name(offer.listed.name):
                entries.append(Entry(_grant(offer.listed, server, server.called), offer))
            else:
                self._report("grant", offer.listed.name[:200], "INVALID_CONFIG")
        return entries

    def _check(self, entries: list[Entry], servers: list[Upstream]) -> None:
        names = [upstream.server.called for upstream in servers]
        for name in names:
            if names.count(name) > 1:
                raise ExistsError(f"Two servers are called '{name}'.", hint="Give name=.")
        seen: set[str] = set()
        for grant in (entry.grant for entry in entries):
            old = self._entries.get(grant.name)
            if grant.name in seen or (old is not None and old.grant.server != grant.server):
                raise ExistsError(
                    f"Another tool is called '{grant.name}'.", hint="Give name= or rename=, or revoke the other one."
                )
            seen.add(grant.name)

    async def _put(self, entries: list[Entry], servers: list[Upstream]) -> None:
        """First all that is new, without a pause; then what was there before is ended."""
        anew = {upstream.server.called for upstream in servers}
        gone = [name for name, entry in self._entries.items() if entry.grant.server in anew]
        ended = [self._servers.pop(name) for name in anew if name in self._servers]
        self._revoke(gone)
        for upstream in servers:
            self._servers[upstream.server.called] = upstream
        for entry in entries:
            old = self._entries.get(entry.grant.name)
            if old is not None:
                old.end()
            self._entries[entry.grant.name] = entry
            self._report("grant", entry.grant.name, "ok")
        await _end_all([*ended, *self._unused()])

    def _revoke(self, names: list[str]) -> None:
        for name in names:
            self._entries.pop(name).end()
            self._report("revoke", name, "ok")

    def _unused(self) -> list[Upstream]:
        """The servers of which nothing is granted. They are ours no longer."""
        used = {entry.grant.server for entry in self._entries.values()}
        return [self._servers.pop(name) for name in list(self._servers) if name not in used]


def _check_named(server: McpServer, known: set[str]) -> None:
    """What its terms speak of are tools that it has: a mistyped name would leave out nothing, or everything."""
    missing = {*(server.only or ()), *server.exclude, *server.rename} - known
    if missing:
        raise ConfigError(
            f"The MCP server '{server.called}' has no tool {', '.join(map(repr, sorted(missing)))}.",
            hint=f"It has {', '.join(visible(name) for name in sorted(known)[:_MOST_NAMED]) or 'none'}.",
        )


def _grant(listed: ListedTool, terms: Tool | McpServer, server: str | None) -> Grant:
    schema: dict[str, Any] = listed.input_schema
    return Grant(
        name=listed.name,
        description=listed.description or "",
        schema=schema,
        digest=digest(listed),
        consent=terms.consent,
        timeout=terms.timeout,
        max_output=terms.max_output,
        server=server,
    )


async def _end_all(servers: list[Upstream]) -> None:
    for upstream in servers:  # at once, since whoever waits may be cancelled
        upstream.stop()
    await asyncio.gather(*(upstream.close() for upstream in servers))
