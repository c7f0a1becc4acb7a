"""The providers' own SDKs read what the fake says, and a gateway stands between them as between others."""

import json
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from google import genai

from fake_model.agents import BODIES, CODEX, GEMINI, OPENCODE
from fake_model.conftest import Client
from paddock import Gateway, Sandbox
from paddock.gateway.translate import Wire
from paddock.testing import FakeModel, Say, Shell, Think, Turn

SCRIPT: list[Turn] = [[Think("Let me see."), Say("Hello you.", pieces=2), Shell("ls")]]
HI: Any = [{"role": "user", "content": "hi"}]


async def test_anthropic() -> None:
    async with FakeModel(SCRIPT * 2) as model, anthropic.AsyncAnthropic(base_url=model.url, api_key="k") as client:
        options: Any = {"model": "m", "max_tokens": 99, "messages": HI, "tools": BODIES["anthropic"]["tools"]}
        whole = await client.messages.create(**options)
        async with client.messages.stream(**options) as stream:
            streamed = await stream.get_final_message()
        for message in (whole, streamed):
            thought, text, call = message.content
            assert (thought.type, text.type, call.type) == ("thinking", "text", "tool_use")
            assert (thought.thinking, text.text, call.input) == ("Let me see.", "Hello you.", {"command": "ls"})
            assert (message.stop_reason, message.usage.input_tokens) == ("tool_use", 100)


async def test_chat() -> None:
    tools: Any = OPENCODE["tools"]
    async with FakeModel(SCRIPT * 2) as model, openai.AsyncOpenAI(base_url=f"{model.url}/v1", api_key="k") as client:
        whole = await client.chat.completions.create(model="m", messages=HI, tools=tools)
        async with client.chat.completions.stream(model="m", messages=HI, tools=tools) as stream:
            streamed = await stream.get_final_completion()
        for completion in (whole, streamed):
            (choice,) = completion.choices
            assert (choice.message.content, choice.finish_reason) == ("Hello you.", "tool_calls")
            (call,) = choice.message.tool_calls or []
            assert json.loads(call.function.arguments)["command"] == "ls"


async def test_responses() -> None:
    tools: Any = CODEX["tools"]
    async with FakeModel(SCRIPT * 2) as model, openai.AsyncOpenAI(base_url=f"{model.url}/v1", api_key="k") as client:
        whole = await client.responses.create(model="m", input="hi", tools=tools[:1])
        async with client.responses.stream(model="m", input="hi", tools=tools[:1]) as stream:
            streamed = await stream.get_final_response()
        for response in (whole, streamed):
            thought, text, call = response.output
            assert (thought.type, text.type, call.type) == ("reasoning", "message", "function_call")
            assert response.output_text == "Hello you."
            assert call.arguments == '{"cmd": "ls"}'


@pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")  # the SDK's own
async def test_gemini() -> None:
    async with FakeModel(SCRIPT * 2) as model:
        client = genai.Client(api_key="k", http_options={"base_url": model.url})
        config: Any = {"tools": GEMINI["tools"], "automatic_function_calling": {"disable": True}}
        whole = await client.aio.models.generate_content(model="m", contents="hi", config=config)
        (thought, text, call) = whole.candidates[0].content.parts
        assert (thought.thought, text.text, call.function_call.args) == (True, "Hello you.", {"command": "ls"})
        stream = await client.aio.models.generate_content_stream(model="m", contents="hi", config=config)
        parts = [part async for answer in stream for part in answer.candidates[0].content.parts]
        assert "".join(part.text or "" for part in parts if not part.thought) == "Hello you."
        assert [part.function_call.args for part in parts if part.function_call] == [{"command": "ls"}]
        await client.aio.aclose()


@pytest.mark.parametrize("wire", ["anthropic", "chat", "responses"])
async def test_behind_a_gateway(wire: Wire, client: Client, tmp_path: Path) -> None:
    """A client of Anthropic's wire, a sandbox, and a model of another wire: tools keep their names."""
    async with (
        FakeModel(SCRIPT) as model,
        Gateway([model.connector(wire, model="large")], ledger=tmp_path / "usage.sqlite") as gateway,
        Sandbox.create("local") as sb,
    ):
        attachment = await gateway.attach(sb, port=0)
        async with await sb.expose(int(attachment.url.rpartition(":")[2])) as endpoint:
            headers = {"x-api-key": attachment.token}
            url = f"{endpoint.url.rstrip('/')}/v1/messages"
            answer = (await client.http.post(url, json=BODIES["anthropic"], headers=headers)).json()
        assert answer["content"][-1]["input"] == {"command": "ls"}
        (asked,) = model.requests
        assert (asked.wire, asked.model, asked.tools) == (wire, "large", ("Bash", "mcp__tiny__echo"))
        assert model.key in str(asked.headers)
