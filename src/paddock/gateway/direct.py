"""Models for the host program itself: what a sandbox would ask, asked without one, and counted in the same way."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any

from paddock.audit import EventBus, default_log
from paddock.errors import ConfigError
from paddock.finishing import to_the_end
from paddock.gateway.asking import Asking
from paddock.gateway.connectors import Connector
from paddock.gateway.errors import RequestFailed
from paddock.gateway.fronts import Front
from paddock.gateway.seats import Seat
from paddock.gateway.translate import (
    AnswerReader,
    Ask,
    BadRequest,
    Delta,
    Target,
    Translated,
    dump_json,
    failure,
    write_request,
)

_HEADERS = {"anthropic-version": "2023-06-01"}
_MOST_WAITING = 64


class Direct:
    """One who asks."""

    def __init__(self, seat: Seat) -> None:
        wire = seat.connector.kind.wires[0]
        if wire == "gemini":
            raise ConfigError(
                f"The connector '{seat.connector.name}' speaks Gemini, which is only passed on from sandboxes.",
                hint="Use Google's endpoint that speaks as OpenAI does, with wire='chat'.",
            )
        self._seat = seat
        self._wire: Translated = wire

    @property
    def connector(self) -> Connector:
        """What is asked."""
        return self._seat.connector

    async def ask(self, ask: Ask) -> AsyncGenerator[Delta, None]:
        """The answer as it comes. A provider that fails is a `Failed`, which is the last."""
        target = Target(
            ask.model,
            reasoning=self.connector.reasoning,
            openai=self.connector.kind.name == "openai",
            options=self.connector.options,
        )
        try:
            body = dump_json(write_request(self._wire, ask, target).body)
        except BadRequest as error:
            yield failure(400, str(error))
            return
        waiting = _Waiting()
        asking = asyncio.ensure_future(self._asked(waiting, body))
        try:
            reader = AnswerReader(self._wire)
            while (data := await waiting.chunks.get()) is not None:
                for delta in reader.feed(data):
                    yield delta
            failed = await asking
            for delta in [failure(failed.status, failed.message)] if failed else reader.end():
                yield delta
        finally:
            asking.cancel()
            await to_the_end(_settled(asking))

    async def _asked(self, waiting: "_Waiting", body: bytes) -> RequestFailed | None:
        failed = None
        try:
            await Asking(self._seat, waiting, Front(self._wire)).run(body)
        except RequestFailed as error:
            failed = error
        except ConnectionError as error:
            failed = RequestFailed(502, str(error), outcome="UPSTREAM")
        await waiting.chunks.put(None)
        return failed


class _Waiting:
    """Who waits for the answer: it comes in pieces, and no faster than they are taken."""

    def __init__(self) -> None:
        self.chunks: asyncio.Queue[bytes | None] = asyncio.Queue(_MOST_WAITING)

    def header(self, name: str) -> str | None:
        return _HEADERS.get(name)

    async def start(self, status: int, headers: Iterable[tuple[str, str]] = ()) -> None:
        pass

    async def send(self, data: bytes) -> None:
        await self.chunks.put(data)

    async def finish(self) -> None:
        pass

    async def answer_json(self, status: int, value: Mapping[str, Any]) -> None:
        pass


async def _settled(task: "asyncio.Future[Any]") -> None:
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()


def report(operation: str, model: str | None, outcome: str, seconds: float, size: int, tokens: int) -> None:
    """What the audit log is told: there is no sandbox to tell it."""
    bus = EventBus("direct", default_log())
    bus.emit("model", operation, model, outcome, seconds, size=size, count=tokens)
