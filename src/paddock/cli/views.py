"""How an agent at work is shown where nobody looks on: as text, or as a line of JSON for each event."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from paddock.cli import stdout
from paddock.cli.streams import outputs
from paddock.cli.telling import Calls, Written, duration, inert, portions, short, spent
from paddock.progress import reporting
from paddock.runners import Done, Event, Failed, Log, Progress, Text, ToolCall, ToolResult

_REMARK = 200


class View(Protocol):
    """Shows what an agent does."""

    async def show(self, event: Event) -> None:
        """Something happened."""
        ...

    async def ended(self, review: dict[str, object] | None) -> None:
        """What it changed is kept for later; for programs, which are not asked."""
        ...

    def interrupting(self) -> None:
        """Somebody wants it to end."""
        ...

    def close(self) -> None:
        """Show no more; idempotent."""
        ...


@contextmanager
def fitting(title: str, *, as_json: bool = False, quiet: bool = False) -> Iterator[View]:
    """The view that fits where it is shown; what takes long before the agent runs is shown there too."""
    screen = stdout.own()
    if as_json:
        yield AsJson()
        return
    if screen is None or not screen.isatty():
        yield AsText(quiet=quiet)
        return
    from paddock.cli.liveview import OnTerminal

    view = OnTerminal(title, quiet=quiet)
    with reporting(view.progress):
        yield view


class AsJson:
    """An object a line; everything but ASCII is escaped."""

    def __init__(self) -> None:
        self._out = outputs()["stdout"]

    async def show(self, event: Event) -> None:
        """As it is."""
        await self._line(event.to_dict())

    async def ended(self, review: dict[str, object] | None) -> None:
        """One line more."""
        if review is not None:
            await self._line({"kind": "review", **review})

    def interrupting(self) -> None:
        """Its last event says so."""

    def close(self) -> None:
        """Nothing is open."""

    async def _line(self, data: dict[str, Any]) -> None:
        await self._out.write(f"{json.dumps(data)}\n".encode())


class AsText:
    """What it says on standard output, and nothing else there; what it does on standard error."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._streams = outputs()
        self._quiet = quiet
        self._written = Written()
        self._said = False
        self._calls = Calls()

    async def show(self, event: Event) -> None:
        """A line, if there is one to tell."""
        match event:
            case Text(text=text, parent=None):
                for portion in portions(text):
                    await self._say(self._written.feed(portion), self._written.overflow())
                self._said = True
            case Progress(text=text):
                await self._remark(f"{short(text)} …")
            case ToolCall():
                await self._say(self._written.cut())
                await self._remark(f"tool    {self._calls.began(event)}")
            case ToolResult():
                await self._remark(f"{'failed' if event.failed else 'ok':<6}  {self._calls.ended(event)}")
            case Log(text=text):
                await self._remark(f"log     {short(text, _REMARK)}")
            case Done() | Failed():
                await self._end(event)

    async def ended(self, review: dict[str, object] | None) -> None:
        """A person is told by other means."""

    def interrupting(self) -> None:
        """The end says it."""

    def close(self) -> None:
        """Nothing is open."""

    async def _end(self, event: Done | Failed) -> None:
        await self._say(self._written.cut())
        if isinstance(event, Done) and not self._said and event.text:
            await self._say([event.text])
        for line in (*self._calls.cut(), ending(event)):
            await self._remark(line)

    async def _say(self, lines: list[str], begun: str = "") -> None:
        await self._streams["stdout"].write("".join([*(f"{inert(line)}\n" for line in lines), inert(begun)]).encode())

    async def _remark(self, words: str) -> None:
        if not self._quiet:
            with suppress(BrokenPipeError):
                await self._streams["stderr"].write(f"{words}\n".encode())


def ending(event: Done | Failed) -> str:
    """How long it took, and what it cost."""
    turns = f", {event.turns} turns" if isinstance(event, Done) and event.turns and event.turns > 1 else ""
    used = f"; {spent(event.usage)}" if event.usage else ""
    return f"{'done' if isinstance(event, Done) else 'ended'} after {duration(event.seconds)}{turns}{used}"
