"""The real SDKs of three providers, against fakes of all four wires: whole, streamed, with tools."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import openai
import pytest
from google import genai

from gateway.conftest import Place, Placed
from gateway.providers import KEY

WIRES = ["anthropic", "chat", "responses"]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
HI: Any = [{"role": "user", "content": "hi"}]


@asynccontextmanager
async def claude(place: Place) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(base_url=place.url, api_key=place.token, max_retries=0) as client:
        yield client


@asynccontextmanager
async def gpt(place: Place) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{place.url}/v1", api_key=place.token, max_retries=0) as client:
        yield client


async def used(place: Place) -> list[tuple[int, int, int]]:
    await place.attachment.close()
    return [(one.input, one.output, one.cached) for one in await place.gateway._ledger.totals()]


@pytest.mark.parametrize("wire", WIRES)
async def test_anthropic(wire: str, placed: Placed) -> None:
    async with placed(wire) as place, claude(place) as client:
        whole = await client.messages.create(model="m", max_tokens=99, messages=HI)
        assert (whole.content[0].type, whole.stop_reason) == ("text", "end_turn")
        async with client.messages.stream(model="m", max_tokens=99, messages=HI) as stream:
            streamed = await stream.get_final_message()
        for message in (whole, streamed):
            assert message.content[0].text == "hi there"
            assert message.usage.output_tokens == 5
        tools: Any = [{"name": "weather", "description": "Of a city.", "input_schema": SCHEMA}]
        async with client.messages.stream(model="m", max_tokens=99, messages=HI, tools=tools) as stream:
            called = await stream.get_final_message()
        assert called.stop_reason == "tool_use"
        (block,) = called.content
        assert (block.type, block.name, block.input) == ("tool_use", "weather", {"city": "Rome"})
        result: Any = [
            *HI,
            {"role": "assistant", "content": [block.model_dump()]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": block.id, "content": "sunny"}]},
        ]
        assert (await client.messages.create(model="m", max_tokens=99, messages=result)).stop_reason == "end_turn"
        assert "sunny" in str(place.provider.asked[-1].body)
        assert {
            asked.headers.get("x-api-key", asked.headers.get("authorization", "")[7:]) for asked in place.provider.asked
        } == {KEY}
        assert await used(place) == [(64, 20, 12)]


@pytest.mark.parametrize("wire", WIRES)
async def test_chat(wire: str, placed: Placed) -> None:
    async with placed(wire) as place, gpt(place) as client:
        whole = await client.chat.completions.create(model="m", messages=HI)
        assert whole.choices[0].message.content == "hi there"
        assert whole.usage is not None
        assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (16, 5)
        stream = await client.chat.completions.create(model="m", messages=HI, stream=True)
        text = [chunk.choices[0].delta.content or "" async for chunk in stream]
        assert "".join(text) == "hi there"
        options: Any = {"include_usage": True}
        stream = await client.chat.completions.create(model="m", messages=HI, stream=True, stream_options=options)
        counts = [chunk.usage.completion_tokens async for chunk in stream if chunk.usage]
        assert counts == [5]
        tools: Any = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
        async with client.chat.completions.stream(model="m", messages=HI, tools=tools) as events:
            final = await events.get_final_completion()
        (call,) = final.choices[0].message.tool_calls or []
        assert (call.function.name, call.function.arguments) == ("weather", '{"city": "Rome"}')
        assert await used(place) == [(64, 20, 12)]


@pytest.mark.parametrize("wire", WIRES)
async def test_responses(wire: str, placed: Placed) -> None:
    async with placed(wire) as place, gpt(place) as client:
        whole = await client.responses.create(model="m", input="hi")
        assert (whole.output_text, whole.status) == ("hi there", "completed")
        assert whole.usage is not None
        assert whole.usage.output_tokens == 5
        async with client.responses.stream(model="m", input="hi") as stream:
            assert (await stream.get_final_response()).output_text == "hi there"
        tools: Any = [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}]
        async with client.responses.stream(model="m", input="hi", tools=tools) as stream:
            final = await stream.get_final_response()
        (call,) = [item for item in final.output if item.type == "function_call"]
        assert (call.name, call.arguments) == ("weather", '{"city": "Rome"}')
        assert await used(place) == [(48, 15, 9)]


@pytest.mark.filterwarnings("ignore:Inheritance class")  # the SDK's own
async def test_gemini(placed: Placed) -> None:
    async with placed("gemini") as place:
        options: Any = {"base_url": place.url}
        client = genai.Client(api_key=place.token, http_options=options)
        try:
            whole = await client.aio.models.generate_content(model="gemini-x", contents="hi")
            assert whole.text == "hi there"
            text = [
                chunk.text
                async for chunk in await client.aio.models.generate_content_stream(model="gemini-x", contents="hi")
            ]
            assert "".join(text) == "hi there"
        finally:
            await client.aio.aclose()
        assert [asked.headers["x-goog-api-key"] for asked in place.provider.asked] == [KEY, KEY]
        assert place.provider.asked[1].path.endswith("/models/gemini-x:streamGenerateContent?alt=sse")
        assert await used(place) == [(32, 10, 6)]


@pytest.mark.parametrize("wire", ["anthropic", "chat", "responses"])
async def test_claudes_system_turns_reach_everybody(wire: str, placed: Placed) -> None:
    messages: Any = [
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "the directory is /work"},
        {"role": "assistant", "content": "yes?"},
        {"role": "user", "content": "go on"},
    ]
    async with placed(wire) as place, claude(place) as client:
        await client.messages.create(model="m", max_tokens=9, messages=messages)
        body = place.provider.asked[0].body
        assert "the directory is /work" in str(body)
        if wire == "anthropic":
            assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user"]
