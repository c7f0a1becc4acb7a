"""An agent at work on a terminal: what it says as it comes, what it does, how long, and for how much."""

import asyncio
import sys
import time
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text as Words

from paddock.cli import stdout
from paddock.cli.telling import Calls, Written, duration, inert, portions, short, spent
from paddock.cli.views import ending
from paddock.runners import Done, Event, Failed, Log, Progress, Started, Text, Thinking, ToolCall, ToolResult, Usage

_OFTEN = 0.1
_MOST_CALLS = 5
_REMARK = 200
_TAB = 4
_CROWDED = 8
"""Characters in a column of a row that still grows: without number there may be some that take no room."""


class OnTerminal:
    """Lines that stay, and below them what changes: a line that is being written, tools that run, the state."""

    def __init__(self, title: str, *, quiet: bool = False) -> None:
        self._console = Console(file=stdout.own(), highlight=False, soft_wrap=True)
        self._quiet = quiet
        self._state = f"a sandbox for {title}"
        self._began = time.monotonic()
        self._written = Written()
        self._calls = Calls()
        self._used = Usage()
        self._said = self._after_tools = False
        self._spinner = Spinner("dots" if self._console.encoding.startswith("utf") else "line")
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=sys.stderr is not None and sys.stderr.isatty(),
            get_renderable=self._frame,
        )
        self._live.start()
        self._ticking = asyncio.ensure_future(self._tick())

    def progress(self, words: str, detail: bool) -> None:
        """What takes long before the agent runs."""
        self._state = short(words)
        if not detail:
            self._live.refresh()

    async def show(self, event: Event) -> None:
        """Something happened."""
        match event:
            case Text(text=text, parent=None):
                for portion in portions(text):
                    self._say(portion)
                    await asyncio.sleep(0)  # or nobody hears Ctrl-C
            case ToolCall() | ToolResult():
                self._tool(event)
            case Usage():
                self._used += event
            case Log(text=text) if not self._quiet:
                self._print([f"log     {short(text, _REMARK)}"], "dim")
            case Done() | Failed():
                self._end(event)
            case _:
                self._state = _state(event) or self._state

    async def ended(self, review: dict[str, object] | None) -> None:
        """A person is asked."""

    def interrupting(self) -> None:
        """Somebody wants it to end."""
        self._state = "interrupting; Ctrl-C again ends it at once"
        self._live.refresh()

    def close(self) -> None:
        """Take away what changes; what was being written stays."""
        if self._live.is_started:
            self._ticking.cancel()
            self._print(self._written.cut())
            self._live.stop()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_OFTEN)
            self._live.refresh()

    def _say(self, text: str) -> None:
        self._state, self._said = "writing", True
        if self._after_tools:
            self._after_tools = False
            self._print([""])
            text = text.lstrip("\n")
        lines = self._written.feed(text)
        *rows, self._written.rest = self._rows(self._written.rest)
        self._print([*lines, *rows])

    def _tool(self, event: ToolCall | ToolResult) -> None:
        self._print(self._written.cut())
        self._state, self._after_tools = "working", True
        if isinstance(event, ToolCall):
            self._calls.began(event)
        else:
            style = "red" if event.failed else "green"
            self._print([f"{'failed' if event.failed else 'ok':<6}  {self._calls.ended(event)}"], style)

    def _end(self, event: Done | Failed) -> None:
        self._print(self._written.cut())
        if isinstance(event, Done) and not self._said:
            self._print([event.text])
        self._print(list(self._calls.cut()), "yellow")
        self.close()
        if not self._quiet:
            self._print([ending(event)], "dim")

    def _rows(self, line: str) -> list[str]:
        """A line that is being written, as rows of the terminal; the last may still grow."""
        width = max(self._console.width - 1, 1)
        if len(line) < width // 2:  # as wide as it could be, it fits
            return [line]
        said = line.rstrip()
        *rows, last = [row.plain for row in Words(said).wrap(self._console, width)] or [""]
        last += line[len(said) :][:width]  # a row loses its blanks, which are before the next word
        return [*rows, last] if len(last) < _CROWDED * width else [*rows, last, ""]

    def _print(self, lines: list[str], style: str = "") -> None:
        if lines:
            self._console.print(Words("\n".join(_flat(line) for line in lines), style))

    def _frame(self) -> RenderableType:
        return Group(*self._parts())

    def _parts(self) -> Iterator[RenderableType]:
        if self._written.rest:
            yield _one_row(self._written.rest)
        for words in list(self._calls.now())[-_MOST_CALLS:]:
            yield _one_row(f"  {words}")
        told = [self._state, duration(time.monotonic() - self._began)]
        told += [spent(self._used)] if self._used else []
        self._spinner.update(text=_one_row(" · ".join(told), "dim"))
        yield self._spinner


def _state(event: Event) -> str | None:
    match event:
        case Progress(text=text):
            return short(text)
        case Started(model=model):
            return f"waiting for {short(model)}" if model else "waiting for the agent"
        case Thinking():
            return "thinking"
    return None


def _flat(line: str) -> str:
    return inert(line).expandtabs(_TAB)


def _one_row(text: str, style: str = "") -> Words:
    return Words(_flat(text), style, no_wrap=True, overflow="ellipsis")
