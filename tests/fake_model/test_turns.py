"""What a turn does to who asks: pieces, silence, errors and broken connections."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2 as httpx
import pytest

from fake_model.agents import BODIES, PATHS
from fake_model.conftest import Client
from paddock import ConfigError
from paddock.gateway.translate import read_failure
from paddock.testing import Cut, Fail, FakeModel, Say, Shell, Think, Tokens, Turn, Wait

WIRES = list(PATHS)
BROKEN = (httpx.RemoteProtocolError, httpx.ReadError)


def texts(wire: str, events: list[dict[str, Any]]) -> list[str]:
    """The pieces of text in a stream."""
    if wire == "anthropic":
        return [event["delta"]["text"] for event in events if event.get("delta", {}).get("type") == "text_delta"]
    if wire == "chat":
        choices = [choice for event in events for choice in event["choices"]]
        return [choice["delta"]["content"] for choice in choices if choice["delta"].get("content")]
    if wire == "responses":
        return [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    parts = [part for event in events for part in event["candidates"][0]["content"]["parts"]]
    return [part["text"] for part in parts if part.get("text") and not part.get("thought")]


async def collect(events: AsyncIterator[dict[str, Any]], into: list[dict[str, Any]]) -> None:
    """All that comes, also before it breaks."""
    async for event in events:
        into.append(event)  # noqa: PERF401 - one by one, so that they are there


@pytest.mark.parametrize("wire", WIRES)
async def test_pieces(wire: str, client: Client) -> None:
    async with FakeModel([[Think("Hm."), Say("one two three", pieces=3, pause=0.001)]]) as model:
        assert texts(wire, [event async for event in client.events(model, wire)]) == ["one t", "wo th", "ree"]


@pytest.mark.parametrize("wire", WIRES)
async def test_cut_in_the_middle_of_a_stream(wire: str, client: Client) -> None:
    async with FakeModel([[Say("half of it", pieces=2), Cut()]]) as model:
        events: list[dict[str, Any]] = []
        with pytest.raises(BROKEN):
            await collect(client.events(model, wire), events)
        assert texts(wire, events) == ["half ", "of it"]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("turn", [Cut(), [Say("half"), Cut()]])
async def test_cut_when_a_whole_answer_is_wanted(wire: str, turn: Turn, client: Client) -> None:
    async with FakeModel([turn, Say("whole")]) as model:
        with pytest.raises(BROKEN):
            await client.whole(model, wire)
        assert "whole" in str(await client.answer(model, wire))


async def test_cut_before_a_stream(client: Client) -> None:
    async with FakeModel([[Wait(0.001), Cut()]]) as model:
        events: list[dict[str, Any]] = []
        with pytest.raises(BROKEN):
            await collect(client.events(model, "anthropic"), events)
        assert events == []


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 529])
async def test_errors(wire: str, status: int, client: Client) -> None:
    async with FakeModel([Fail(status, "the words", retry_after=7 if status == 429 else None)]) as model:
        answer = await client.whole(model, wire)
        assert answer.status_code == status
        assert read_failure(status, answer.content).message == "the words"
        assert answer.headers.get("retry-after") == ("7" if status == 429 else None)


async def test_errors_have_words_of_their_own_kind(client: Client) -> None:
    async with FakeModel([Fail(529)]) as model:
        assert (await client.whole(model, "anthropic")).json()["error"] == {
            "type": "overloaded_error",
            "message": "Overloaded.",
        }
        assert (await client.whole(model, "gemini")).json()["error"]["status"] == "UNAVAILABLE"


@pytest.mark.parametrize(
    ("wire", "place"),
    [("anthropic", "error"), ("chat", "error"), ("gemini", "error"), ("responses", "response")],
)
async def test_an_error_within_a_stream(wire: str, place: str, client: Client) -> None:
    async with FakeModel([[Say("half"), Fail(529, "the words")]]) as model:
        events = [event async for event in client.events(model, wire)]
        assert "the words" in str(events[-1][place])
        assert (await client.whole(model, wire)).status_code == 529


async def test_silence(client: Client) -> None:
    async with FakeModel([[Say("first"), Wait(3600), Say("second")]]) as model:
        seen = asyncio.Event()

        async def read() -> None:
            async for event in client.events(model, "anthropic"):
                if texts("anthropic", [event]) == ["first"]:
                    seen.set()

        reading = asyncio.create_task(read())
        await seen.wait()
        assert not reading.done()
    with pytest.raises(BROKEN):  # the model's end is the end of every answer
        await reading


def used(wire: str, answer: Any) -> tuple[int, int, int]:
    """Input, output and what was read from a cache."""
    if wire == "anthropic":
        usage = answer["usage"]
        return usage["input_tokens"], usage["output_tokens"], usage["cache_read_input_tokens"]
    if wire == "chat":
        usage = answer["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        return usage["prompt_tokens"] - cached, usage["completion_tokens"], cached
    if wire == "responses":
        usage = answer["usage"]
        cached = usage["input_tokens_details"]["cached_tokens"]
        return usage["input_tokens"] - cached, usage["output_tokens"], cached
    usage = answer["usageMetadata"]
    cached = usage["cachedContentTokenCount"]
    return usage["promptTokenCount"] - cached, usage["candidatesTokenCount"], cached


@pytest.mark.parametrize("wire", WIRES)
async def test_tokens(wire: str, client: Client) -> None:
    async with FakeModel([Say("a"), [Say("b"), Tokens(70, 5, cache_read=30)], Shell("ls")]) as model:
        assert used(wire, await client.answer(model, wire)) == (100, 20, 0)
        assert used(wire, await client.answer(model, wire)) == (40, 5, 30)
        assert used(wire, await client.answer(model, wire)) == (100, 20, 0)


async def test_an_answer_of_nothing(client: Client) -> None:
    async with FakeModel([[]]) as model:
        assert (await client.answer(model, "anthropic"))["content"] == []


async def test_gemini_s_stream_is_a_list_unless_events_are_wanted(client: Client) -> None:
    async with FakeModel() as model:
        url = f"{model.url}/v1beta/models/gemini-x:streamGenerateContent"
        (answer,) = (await client.http.post(url, json=BODIES["gemini"])).json()
        assert answer["candidates"][0]["content"]["parts"] == [{"text": "Hello."}]


def test_what_no_turn_can_be() -> None:
    with pytest.raises(ConfigError, match="'ls' is nothing that a model does"):
        FakeModel(["ls"])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="200 is no status of an error"):
        Fail(200)
    with pytest.raises(ConfigError, match="in 0 pieces"):
        Say("x", pieces=0)
