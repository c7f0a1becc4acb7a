"""Errors in each wire format's own shape."""

import re
from typing import Literal

from paddock.gateway.translate.deltas import Failed
from paddock.gateway.translate.reading import At, BadRequest, Body, load_json

Wire = Literal["anthropic", "chat", "responses", "gemini"]

_LONGEST_MESSAGE = 4000
# A conversation that the model has no room for. Agents shorten theirs when they are told so in their own provider's
# words: Claude looks for these in the message, Codex for the code.
_NO_ROOM = re.compile(
    r"prompt is too long|context_length_exceeded|maximum context length|context window", re.IGNORECASE
)
_NO_ROOM_MESSAGE, _NO_ROOM_CODE = "prompt is too long", "context_length_exceeded"

_ANTHROPIC = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_STATUS = {kind: status for status, kind in _ANTHROPIC.items()} | {"api_error": 500, "timeout_error": 504}
_OPENAI = {
    401: ("invalid_request_error", "invalid_api_key"),
    402: ("insufficient_quota", "insufficient_quota"),
    404: ("invalid_request_error", "not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    503: ("server_error", "server_is_overloaded"),
    529: ("server_error", "server_is_overloaded"),
}
_GEMINI = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
    529: "UNAVAILABLE",
}
_OPENAI_STATUS = {
    "invalid_api_key": 401,
    "not_found": 404,
    "insufficient_quota": 429,
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "server_is_overloaded": 529,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
    "invalid_request_error": 400,
}


def kind_of(status: int) -> str:
    """Anthropic's word for an HTTP status."""
    return _ANTHROPIC.get(status, "invalid_request_error" if 400 <= status < 500 else "api_error")


def error_body(wire: Wire, status: int, message: str) -> Body:
    """The body of a response that says that something failed."""
    if wire == "anthropic":
        return {"type": "error", "error": {"type": kind_of(status), "message": _anthropic_message(status, message)}}
    if wire == "gemini":
        word = _GEMINI.get(status, "INVALID_ARGUMENT" if 400 <= status < 500 else "INTERNAL")
        return {"error": {"code": status, "message": message, "status": word}}
    type, code = openai_words(status, message)
    return {"error": {"message": message, "type": type, "param": None, "code": code}}


def _anthropic_message(status: int, message: str) -> str:
    if status == 400 and _NO_ROOM.search(message) and _NO_ROOM_MESSAGE not in message:
        return f"{_NO_ROOM_MESSAGE}: {message}"
    return message


def openai_words(status: int, message: str) -> tuple[str, str | None]:
    """OpenAI's `type` and `code` for an HTTP status."""
    if status == 400 and _NO_ROOM.search(message):
        return "invalid_request_error", _NO_ROOM_CODE
    return _OPENAI.get(status, ("invalid_request_error", None) if 400 <= status < 500 else ("server_error", None))


def failure(status: int, message: str) -> Failed:
    """A failure of an HTTP status."""
    return Failed(status, kind_of(status), message[:_LONGEST_MESSAGE])


def read_failure(status: int, raw: bytes) -> Failed:
    """What the body of a provider's response with an error `status` says, in whichever shape."""
    try:
        return failure(status, _message_in(At(load_json(raw))) or _plain(raw) or f"status {status}")
    except BadRequest:
        return failure(status, _plain(raw) or f"status {status}")


def _plain(raw: bytes) -> str:
    return raw[:_LONGEST_MESSAGE].decode(errors="replace").strip()


def _message_in(body: At) -> str:
    """The message in an error's body: Gemini puts it into a list, some servers at the top or as a bare text."""
    for at in body.any_items()[:1] or [body]:
        error = at["error"]
        if isinstance(error.value, dict):
            return failure_in(error).message
        for place in (error, at["message"], at["detail"]):
            if place.any_text():
                return place.any_text()
    return ""


def failure_in(error: At) -> Failed:
    """The failure that an `error` within a stream of status 200 is."""
    message = error["message"].any_text() or error.any_text() or "the provider failed"
    if error["code"].value == _NO_ROOM_CODE and not _NO_ROOM.search(message):
        message = f"{_NO_ROOM_CODE}: {message}"
    return failure(_status_in(error), message)


def _status_in(error: At) -> int:
    status = error["code"].any_count() or error["status"].any_count()
    if 400 <= status <= 599:
        return status
    for word in (error["code"].any_text(), error["type"].any_text()):
        if word in _OPENAI_STATUS or word in _STATUS:
            return _OPENAI_STATUS.get(word) or _STATUS[word]
    return 500
