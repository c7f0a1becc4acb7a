"""Many at once: 50 requests over 20 chats and 5 assistants, with and without an agent. Each word belongs to one of them."""

import asyncio
import json
import re
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

import detached
from assistants.conftest import PROMPTS, Stage, Staged
from paddock import Sandbox
from paddock.runners import Done, ToolResult
from paddock.testing import Say

AGENTS = [f"agent{number}" for number in range(2)]
"""They work on files."""
ASKING = ["asking0"]
"""It asks the model from its sandbox."""
MODELS = [f"model{number}" for number in range(2)]
"""They have no sandbox."""
EVERYBODY = AGENTS + ASKING + MODELS
CHATS = [(f"user{number % 7}", f"chat{number % 6}") for number in range(20)]
"""Twenty of them: several users have chats of the same name."""
WORD = re.compile(r"\bword\d+\b")
HOOKS = """
    async def create(ctx, messages):
        ctx.state["mine"] = (ctx.user, ctx.chat, messages[-1].text)

    async def next(ctx, reply):
        assert ctx.state["mine"] == (ctx.user, ctx.chat, ctx.messages[-1].text)
        return f"{ctx.assistant} for {ctx.user} in {ctx.chat}: {reply.text}"
"""

Whose = tuple[str, str, str]
"""An assistant, a user, a chat."""


@pytest.fixture(autouse=True)
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for it, where it is looked for."""
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    shutil.copy(Path(__file__).parent / "claude_stand_in.py", program)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/local/bin:/usr/bin:/bin")


def _files(name: str) -> dict[str, str]:
    agent = "scripted" if name in AGENTS else "claude" if name in ASKING else '""'
    prompts = PROMPTS.replace("You", f"I am {name}. For {{{{user}}}} in {{{{chat}}}}. You")
    yml = f"sandbox: {{agent: {agent}, policy: session}}\n"
    return {"assistant_yml": yml, "prompts_yml": prompts, "hooks_py": HOOKS}


def _whose(asked: Any) -> Whose:
    """For whom the model is asked: its system prompt says it."""
    found = re.search(r"I am (\w+)\. For (\w+) in (\w+)\.", json.dumps(asked.body["system"]))
    assert found is not None
    return found[1], found[2], found[3]


async def _answer(asked: Any) -> Any:
    """The model says who it was told to be, and the last word that it was told."""
    await asyncio.sleep(0.01)
    said = asked.body["messages"][-1]["content"]
    text = said if isinstance(said, str) else said[0]["text"]
    return Say(f"{_whose(asked)[0]} hears {text.split()[-1]}")


async def _one(stage: Stage, number: int, name: str, user: str, chat: str) -> set[str]:
    """The words that tools gave back."""
    word = f"word{number}"
    text = f"run echo {word} >> {name}.log; cat *.log\nsay {word}" if name in AGENTS else word
    events = [event async for event in stage.service.request(name, text, user=user, chat=chat)]
    last = events[-1]
    assert isinstance(last, Done), last
    reply = word if name in AGENTS else f"{name} hears {word}"
    assert last.text == f"{name} for {user} in {chat}: {reply}"
    outputs = [event.output for event in events if isinstance(event, ToolResult)]
    assert len(outputs) == (name in AGENTS)
    assert all(word in WORD.findall(output) for output in outputs)
    return set(WORD.findall(" ".join(outputs)))


def _orders(count: int, seed: int) -> list[tuple[int, str, str, str]]:
    chance = Random(seed)
    orders = [(number, chance.choice(EVERYBODY), *CHATS[number % len(CHATS)]) for number in range(count)]
    assert len({order[1] for order in orders}) == 5
    assert len({order[2:] for order in orders}) == 20
    return orders


async def _run(stage: Stage, orders: list[tuple[int, str, str, str]]) -> None:
    outputs = await asyncio.gather(*(_one(stage, *order) for order in orders))
    words: dict[Whose, set[str]] = {}
    for number, *whose in orders:
        words.setdefault((whose[0], whose[1], whose[2]), set()).add(f"word{number}")
    for (_, _, user, chat), seen in zip(orders, outputs, strict=True):
        assert seen <= {word for whose, theirs in words.items() if whose[1:] == (user, chat) for word in theirs}
    for (name, user, chat), expected in words.items():
        said = [message.text for message in await stage.service.messages(name, user=user, chat=chat)]
        assert set(WORD.findall(" ".join(said))) == expected
    _requests_are_right(stage, words)
    await _files_are_right(stage, words)
    assert await stage.put_away()
    assert stage.model.complaints == []


def _requests_are_right(stage: Stage, words: dict[Whose, set[str]]) -> None:
    """A model is told the words of one assistant in one chat, and each of these."""
    told: dict[Whose, set[str]] = {}
    for asked in stage.model.requests:
        told.setdefault(_whose(asked), set()).update(WORD.findall(json.dumps(asked.body)))
    assert told == {whose: theirs for whose, theirs in words.items() if whose[0] not in AGENTS}


async def _files_are_right(stage: Stage, words: dict[tuple[str, str, str], set[str]]) -> None:
    """A workspace has the words of its chat, and no others."""
    for info in await stage.manager.workspaces():
        for name in AGENTS:
            log = Path(info.path) / f"{name}.log"
            found = set(log.read_text().split()) if log.exists() else set()
            assert found == words.get((name, info.user, str(info.chat)), set())


async def test_fifty_requests_over_twenty_chats_and_five_assistants(staged: Staged, tmp_path: Path) -> None:
    everybody = {name: _files(name) for name in EVERYBODY}
    async with staged(_answer, **everybody) as stage:
        await _run(stage, _orders(50, 1))
        assert await stage.manager.stats()
    assert await Sandbox.find() == []

    async def is_clear() -> bool:
        return detached.left() == [] and detached.seeing(str(tmp_path)) == []

    await detached.until(is_clear, "something is left")


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 6))
async def test_hundreds_of_requests(staged: Staged, seed: int) -> None:
    everybody = {name: _files(name) for name in EVERYBODY}
    async with staged(_answer, **everybody) as stage:
        await _run(stage, _orders(300, seed))
