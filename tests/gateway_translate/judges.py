"""What the official clients make of what was produced."""

import functools
from collections.abc import Iterator
from typing import Any, cast

import anthropic
import httpx2
import openai
from anthropic.types import Message, RawMessageStreamEvent
from anthropic.types.message_create_params import MessageCreateParams
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParams
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParams
from pydantic import TypeAdapter

from paddock.gateway.translate import Translated, load_json
from paddock.gateway.translate.sse import Events

REQUESTS: dict[Translated, Any] = {
    "anthropic": MessageCreateParams,
    "chat": CompletionCreateParams,
    "responses": ResponseCreateParams,
}
ANSWERS: dict[Translated, Any] = {"anthropic": Message, "chat": ChatCompletion, "responses": Response}
EVENTS: dict[Translated, Any] = {
    "anthropic": RawMessageStreamEvent,
    "chat": ChatCompletionChunk,
    "responses": ResponseStreamEvent,
}
PATHS: dict[Translated, str] = {
    "anthropic": "/v1/messages",
    "chat": "/chat/completions",
    "responses": "/responses",
}


@functools.cache
def adapter(type: Any) -> TypeAdapter[Any]:
    return TypeAdapter(type)


def check_request(wire: Translated, body: dict[str, Any]) -> None:
    """Every part of a request is of a type that the client knows."""
    _walk(adapter(REQUESTS[wire]).validate_python(body))


def _walk(value: Any) -> None:
    # Pydantic looks into what may be any iterable only when somebody does.
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, str | bytes | int | float | None):
        for item in value:
            _walk(item)


def check_answer(wire: Translated, body: dict[str, Any]) -> None:
    adapter(ANSWERS[wire]).validate_python(body)


def events_in(stream: bytes) -> list[tuple[str, dict[str, Any]]]:
    return [(event.name, load_json(event.data)) for event in Events().feed(stream) if event.data != "[DONE]"]


def check_stream(wire: Translated, stream: bytes) -> None:
    for name, data in events_in(stream):
        adapter(EVENTS[wire]).validate_python(data)
        assert name == data.get("type", "")


def served(content: bytes, status: int = 200, kind: str = "text/event-stream") -> httpx2.Client:
    """An HTTP client whose server always answers this, in small pieces."""

    def pieces() -> Iterator[bytes]:
        yield from (content[at : at + 7] for at in range(0, len(content), 7))

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, headers={"content-type": kind}, content=pieces())

    return httpx2.Client(transport=httpx2.MockTransport(answer))


def anthropic_client(http: httpx2.Client) -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key="x", base_url="http://test", http_client=http, max_retries=0)


def openai_client(http: httpx2.Client) -> openai.OpenAI:
    return openai.OpenAI(api_key="x", base_url="http://test", http_client=http, max_retries=0)


def accumulated(wire: Translated, stream: bytes) -> dict[str, Any]:
    """The whole answer that the official client puts together from a stream."""
    with served(stream) as http:
        if wire == "anthropic":
            with anthropic_client(http).messages.stream(model="m", max_tokens=9, messages=[]) as message:
                whole: dict[str, Any] = message.get_final_message().model_dump()
                return whole
        client = openai_client(http)
        if wire == "chat":
            options: Any = {"include_usage": True}
            try:
                with client.chat.completions.stream(model="m", messages=[], stream_options=options) as chunks:
                    completed: dict[str, Any] = chunks.get_final_completion().model_dump()
                    return completed
            except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError) as error:
                return cast(Any, error).completion.model_dump()  # type: ignore[no-any-return]
        with client.responses.stream(model="m", input="x") as response:
            return _final(response)


def _final(response: Any) -> dict[str, Any]:
    """The last event's response; the client itself keeps that of `response.completed` alone."""
    last = [event for event in response if hasattr(event, "response")][-1]
    return cast(dict[str, Any], last.response.model_dump())
