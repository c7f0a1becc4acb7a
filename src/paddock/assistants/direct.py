"""A model without an agent: asked from the host, through the gateway, with tools that the host runs."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from paddock.assistants.attachments import Said, Upload, safe_name
from paddock.assistants.telling import stoppable
from paddock.errors import AgentError, ConfigError
from paddock.gateway.direct import Direct
from paddock.gateway.translate import Ask, TextDelta, ThinkingDelta
from paddock.gateway.translate import Failed as ProviderFailed
from paddock.gateway.translate.deltas import Answer, answer_of
from paddock.gateway.translate.model import Document, Image, Part, Text, Tool, Turn
from paddock.gateway.translate.model import ToolCall as Called
from paddock.gateway.translate.model import ToolResult as Resulted
from paddock.runners import Done, Event, Failed, Options, Started, Thinking, ToolCall, ToolResult, Usage, failures
from paddock.runners.prose import Prose

if TYPE_CHECKING:
    from paddock.bridge.host import HostTools

AGENT = "direct"
TRIES = 3
"""How often in a row tools may fail before the model is asked no more."""
_TURNS = 50
_SHOWN = 64 << 10


class DirectRun:
    """One conversation with a model."""

    def __init__(self, models: Direct, tools: "HostTools | None", options: Options, stop: asyncio.Event) -> None:
        self._models = models
        self._tools = tools
        self._options = options
        self._model = _model(models, options)
        self._stop = stop
        self._prose = Prose()
        self._used = Usage()

    async def events(self, system: str, said: Sequence[Said]) -> AsyncGenerator[Event, None]:
        """What it says and does. The last is `Done` or `Failed`."""
        yield Started(AGENT, model=self._model)
        systems = [message.message().text for message in said if message.role == "system"]
        ask = Ask(
            self._model,
            tuple(_turn(message) for message in said if message.role != "system"),
            tuple(text for text in (system, *systems) if text),
            tuple(
                Tool(grant.name, grant.description, grant.schema)
                for grant in (self._tools.grants if self._tools else ())
            ),
            stream=True,
        )
        try:
            async with aclosing(stoppable(self._turns(ask), self._stop, self._options.timeout)) as events:
                async for event in events:
                    yield event
        except TimeoutError:
            yield Failed(failures.timeout(AGENT, self._options.timeout), usage=self._used)

    async def _turns(self, ask: Ask) -> AsyncGenerator[Event, None]:
        failed = 0
        for number in range(1, (self._options.max_turns or _TURNS) + 1):
            parts: list[Any] = []
            async with aclosing(self._answer(ask, parts)) as events:
                async for event in events:
                    yield event
            answer = answer_of(parts)
            if answer.failed is not None:
                yield Failed(failures.api(AGENT, answer.failed.status, answer.failed.message), usage=self._used)
                return
            calls = [part for part in answer.parts if isinstance(part, Called)]
            if not calls:
                yield Done(self._prose.reply, None, answer.model or self._model, self._used, number)
                return
            results: list[Resulted] = []
            async with aclosing(self._use(calls, results)) as events:
                async for event in events:
                    yield event
            failed = failed + 1 if any(result.is_error for result in results) else 0
            if failed >= TRIES:
                yield Failed(_gave_up(results), usage=self._used)
                return
            turns = (Turn("assistant", answer.parts), Turn("user", tuple(results)))
            ask = replace(ask, turns=(*ask.turns, *turns))
        yield Failed(failures.turns(AGENT, f"{self._options.max_turns or _TURNS} turns"), usage=self._used)

    async def _answer(self, ask: Ask, parts: list[Any]) -> AsyncGenerator[Event, None]:
        block = str(len(ask.turns))
        async with aclosing(self._models.ask(ask)) as deltas:
            async for delta in deltas:
                parts.append(delta)
                if isinstance(delta, TextDelta):
                    for piece in self._prose.add(block, delta.text):
                        yield piece
                elif isinstance(delta, ThinkingDelta):
                    yield Thinking(delta.text)
                elif isinstance(delta, ProviderFailed):
                    return
        used = _usage(answer_of(parts))
        self._used += used
        if used:
            yield used

    async def _use(self, calls: list[Called], results: list[Resulted]) -> AsyncGenerator[Event, None]:
        self._prose.pause()
        for call in calls:
            given = _arguments(call)
            yield ToolCall(call.id, call.name, given or {})
            output, failed = await self._called(call.name, given)
            results.append(Resulted(call.id, (Text(output),), failed))
            yield ToolResult(call.id, output, failed)

    async def _called(self, name: str, given: dict[str, Any] | None) -> tuple[str, bool]:
        if given is None:
            return "The arguments are no JSON object.", True
        if self._tools is None:
            return "There are no tools.", True
        return await self._tools.call(name, given)


def _model(models: Direct, options: Options) -> str:
    name = options.model or models.connector.model
    if name is None:
        raise ConfigError(
            f"The connector '{models.connector.name}' names no model, and neither does the assistant.",
            hint="Add `model: NAME` to its assistant.yml, or model= to the connector.",
        )
    return name


def _turn(message: Said) -> Turn:
    return Turn(message.role, tuple(_part(piece) for piece in message.pieces if piece != "") or (Text(" "),))


def _part(piece: str | Upload) -> Part:
    """Pictures and PDF files as such, texts as they are; of others the model only hears that they are there."""
    if isinstance(piece, str):
        return Text(piece)
    kind = piece.media_type
    if kind in ("image/png", "image/jpeg", "image/gif", "image/webp"):
        return Image(kind, base64.b64encode(piece.data).decode())
    if kind == "application/pdf":
        return Document(kind, base64.b64encode(piece.data).decode(), name=safe_name(piece))
    if kind.startswith("text/") or kind in ("application/json", "application/yaml"):
        return Text(f"{piece.told()}\n{piece.data[:_SHOWN].decode(errors='replace')}")
    return Text(piece.told())


def _usage(answer: Answer) -> Usage:
    used = answer.usage
    return Usage(used.fresh, used.output, used.cache_read, used.cache_write)


def _arguments(call: Called) -> dict[str, Any] | None:
    try:
        found = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _gave_up(results: list[Resulted]) -> AgentError:
    words = next(
        (part.text for result in results if result.is_error for part in result.parts if isinstance(part, Text)), ""
    )
    return AgentError(
        f"Tools failed {TRIES} times in a row: {failures.shown(words)}.",
        hint="Look at the tools of the assistant.",
        agent=AGENT,
        kind="tools",
    )
