"""Lines for which nobody vouches: cut off, out of order, or of another shape. Every agent's reader takes all of them."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock import Gateway, Sandbox
from paddock.runners import Done, Failed, Options, Program, Runner
from paddock.runners.agent import Inside, Task
from paddock.runners.messages import conversation
from paddock.runners.registry import agents, load
from paddock.testing import FakeModel

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.jsonl"))
RECORDED = [path for path in TRANSCRIPTS if path.name.partition("_")[0] in agents()]
SHAPES: tuple[Any, ...] = (None, True, -1, 1e400, 10**400, "x", [], [7], {}, {"type": 3, "text": []})
INSIDE = Inside("/home/agent", "/workspace", ("x",), url="http://127.0.0.1:1", model="m")
each = pytest.mark.parametrize("path", RECORDED, ids=[path.stem for path in RECORDED])


def agent_of(path: Path) -> str:
    return path.name.partition("_")[0]


def reader_of(path: Path) -> Any:
    return load(agent_of(path)).reader(Task(conversation("Do it."), Options(), INSIDE, "id"))


def variants(value: Any) -> Iterator[Any]:
    """The value with each part of it, in turn, as something else."""
    yield from SHAPES
    if isinstance(value, dict):
        for name, inner in value.items():
            yield {key: kept for key, kept in value.items() if key != name}
            yield from ({**value, name: other} for other in variants(inner))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from ([*value[:at], other, *value[at + 1 :]] for other in variants(inner))


@each
def test_other_shapes_never_raise(path: Path) -> None:
    """After all that came before, and each by a reader that is used on."""
    reader, seen = reader_of(path), set()
    for line in map(json.loads, path.read_text().splitlines()):
        shape = (str(line.get("type")), str(line.get("subtype")), *sorted(line.get("item") or line.get("part") or ()))
        if shape not in seen:
            seen.add(shape)
            for other in variants(line):
                if isinstance(other, dict):
                    list(reader.feed(other))
        list(reader.feed(line))
    assert isinstance(reader.finish(1, "gone"), (Done, Failed))


def damaged(text: str) -> Iterator[str]:
    lines, chance = text.splitlines(keepends=True), random.Random(7)
    yield text[: len(text) // 2]
    yield text[: -len(lines[-1]) // 2]
    yield "".join(reversed(lines))
    yield "".join(chance.sample(lines, len(lines)))
    yield text + text
    yield "".join(f'{line}\x00\xff[[[[ not JSON\n42\n"text"\nnull\n[1]\n{{"type": {{}}}}\n' for line in lines)


@pytest.mark.parametrize("agent", sorted({agent_of(path) for path in RECORDED}))
async def test_there_is_one_end_whatever_comes(agent: str) -> None:
    """By a program that prints the lines as they were, and then others."""
    program = Program(agent, ("sh", "-c", "cat /workspace/lines", "sh"))
    paths = [path for path in RECORDED if agent_of(path) == agent]
    async with (
        FakeModel([]) as model,
        Gateway(model.connector("anthropic")) as gateway,
        Sandbox.create() as sb,
    ):
        runner = Runner(program, sb, await gateway.attach(sb), options=Options(model="m", timeout=60))
        for text in (text for path in paths for text in damaged(path.read_text())):
            await sb.write("lines", text)
            events = [event async for event in runner.stream("Do it.")]
            assert [type(event) for event in events if isinstance(event, (Done, Failed))] == [type(events[-1])]


def test_modes_that_are_none() -> None:
    reader = load("acp").reader(Task(conversation("Do it."), Options(permission="plan"), INSIDE, "id"))
    list(reader.feed({"id": 0, "result": {"protocolVersion": 1}}))
    modes = {"availableModes": [{"id": []}, {"id": {}}, {}]}
    assert isinstance([*reader.feed({"id": 1, "result": {"sessionId": "s", "modes": modes}})][-1], Failed)
