"""One run of an agent's program: started, read, waited for no longer than one may, and ended."""

import asyncio
import json
import math
import signal
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from paddock.errors import SandboxError, visible
from paddock.finishing import to_the_end
from paddock.http.scrubbing import Scrubber
from paddock.jsonlines import has_too_many_values
from paddock.runners import failures
from paddock.runners.agent import Agent, Launch, Reader, Talker, Tell
from paddock.runners.events import Done, Event, Failed, Log, Started, ToolCall, ToolResult, Usage
from paddock.runners.lines import Lines
from paddock.runners.names import Names, TooManyError
from paddock.runners.options import Options
from paddock.runners.pump import Instead, Pump, within
from paddock.sandbox import Process, Sandbox
from paddock.types import Chunk

if TYPE_CHECKING:
    from paddock.gateway import Attachment

_LAST_WORDS = 64 << 10
_SHOWN = 2000
_DEEPEST = 100
"""Of what is in one another in a line of JSON."""
_TO_STOP = 0.5
"""Seconds in which it may put its things away when it is interrupted; then all that it started is ended."""
_SPARE = 0.25
"""Seconds more for whoever stops it to see to that."""
_TO_END = 2.0
"""Seconds in which it may end by itself after its result."""
_TO_LEAVE = 1.0
"""The same for one that was talked with: many do not mind the end of their input."""
_MOMENT = 1.0
"""Seconds that whoever listens may take for a remark, before it is the listener who is waited for."""
_MOST_OPEN = 10_000
"""Tools at work at once."""


class Running:
    """What an agent's program does, as events."""

    def __init__(
        self,
        agent: Agent,
        reader: Reader,
        options: Options,
        stop: asyncio.Event,
        until: float,
        models: "Attachment | None" = None,
        keys: tuple[str, ...] = (),
    ) -> None:
        """Until then, by the monotonic clock, it has to have ended. Nobody is told the keys that it was given."""
        self._agent = agent.name
        self._reader = reader
        self._talker = reader if isinstance(reader, Talker) else None
        self._options = options
        self._stop = stop
        self._began = time.monotonic()
        self._until = until
        self._patience = Patience(options.patience, models)
        self._scrubber = Scrubber(keys)
        self._lines = {"stdout": Lines(), "stderr": Lines(_LAST_WORDS)}
        self._stderr = ""
        self._understood = False
        self._session: str | None = None
        self._used = Usage()
        self._end: Done | Failed | None = None

    async def events(self, sandbox: Sandbox, launch: Launch) -> AsyncGenerator[Event, None]:
        """What it does. The last is `Done` or `Failed`."""
        process = await sandbox.start(launch.argv, env=launch.env, stdin=True, max_output=_LAST_WORDS)
        try:
            async with process, Pump(process, self._stop) as pump, self._ended_in_time(process):
                async with aclosing(self._until_its_end(process, pump, launch.stdin)) as events:
                    async for event in events:
                        yield event
                await to_the_end(self._put_away(sandbox, process, pump))
        except SandboxError:
            if self._end is None:  # else it has given its result before
                raise
        if self._end is not None:
            yield replace(self._end, seconds=time.monotonic() - self._began)

    @asynccontextmanager
    async def _ended_in_time(self, process: Process) -> AsyncIterator[None]:
        """Also while whoever listens is busy with an event, which may be for as long as a pager shows a page."""
        ending = asyncio.ensure_future(self._end_in_time(process))
        try:
            yield
        finally:
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)

    async def _end_in_time(self, process: Process) -> None:
        await within(asyncio.Event().wait(), self._until - time.monotonic(), self._stop)
        await asyncio.sleep(_TO_STOP + _SPARE)  # whoever listens well is quicker, and ends it more gently
        if self._end is None:
            with suppress(SandboxError):
                await process.kill()

    async def _until_its_end(self, process: Process, pump: Pump, stdin: bytes) -> AsyncGenerator[Event, None]:
        self._begin(pump, stdin)
        while self._end is None:
            came = await self._waited(pump)
            for event in self._told(came):
                if isinstance(event, Tell):
                    self._end = self._tell(pump, event)
                elif isinstance(event, (Done, Failed)):
                    self._end = event
                else:
                    told = time.monotonic()
                    yield event
                    self._patience.excuse(event, time.monotonic() - told)
                if self._end is not None:
                    break
            if self._end is None and isinstance(came, Instead):
                self._end = await self._cut_short(came, process, pump)

    def _begin(self, pump: Pump, stdin: bytes) -> None:
        pump.say(stdin)
        if self._talker is None:
            pump.hang_up()

    def _tell(self, pump: Pump, tell: Tell) -> Failed | None:
        if pump.say(json.dumps(tell.line).encode() + b"\n"):
            return None
        return self._failed("it asks, and does not read the answers")

    def _failed(self, words: str) -> Failed:
        return Failed(failures.failed(self._agent, words), self._session, self._used)

    async def _waited(self, pump: Pump) -> Chunk | Instead:
        while True:
            came = await pump.next(min(self._until - time.monotonic(), self._patience.left))
            if came is not Instead.LATE or time.monotonic() >= self._until or self._patience.left <= 0:
                return came  # else the gateway has heard of the model meanwhile

    async def _cut_short(self, reason: Instead, process: Process, pump: Pump) -> Done | Failed:
        """It ended without a result, or has to."""
        if reason is Instead.END:
            end = self._exited((await process.wait()).exit_code)
            if isinstance(end, Failed) and end.error.kind == "exited":  # its tools would work on, for nobody
                await to_the_end(process.kill())
            return end
        if reason is Instead.STOPPED:
            await self._interrupt(process, pump)
            error = failures.interrupted(self._agent)
        elif self._patience.left <= 0:
            error = failures.stalled(self._agent, self._options.patience, self._stderr)
        else:
            error = failures.timeout(self._agent, self._options.timeout)
        await to_the_end(process.kill())
        return Failed(error, self._session, self._used)

    async def _interrupt(self, process: Process, pump: Pump) -> None:
        """What it still says goes into its own notes, and to nobody else."""
        if self._talker is None:
            await process.signal(signal.SIGINT)
        else:
            for tell in self._talker.cancel():
                self._tell(pump, tell)
        until = time.monotonic() + _TO_STOP
        while (left := until - time.monotonic()) > 0:
            if isinstance(await pump.next(left, stoppable=False), Instead):
                return

    def _exited(self, exit_code: int) -> Done | Failed:
        if exit_code in (126, 127) and not self._understood:
            return Failed(failures.not_startable(self._agent, self._stderr))
        return self._reader.finish(exit_code, self._stderr)

    def _told(self, came: Chunk | Instead) -> Iterator[Event | Tell]:
        """What it printed says; at its end also a line that has none."""
        if isinstance(came, Chunk):
            yield from self._read(came.stream, came.data)
        elif came is Instead.END:
            for stream in self._lines:
                yield from self._read(stream, None)

    def _read(self, stream: str, data: bytes | None) -> Iterator[Event | Tell]:
        lines = self._lines[stream]
        before = lines.skipped
        for line in map(self._scrubber.whole, lines.rest() if data is None else lines.feed(data)):
            yield from self._parsed(line) if stream == "stdout" else self._remark(line)
        if lines.skipped > before:
            yield Log("A line was too long, and was left out.", "paddock")

    def _remark(self, line: bytes) -> Iterator[Event]:
        text = line.decode("utf-8", "replace")
        self._stderr = f"{self._stderr}{text}\n"[-_LAST_WORDS:]
        yield Log(visible(text[:_SHOWN]), "stderr")

    def _parsed(self, line: bytes) -> Iterator[Event | Tell]:
        if has_too_many_values(line):
            yield Log("A line had too many values, and was left out.", "paddock")
            return
        data = _json(line)
        if data is None:
            yield Log(visible(line[:_SHOWN].decode("utf-8", "replace")), "stdout")
            return
        self._understood = True
        try:
            for event in self._reader.feed(data):
                if not isinstance(event, Tell):
                    self._note(event)
                yield event
        except TooManyError:
            yield self._failed("it has told of more than can be kept in mind")

    def _note(self, event: Event) -> None:
        self._patience.saw(event)
        if isinstance(event, Started):
            self._session = event.session
        elif isinstance(event, Usage):
            self._used += event

    async def _put_away(self, sandbox: Sandbox, process: Process, pump: Pump) -> None:
        """End the program that has given its result; what it left running, such as a server, lives on."""
        if self._talker is not None:
            pump.hang_up()
        stop = self._stop
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if process.exit_code is not None:
                return
            if number is signal.SIGKILL:
                stop = asyncio.Event()  # whoever is in a hurry waits for nothing but this
            if number is not None:
                await self._signal(sandbox, process, number)
            came = await within(process.wait(), _TO_END if self._talker is None else _TO_LEAVE, stop)
            if not isinstance(came, Instead):
                return

    async def _signal(self, sandbox: Sandbox, process: Process, number: signal.Signals) -> None:
        """One that is talked with may be the child of the program that was started. What tools start has other groups."""
        if self._talker is not None:
            with suppress(SandboxError):
                await sandbox.exec(["sh", "-c", f"kill -s {number.name[3:]} -- -{process.pid}"], timeout=_TO_LEAVE)
        await process.signal(number)


class Patience:
    """How long nothing comes from the model, be it told by the program or, as some tell only what is whole, on its way
    there. Its tools take the time they take; remarks are nothing, however many."""

    def __init__(self, seconds: float, models: "Attachment | None" = None) -> None:
        self._seconds = seconds
        self._models = models
        self._last = time.monotonic()
        self._open = Names(_MOST_OPEN)
        self._parents = Names()

    @property
    def left(self) -> float:
        """Seconds until it has run out."""
        heard = -math.inf if self._models is None else self._models.last_heard
        return math.inf if self._open else max(self._last, heard) + self._seconds - time.monotonic()

    def saw(self, event: Event) -> None:
        """Something came."""
        if isinstance(event, Log):
            return
        self._last = time.monotonic()
        parent = getattr(event, "parent", None)
        if parent is not None:  # its call is no tool that works, but another who asks the model
            self._parents.add(parent)
            self._open.discard(parent)
        if isinstance(event, ToolCall) and event.id not in self._parents:
            self._open.add(event.id)
        elif isinstance(event, ToolResult):
            self._open.discard(event.id)

    def excuse(self, event: Event, seconds: float) -> None:
        """So long somebody took to listen. There may be any number of remarks, each for a moment: that is silence too."""
        self._last += max(0.0, seconds - _MOMENT) if isinstance(event, Log) else seconds


def _json(line: bytes) -> dict[str, Any] | None:
    try:
        data = json.loads(line, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) and not _is_deep(line, data) else None


def _finite(number: str) -> float | None:
    """A number that JSON has; what is none, or is larger than any, is nothing."""
    found = float(number)
    return found if math.isfinite(found) else None


def _is_deep(line: bytes, data: object) -> bool:
    """Whether it could not be walked through, or written again, by what comes to that in steps of its own."""
    if line.count(b"[") + line.count(b"{") <= _DEEPEST:
        return False
    level: list[object] = [data]
    for _ in range(_DEEPEST):
        inner = (one.values() if isinstance(one, dict) else one for one in level if isinstance(one, (dict, list)))
        level = [value for values in inner for value in values]
    return bool(level)
