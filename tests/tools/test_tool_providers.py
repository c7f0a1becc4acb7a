"""Each provider's words: what its own SDK takes and makes, plain and as objects."""

import json
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from anthropic.types import TextBlock, ToolUseBlock
from google.genai import Client as Gemini
from google.genai import types as gemini
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageFunctionToolCall
from openai.types.responses import ResponseFunctionToolCall

from paddock import ConfigError, Sandbox
from paddock.testing import FakeModel, Say, Turn, Use
from paddock.tools import Tools, sandbox_tools
from paddock.tools.providers import PROVIDERS

CALLS: dict[str, dict[str, Any]] = {
    "anthropic": {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "a"}},
    "chat": {"id": "t1", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a"}'}},
    "responses": {"type": "function_call", "call_id": "t1", "name": "read_file", "arguments": '{"path": "a"}'},
    "gemini": {"functionCall": {"id": "t1", "name": "read_file", "args": {"path": "a"}}},
}
OBJECTS: dict[str, Any] = {
    "anthropic": ToolUseBlock.model_validate(CALLS["anthropic"]),
    "chat": ChatCompletionMessageFunctionToolCall.model_validate(CALLS["chat"]),
    "responses": ResponseFunctionToolCall.model_validate(CALLS["responses"]),
    "gemini": gemini.Part.model_validate(CALLS["gemini"]),
}
ANSWERS: dict[str, dict[str, Any]] = {
    "anthropic": {"type": "tool_result", "tool_use_id": "t1", "content": "text\n"},
    "chat": {"role": "tool", "tool_call_id": "t1", "content": "text\n"},
    "responses": {"type": "function_call_output", "call_id": "t1", "output": "text\n"},
    "gemini": {"functionResponse": {"id": "t1", "name": "read_file", "response": {"output": "text\n"}}},
}


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_call(provider: str, memory: Sandbox) -> None:
    """Plain and as the SDK's object it gives the same, and is the shape that goes back."""
    tools = sandbox_tools(memory)
    await memory.write("a", "text\n")
    assert await tools.handle(CALLS[provider]) == ANSWERS[provider]
    assert await tools.handle(OBJECTS[provider]) == ANSWERS[provider]
    assert await tools.handle([OBJECTS[provider], CALLS[provider]]) == [ANSWERS[provider]] * 2


async def test_a_call_of_gemini_without_arguments(memory: Sandbox) -> None:
    """As `response.function_calls` of the SDK has it."""
    tools = sandbox_tools(memory)
    call = gemini.FunctionCall(name="list_files")
    answer = {"functionResponse": {"name": "list_files", "response": {"output": "[The directory is empty.]"}}}
    assert await tools.handle([call, gemini.FunctionResponse(name="list_files")]) == [answer]
    assert await tools.handle(call.model_dump()) == answer
    with pytest.raises(ConfigError):
        await tools.handle({"name": "list_files"})


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_what_goes_wrong_goes_back(provider: str, memory: Sandbox) -> None:
    answer = await sandbox_tools(memory).handle(CALLS[provider])
    assert "NOT_FOUND" in json.dumps(answer)
    if provider == "anthropic":
        assert answer["is_error"] is True


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("path", ["\ud800", "x" * 1_000_000], ids=["no text", "long"])
async def test_what_a_model_sends_does_not_come_back_as_it_was(provider: str, path: str, memory: Sandbox) -> None:
    """A result can always be sent, and what was too long for the sandbox is not sent again."""
    given = {"path": path}
    calls: dict[str, dict[str, Any]] = {
        "anthropic": {**CALLS["anthropic"], "input": given},
        "chat": {"id": "t1", "function": {"name": "read_file", "arguments": json.dumps(given)}},
        "responses": {**CALLS["responses"], "arguments": json.dumps(given)},
        "gemini": {"functionCall": {"name": "read_file", "args": given}},
    }
    sent = json.dumps(await sandbox_tools(memory).handle(calls[provider]), ensure_ascii=False).encode()
    assert b"INVALID_PATH" in sent
    assert len(sent) < 10_000


async def test_wrong_calls_go_back_too(memory: Sandbox) -> None:
    tools = sandbox_tools(memory)
    for name, given in (("read_file", "{"), ("read_file", "[]"), ("nothing", "{}"), ("read_file", '{"path": 1}')):
        answer = await tools.handle({"id": "1", "function": {"name": name, "arguments": given}})
        assert json.loads(answer["content"])["success"] is False
    deep = await tools.handle({"id": "1", "function": {"name": "read_file", "arguments": "[" * 100_000}})
    assert json.loads(deep["content"])["success"] is False
    for no_call in ({"type": "text", "text": "hi"}, "read_file", None, 3, {}):
        with pytest.raises(ConfigError):
            await tools.handle(no_call)


async def test_a_whole_answer(memory: Sandbox) -> None:
    """Of all that a model says, its calls are done at once, and the results are in their order."""
    said = TextBlock(type="text", text="I write.", citations=None)
    uses = [
        ToolUseBlock(type="tool_use", id=str(n), name="write_file", input={"path": f"{n}", "content": "x"})
        for n in range(40)
    ]
    results = await sandbox_tools(memory).handle([said, *uses])
    assert [result["tool_use_id"] for result in results] == [str(n) for n in range(40)]
    assert len(await memory.list()) == 40


async def anthropic_says(url: str, key: str, tools: Tools) -> str:
    async with AsyncAnthropic(base_url=url, api_key=key) as client:
        said: list[Any] = [{"role": "user", "content": "go"}]
        while True:
            offered: Any = tools.schemas("anthropic")
            answer = await client.messages.create(model="claude-x", max_tokens=99, tools=offered, messages=said)
            if not (results := await tools.handle(answer.content)):
                return str(answer.content[0].text)
            said += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": results}]


async def chat_says(url: str, key: str, tools: Tools) -> str:
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key=key) as client:
        said: list[Any] = [{"role": "user", "content": "go"}]
        while True:
            offered: Any = tools.schemas("chat")
            answer = await client.chat.completions.create(model="gpt-x", tools=offered, messages=said)
            message = answer.choices[0].message
            if not message.tool_calls:
                return str(message.content)
            said += [message, *await tools.handle(message.tool_calls)]


async def responses_says(url: str, key: str, tools: Tools) -> str:
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key=key) as client:
        said: list[Any] = [{"role": "user", "content": "go"}]
        while True:
            offered: Any = tools.schemas("responses")
            answer = await client.responses.create(model="gpt-x", tools=offered, input=said)
            if not (results := await tools.handle(answer.output)):
                return str(answer.output_text)
            said += [*answer.output, *results]


async def gemini_says(url: str, key: str, tools: Tools) -> str:
    async with Gemini(api_key=key, http_options=gemini.HttpOptions(base_url=url)).aio as client:
        said: list[Any] = [{"role": "user", "parts": [{"text": "go"}]}]
        while True:
            offered: Any = {"tools": tools.schemas("gemini")}
            answer = await client.models.generate_content(model="gemini-x", contents=said, config=offered)
            content = (answer.candidates or [])[0].content
            if content is None or not (results := await tools.handle(content.parts or [])):
                return str(answer.text)
            said += [content, {"role": "user", "parts": results}]


SAYS = {"anthropic": anthropic_says, "chat": chat_says, "responses": responses_says, "gemini": gemini_says}


@pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")  # Google's SDK
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_conversation_with_the_sdk(provider: str, memory: Sandbox) -> None:
    """What a request offers, what the model asks, and what goes back, over the wire with the provider's own client."""
    script: list[Turn] = [
        Use("read_file", {"path": "new.txt"}),
        Use("write_file", {"path": "new.txt", "content": "hello"}),
        Say("It is there."),
    ]
    async with FakeModel(script) as model:
        assert await SAYS[provider](model.url, model.key, sandbox_tools(memory)) == "It is there."
        assert model.complaints == []
        results = [result for asked in model.requests for result in asked.results]
        assert "NOT_FOUND" in results[0].text
        assert '"is_new": true' in results[-1].text
    assert await memory.read("new.txt") == "hello"


async def test_the_sdks_take_the_schemas(memory: Sandbox) -> None:
    tools = sandbox_tools(memory, git=True)
    (told,) = tools.schemas("gemini")
    assert len(gemini.Tool.model_validate(told).function_declarations or []) == len(tools)
    part = gemini.Part.model_validate(ANSWERS["gemini"])
    assert part.function_response is not None
    assert part.function_response.response == {"output": "text\n"}
    names = {
        "anthropic": [one["name"] for one in tools.schemas("anthropic")],
        "chat": [one["function"]["name"] for one in tools.schemas("chat")],
        "responses": [one["name"] for one in tools.schemas("responses")],
    }
    assert all(tuple(found) == tools.names for found in names.values())
    with pytest.raises(ConfigError):
        tools.schemas("other")  # type: ignore[arg-type]
