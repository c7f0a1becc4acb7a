"""Services over real sandboxes and a model that does what it is told."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from assistants.folders import made
from paddock import Gateway, Manager
from paddock.assistants import Assistant, Assistants
from paddock.runners import Done, Event, Failed
from paddock.testing import FakeModel, Say

EXAMPLES = Path(__file__).parents[2] / "examples" / "assistants"
SCRIPTED = "sandbox: {agent: scripted, policy: session}\n"
HELLO = (Say("Hello."),)
PROMPTS = "system: You do what you are told.\n"


@dataclass
class Stage:
    """A service, and all that it works with."""

    service: Assistants
    manager: Manager
    model: FakeModel
    events: list[Event] = field(default_factory=list)

    async def run(
        self, messages: Any, assistant: str = "a", user: str = "ann", chat: str = "1", **more: Any
    ) -> Done | Failed:
        """One request to its end."""
        run = self.service.request(assistant, messages, user=user, chat=chat, **more)
        self.events = [event async for event in run]
        last = self.events[-1]
        assert isinstance(last, (Done, Failed)), last
        assert not any(isinstance(event, (Done, Failed)) for event in self.events[:-1])
        return last

    async def done(self, messages: Any, **more: Any) -> str:
        """The reply of one that goes well."""
        last = await self.run(messages, **more)
        assert isinstance(last, Done), last
        return last.text

    async def failed(self, messages: Any, **more: Any) -> Any:
        """The error of one that does not."""
        last = await self.run(messages, **more)
        assert isinstance(last, Failed), last
        return last.error

    def of(self, kind: type[Any]) -> list[Any]:
        """The events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]

    async def put_away(self) -> bool:
        """Whether no request has anything any more."""
        infos = await self.manager.list()
        return all(info.leases == 0 for info in infos) and not self.service._desks._taken


Staged = Callable[..., AbstractAsyncContextManager[Stage]]


@pytest.fixture
def staged(tmp_path: Path) -> Staged:
    """`async with staged(a=dict(assistant_yml=…)) as stage`."""

    @asynccontextmanager
    async def make(
        script: Any = HELLO, *, connector: Any = None, manager: Any = None, approve: Any = None, **assistants: Any
    ) -> AsyncIterator[Stage]:
        loaded: list[Assistant] = [
            files if isinstance(files, Assistant) else made(tmp_path / "assistants" / name, **files)
            for name, files in assistants.items()
        ]
        terms = {"model": "fake-model", "retries": 0, **(connector or {})}
        wire = terms.pop("wire", "anthropic")
        async with (
            FakeModel(script) as model,
            Gateway(model.connector(wire, **terms)) as gateway,
            Manager(backend="namespaces", sweep_every=None, **(manager or {})) as keeper,
        ):
            async with Assistants(loaded, manager=keeper, gateway=gateway, approve=approve) as service:
                yield Stage(service, keeper, model)
            for info in await keeper.list():
                assert info.leases == 0
                await keeper.remove(info.user, info.chat, assistant=info.assistant)

    return make
