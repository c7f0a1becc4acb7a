"""Each provider's words: what its own SDK takes and makes, plain and as objects."""

import json
from typing import Any

import pytest
from anthropic.types import TextBlock, ToolUseBlock
from google.genai import types as gemini
from openai.types.chat import ChatCompletionMessageFunctionToolCall
from openai.types.responses import ResponseFunctionToolCall

from paddock import ConfigError, Sandbox
from paddock.tools import sandbox_tools
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
