"""A turn becomes an answer: the parts as steps, and the steps as a response, whole or streamed."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from paddock.gateway.translate import (
    Ask,
    Began,
    Delta,
    Ended,
    PartEnded,
    TextDelta,
    ThinkingDelta,
    ThinkingSealed,
    ToolArguments,
    ToolBegan,
    Usage,
    Used,
    Wire,
    error_body,
    failure,
)
from paddock.gateway.translate.model import Seal
from paddock.testing.models import wires
from paddock.testing.models.choosing import Call
from paddock.testing.models.turns import Cut, Fail, Part, Say, Shell, Think, Tokens, Use, Wait

if TYPE_CHECKING:
    from paddock.http.server import Exchange

Step = Delta | Wait | Cut | Fail
_MESSAGES = {
    400: "The request is not as it should be.",
    401: "The API key is not valid.",
    404: "There is no such model.",
    429: "Too many requests. Ask again later.",
    529: "Overloaded.",
}


class Answering(NamedTuple):
    """Who is answered, and where."""

    exchange: "Exchange"
    wire: Wire
    ask: Ask
    id: str


Called = dict[int, Call]
"""The calls of a turn, by where its parts are."""


def steps_of(parts: Iterable[Part], calls: Called, answering: Answering) -> Iterator[Step]:
    """What is done one after another. A part is not over while it may still be cut in the middle."""
    parts = list(parts)
    usage = next((_usage(part) for part in reversed(parts) if isinstance(part, Tokens)), _usage(Tokens()))
    began = Began(answering.id, answering.ask.model, Usage(usage.input, 1, usage.cache_read, usage.cache_write))
    open = False
    for at, part in enumerate(parts):
        if isinstance(part, Tokens):
            continue
        if isinstance(part, Wait | Cut | Fail):
            yield part
            continue
        yield PartEnded() if open else began
        open = True
        yield from _inside(part, calls.get(at), f"{answering.id}_{at}")
    yield PartEnded() if open else began
    yield Used(usage)
    yield Ended("tool" if calls else "end")


def _usage(tokens: Tokens) -> Usage:
    return Usage(tokens.input, tokens.output, tokens.cache_read, tokens.cache_write, tokens.reasoning)


def _inside(part: Say | Think | Shell | Use, call: Call | None, id: str) -> Iterator[Step]:
    match part:
        case Say(text, pieces, pause):
            for at, piece in enumerate(_pieces(text, pieces)):
                if at and pause:
                    yield Wait(pause)
                yield TextDelta(piece)
        case Think(text):
            yield ThinkingDelta(text)
            yield ThinkingSealed(Seal("", id, "c2NyaXB0ZWQ="))
        case Shell() | Use():
            assert call is not None
            yield ToolBegan(id, call.name, call.namespace)
            for piece in _pieces(call.arguments, 2):
                yield ToolArguments(piece)


def _pieces(text: str, count: int) -> list[str]:
    """`text` in so many pieces, or fewer if it is too short."""
    size = max(1, -(-len(text) // count))
    return [text[at : at + size] for at in range(0, len(text), size)] or [""]


class Broken(ConnectionError):  # noqa: N818 - no error: it was scripted
    """The connection is to be cut off."""


async def answer(answering: Answering, path: str, steps: Iterable[Step]) -> None:
    """Answer as it was asked for."""
    if wires.is_events(answering.wire, path, answering.ask):
        await _stream(answering, steps)
    else:
        await _whole(answering, list(steps))


async def _stream(answering: Answering, steps: Iterable[Step]) -> None:
    exchange, wire, ask, id = answering
    writer = wires.writer(wire, ask)
    for step in steps:
        match step:
            case Wait(seconds):
                await asyncio.sleep(seconds)
            case Cut():
                raise Broken
            case Fail() if exchange.status is None:
                await fail(answering, step)
                return
            case Fail():
                await exchange.send(writer.write([failure(step.status, message_of(step))]))
                break
            case _:
                if exchange.status is None:
                    await exchange.start(200, [("content-type", "text/event-stream"), ("request-id", f"req_{id}")])
                await exchange.send(writer.write([step]))
    await exchange.finish()


async def _whole(answering: Answering, steps: list[Step]) -> None:
    """All at once, after all the waiting. A cut in the middle of it leaves half of the bytes."""
    exchange, wire, ask, id = answering
    deltas: list[Delta] = []
    for step in steps:
        match step:
            case Wait(seconds):
                await asyncio.sleep(seconds)
            case Cut():
                break
            case Fail():
                await fail(answering, step)
                return
            case _:
                deltas.append(step)
    if not deltas:
        raise Broken
    cut = not isinstance(deltas[-1], Ended)
    body = wires.whole(wire, ask, deltas)
    head = [("content-type", "application/json"), ("content-length", str(len(body))), ("request-id", f"req_{id}")]
    await exchange.start(200, head)
    await exchange.send(body[: len(body) // 2] if cut else body)
    if cut:
        raise Broken
    await exchange.finish()


async def fail(answering: Answering, failed: Fail) -> None:
    """An error, as the provider says it."""
    headers = [("request-id", f"req_{answering.id}")]
    if failed.retry_after is not None:
        headers.append(("retry-after", f"{failed.retry_after:g}"))
    body = error_body(answering.wire, failed.status, message_of(failed))
    await answering.exchange.answer_json(failed.status, body, headers)


def message_of(failed: Fail) -> str:
    """What it says."""
    return failed.message or _MESSAGES.get(failed.status, "Something went wrong.")
