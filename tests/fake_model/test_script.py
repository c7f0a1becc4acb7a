"""Which turn a request gets, what is remembered of it, and what takes no turn."""

import asyncio
import json
import urllib.request
from typing import Any

import httpx2 as httpx
import pytest

from fake_model import agents
from fake_model.conftest import Client
from paddock import ClosedError, ConfigError
from paddock.runners import Message
from paddock.runners.messages import conversation
from paddock.testing import Asked, Cut, Fail, FakeModel, Result, Say, Shell, Think, Turn, Use


def said(answer: Any) -> str:
    """The text of Anthropic's answer."""
    return "".join(block.get("text", "") for block in answer["content"])


async def test_turns_come_in_order_and_the_last_stays(client: Client) -> None:
    async with FakeModel([Say("one"), Say("two")]) as model:
        assert [said(await client.answer(model, "anthropic")) for _ in range(4)] == ["one", "two", "two", "two"]


async def test_a_failure_stays_too(client: Client) -> None:
    async with FakeModel([Fail(401)]) as model:
        assert [(await client.whole(model, "chat")).status_code for _ in range(3)] == [401, 401, 401]


@pytest.mark.parametrize("script", [[], [Shell("ls")]])
async def test_tools_are_not_called_for_ever(script: list[Turn], client: Client) -> None:
    async with FakeModel(script) as model:
        for _ in script:
            await client.answer(model, "anthropic")
        assert said(await client.answer(model, "anthropic")) == "Nothing more is scripted."


async def test_what_it_was_asked(client: Client) -> None:
    body = agents.CLAUDE | {
        "system": [{"type": "text", "text": "Be good."}],
        "messages": [
            {"role": "user", "content": "before"},
            {"role": "assistant", "content": "yes"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "now"},
                    {"type": "text", "text": "<system-reminder>a note</system-reminder>"},
                ],
            },
            {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "Bash", "input": {}}]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "1", "content": "no", "is_error": True},
                    {"type": "text", "text": "another note"},
                ],
            },
        ],
    }
    async with FakeModel() as model:
        headers = {"x-api-key": model.key}
        await client.http.post(f"{model.url}/v1/messages?beta=true", json=body, headers=headers)
        (asked,) = model.requests
        assert asked.path == "/v1/messages?beta=true"
        assert asked.headers["x-api-key"] == model.key
        assert asked.body == body
        assert (asked.wire, asked.model, asked.system) == ("anthropic", "claude-x", "Be good.")
        assert (asked.text, asked.step) == ("now", 1)
        assert asked.results == (Result("Bash", "no", is_error=True),)
        assert asked.tools == ("Bash", "mcp__tiny__echo")


async def test_what_the_user_says_now(client: Client) -> None:
    """An agent that begins anew is told the conversation by Paddock, in one message of the user's."""
    told = conversation([Message("user", "one"), Message("assistant", "two"), Message("user", "# three\n\nfour")])
    async with FakeModel() as model:
        for prompt in (told.whole(), told.prompt):
            body = agents.CLAUDE | {"messages": [{"role": "user", "content": prompt}]}
            await client.http.post(f"{model.url}/v1/messages", json=body, headers={"x-api-key": model.key})
        assert [asked.text for asked in model.requests] == ["# three\n\nfour"] * 2
        assert "User: one" in json.dumps(model.requests[0].body)


async def test_results_on_every_wire(client: Client) -> None:
    """What was called comes back with its name."""
    call = {"id": "1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    chat = [
        *agents.HI,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "ok"},
    ]
    items = [
        {"type": "function_call", "call_id": "1", "name": "echo", "namespace": "mcp__tiny", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "ok"},
    ]
    contents = [
        {"role": "model", "parts": [{"functionCall": {"name": "run_shell_command", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "run_shell_command", "response": {"output": "ok"}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "other", "response": {"error": "bad"}}}]},
    ]
    async with FakeModel() as model:
        await client.answer(model, "chat", agents.OPENCODE | {"messages": chat})
        await client.answer(model, "responses", agents.CODEX | {"input": [*agents.CODEX["input"], *items]})
        await client.answer(model, "gemini", agents.GEMINI | {"contents": [*agents.GEMINI["contents"], *contents]})
        assert [(asked.text, asked.step) for asked in model.requests] == [("hi", 1)] * 3
        assert [asked.results for asked in model.requests] == [
            (Result("bash", "ok"),),
            (Result("mcp__tiny__echo", "ok"),),
            (Result("run_shell_command", "ok"), Result("", "bad", is_error=True)),
        ]


async def test_fifty_conversations_at_once(client: Client) -> None:
    """A function needs no order: it is told who asks, and how far they are."""

    def script(asked: Asked) -> Turn:
        return Say(f"{asked.text} is done") if asked.step else Use("echo", {"text": asked.text})

    async def converse(name: str) -> None:
        messages: list[dict[str, Any]] = [{"role": "user", "content": name}]
        called = await client.answer(model, "anthropic", agents.CLAUDE | {"messages": messages})
        (call,) = called["content"]
        assert call["input"] == {"text": name}
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": "ok"}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
        ended = await client.answer(model, "anthropic", agents.CLAUDE | {"messages": messages})
        assert said(ended) == f"{name} is done"

    async with FakeModel(script) as model:
        await asyncio.gather(*(converse(f"chat {number}") for number in range(50)))
        assert len(model.requests) == 100


async def test_a_function_may_wait(client: Client) -> None:
    """For whatever a test wants to happen first."""
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def script(request: Asked) -> Turn:
        asked.set()
        await go_on.wait()
        return Say(request.text)

    async with FakeModel(script) as model:
        answer = asyncio.create_task(client.answer(model, "anthropic"))
        await asked.wait()
        assert not answer.done()
        go_on.set()
        assert said(await answer) == "hi"


async def test_a_function_that_fails_is_told(client: Client) -> None:
    async with FakeModel(lambda asked: Say(asked.body["nothing"])) as model:
        answer = await client.whole(model, "anthropic")
        assert answer.status_code == 500
        assert model.complaints == ["The script failed: KeyError: 'nothing'"]
        assert model.complaints[0] in answer.text


async def test_a_request_that_cannot_be_read_takes_no_turn(client: Client) -> None:
    async with FakeModel([Say("one"), Say("two")]) as model:
        assert (await client.whole(model, "anthropic", {"model": 3})).status_code == 400
        assert model.complaints == ["A request could not be read: $.model: has to be a text"]
        assert (await client.whole(model, "gemini", [])).json()["error"]["message"] == "$: has to be an object"
        assert said(await client.answer(model, "anthropic")) == "one"


TITLE = [{"role": "system", "content": "You are a title generator. You output ONLY a thread title."}, *agents.HI]
ROUTING = {
    "contents": agents.GEMINI["contents"],
    "systemInstruction": {"parts": [{"text": "You are a specialized Task Routing AI."}]},
    "generationConfig": {
        "responseMimeType": "application/json",
        "responseJsonSchema": {
            "type": "OBJECT",
            "properties": {"why": {"type": "STRING"}, "score": {"type": "INTEGER"}},
        },
    },
}


@pytest.mark.parametrize(
    ("wire", "body", "side", "fits"),
    [
        ("chat", {"model": "m", "messages": TITLE}, "title", "A scripted conversation"),
        ("anthropic", agents.CLAUDE | {"max_tokens": 1}, "probe", "A scripted conversation"),
        ("gemini", ROUTING, "routing", '"score\\": 1'),
    ],
)
async def test_what_agents_ask_beside_their_work_takes_no_turn(
    wire: str, body: Any, side: str, fits: str, client: Client
) -> None:
    async with FakeModel([Shell("ls")]) as model:
        assert fits in json.dumps(await client.answer(model, wire, body))
        assert [asked.side for asked in model.sides] == [side]
        assert (model.requests, model.complaints) == ([], [])


async def test_work_without_tools_is_work(client: Client) -> None:
    async with FakeModel([Say("one")]) as model:
        await client.answer(model, "chat", {"model": "m", "messages": [{"role": "user", "content": "a title, please"}]})
        assert (len(model.requests), model.sides) == (1, [])


async def test_counting_and_looking_take_no_turn(client: Client) -> None:
    async with FakeModel() as model:
        for path, name in (
            ("/v1/messages/count_tokens", "input_tokens"),
            ("/v1beta/models/m:countTokens", "totalTokens"),
        ):
            assert (await client.http.post(model.url + path, json={})).json() == {name: 100}
        assert (await client.http.get(f"{model.url}/v1/models")).json()["data"][0]["id"] == "fake-model"
        assert (await client.http.head(f"{model.url}/api/hello")).status_code == 200
        assert (model.requests, model.complaints) == ([], [])
        assert (await client.http.post(f"{model.url}/v1/embeddings", json={})).status_code == 404
        assert model.complaints == ["Nothing is known of POST /v1/embeddings."]


async def test_its_end(client: Client) -> None:
    async with FakeModel([[Think("Hm."), Cut()]]) as model:
        url = model.url
        with pytest.raises(ConfigError, match="listens already"):
            await model.__aenter__()
    with pytest.raises(httpx.ConnectError):
        await client.http.get(url)
    with pytest.raises(ClosedError, match="does not listen"):
        model.connector()


def test_without_async() -> None:
    with FakeModel([Say("hello")]) as model:
        request = urllib.request.Request(model.url + "/v1/messages", json.dumps(agents.CLAUDE).encode())
        with urllib.request.urlopen(request) as answer:
            assert said(json.load(answer)) == "hello"
        assert [asked.text for asked in model.requests] == ["hi"]
