"""Requests and whole answers, from any format and to any."""

import time
from collections.abc import Iterable

from paddock.gateway.translate import anthropic, chat, responses
from paddock.gateway.translate.deltas import Delta, answer_of
from paddock.gateway.translate.effort import effort_of
from paddock.gateway.translate.failures import error_body, failure
from paddock.gateway.translate.model import Ask
from paddock.gateway.translate.names import Names
from paddock.gateway.translate.reading import BadRequest, Body, Json
from paddock.gateway.translate.streams import Translated, identified
from paddock.gateway.translate.target import Target, Written

_NO_THINKING = "$: how much to think is left out, because the connector does not say that the model can be told"
_READ = {"anthropic": anthropic.read_request, "chat": chat.read_request, "responses": responses.read_request}
_WRITE = {"anthropic": anthropic.write_request, "chat": chat.write_request, "responses": responses.write_request}
_ANSWERS = {"anthropic": anthropic.read_answer, "chat": chat.read_answer, "responses": responses.read_answer}


def read_request(wire: Translated, body: Json) -> Ask:
    """What a client of `wire` asks; a body that is wrong, or asks for what cannot be done, is a `BadRequest`."""
    if not isinstance(body, dict):
        raise BadRequest("$", "has to be an object")
    return _READ[wire](body)


def write_request(wire: Translated, ask: Ask, target: Target) -> Written:
    """The body for a provider of `wire`, with warnings of what was left out, also when it was read."""
    written = _WRITE[wire](ask, target)
    thinking = (_NO_THINKING,) if target.reasoning == "none" and effort_of(ask) not in (None, "none") else ()
    return Written(written.body, ask.warnings + thinking + written.warnings)


def read_answer(wire: Translated, body: Json) -> list[Delta]:
    """A provider's whole answer. Nothing is raised: what cannot be understood is a `Failed`."""
    if not isinstance(body, dict):
        return [failure(502, "the provider's answer is no object")]
    try:
        return [identified(delta) for delta in _ANSWERS[wire](body)]
    except BadRequest as error:
        return [failure(502, f"the provider's answer cannot be understood: {error}")]


def write_answer(wire: Translated, ask: Ask, deltas: Iterable[Delta], *, created: int | None = None) -> Body:
    """The body for a client of `wire`, which asked `ask`; the body of an error if the last delta is a `Failed`."""
    names = Names(ask.tools)
    answer = answer_of(names.meant(delta) for delta in deltas)
    if answer.failed is not None:
        return error_body(wire, answer.failed.status, answer.failed.message)
    if wire == "anthropic":
        return anthropic.write_answer(ask, answer)
    now = int(time.time()) if created is None else created
    return chat.write_answer(ask, answer, now) if wire == "chat" else responses.write_answer(ask, answer, now)
