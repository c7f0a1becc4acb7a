"""Scripts name acts, and the fake finds the tool that the agent has for them."""

import json
from typing import Any

import pytest

from fake_model import agents
from fake_model.conftest import Client
from paddock.testing import FakeModel, Say, Shell, Use

Called = tuple[str, Any]


def called(wire: str, answer: Any) -> list[Called]:
    """The tools that a whole answer calls, with their arguments."""
    if wire == "anthropic":
        return [(block["name"], block["input"]) for block in answer["content"] if block["type"] == "tool_use"]
    if wire == "chat":
        calls = answer["choices"][0]["message"].get("tool_calls") or []
        return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]
    if wire == "responses":
        items = [item for item in answer["output"] if item["type"] == "function_call"]
        return [(f"{item.get('namespace', '')}/{item['name']}", json.loads(item["arguments"])) for item in items]
    parts = answer["candidates"][0]["content"]["parts"]
    return [(part["functionCall"]["name"], part["functionCall"]["args"]) for part in parts if "functionCall" in part]


@pytest.mark.parametrize(
    ("wire", "body", "expected"),
    [
        ("anthropic", agents.CLAUDE, ("Bash", {"command": "ls"})),
        ("chat", agents.OPENCODE, ("bash", {"command": "ls", "description": "A scripted command"})),
        ("responses", agents.CODEX, ("/exec_command", {"cmd": "ls"})),
        ("responses", agents.OLD_CODEX, ("/shell", {"command": ["bash", "-lc", "ls"]})),
        ("gemini", agents.GEMINI, ("run_shell_command", {"command": "ls"})),
    ],
)
async def test_a_shell_command(wire: str, body: Any, expected: Called, client: Client) -> None:
    async with FakeModel([Shell("ls")]) as model:
        assert called(wire, await client.answer(model, wire, body)) == [expected]
        assert model.complaints == []


@pytest.mark.parametrize("server", ["", "tiny"])
@pytest.mark.parametrize(
    ("wire", "body", "name"),
    [
        ("anthropic", agents.CLAUDE, "mcp__tiny__echo"),
        ("anthropic", agents.SEARCHING, "mcp__tiny__echo"),
        ("chat", agents.OPENCODE, "tiny_echo"),
        ("responses", agents.CODEX, "mcp__tiny/echo"),
        ("gemini", agents.GEMINI, "mcp_tiny_echo"),
    ],
)
async def test_a_tool_of_a_server(wire: str, body: Any, name: str, server: str, client: Client) -> None:
    async with FakeModel([Use("echo", {"text": "x"}, server=server)]) as model:
        assert called(wire, await client.answer(model, wire, body)) == [(name, {"text": "x"})]


async def test_a_tool_of_the_agent_s_own_comes_first(client: Client) -> None:
    own = {"name": "echo", "input_schema": agents.ECHO}
    async with FakeModel([Use("echo", {"text": "x"})]) as model:
        body = agents.CLAUDE | {"tools": [*agents.CLAUDE["tools"], own]}
        assert called("anthropic", await client.answer(model, "anthropic", body)) == [("echo", {"text": "x"})]


@pytest.mark.parametrize("wire", agents.PATHS)
async def test_several_at_once(wire: str, client: Client) -> None:
    async with FakeModel([[Say("Both."), Shell("ls"), Use("echo", {"text": "x"})]]) as model:
        answer = await client.answer(model, wire)
        assert len(called(wire, answer)) == 2
        assert "Both." in json.dumps(answer)


@pytest.mark.parametrize(
    ("part", "told"),
    [
        (Use("nothing"), "call the tool 'nothing', which is not offered. Offered: Bash, mcp__tiny__echo."),
        (Use("echo", server="other"), "call other's tool 'echo', which is not offered."),
    ],
)
async def test_what_is_not_offered_is_said(part: Use, told: str, client: Client) -> None:
    async with FakeModel([part]) as model:
        answer = await client.answer(model, "anthropic")
        assert told in answer["content"][0]["text"]
        assert answer["stop_reason"] == "end_turn"
        assert model.complaints == [answer["content"][0]["text"]]


async def test_no_tool_for_commands(client: Client) -> None:
    async with FakeModel([Shell("ls")]) as model:
        body = {"model": "m", "messages": agents.HI}
        answer = await client.answer(model, "chat", body)
        assert "No tools are offered." in answer["choices"][0]["message"]["content"]


async def test_two_servers_with_such_a_tool(client: Client) -> None:
    both = {"tools": [{"name": f"mcp__{name}__echo", "input_schema": agents.ECHO} for name in ("one", "two")]}
    async with FakeModel([Use("echo"), Use("echo", server="two")]) as model:
        said = await client.answer(model, "anthropic", agents.CLAUDE | both)
        assert "mcp__one__echo, mcp__two__echo. Name its server." in said["content"][0]["text"]
        found = await client.answer(model, "anthropic", agents.CLAUDE | both)
        assert called("anthropic", found) == [("mcp__two__echo", {})]
