"""The agent's part of a request: its tools, its models, its skills, and its home."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.assistants.assistant import Assistant
from paddock.assistants.environment import system_prompt
from paddock.assistants.order import Means
from paddock.assistants.place import Place
from paddock.assistants.telling import Teller
from paddock.driver import HOME
from paddock.errors import ClosedError, SandboxError
from paddock.finishing import to_the_end
from paddock.runners import Event, Log, Message, Program, Progress, Runner
from paddock.runners.preparing import profile_place
from paddock.runners.registry import load
from paddock.sandbox import Sandbox

if TYPE_CHECKING:
    from paddock.gateway import Attachment


class AgentWork:
    """An agent at work for one request. Whoever is not alone in the sandbox has a home of its own, without a session."""

    def __init__(self, assistant: Assistant, means: Means, place: Place, teller: Teller) -> None:
        if place.sandbox is None:
            raise ClosedError("There is no sandbox.", hint="Settle in first.")
        self._assistant = assistant
        self._means = means
        self._sandbox: Sandbox = place.sandbox
        self._program = place.program
        self._teller = teller
        self.aside = place.desk > 1
        self._profile = assistant.name if not self.aside else f"{assistant.name}.{place.desk}"

    async def events(
        self, messages: Sequence[Message], variables: dict[str, str], session: str | None
    ) -> AsyncGenerator[Event, None]:
        """What it does. The last is `Done` or `Failed`."""
        async with AsyncExitStack() as things:
            if self.aside:
                session = None
                things.push_async_callback(self._forget_home)
            doing = self._teller.doing(self._provide(things))
            async with aclosing(doing):
                async for event in doing:
                    yield event
            runner = self._runner(doing.result, variables, session)
            run = runner.stream(messages)
            stopping = asyncio.ensure_future(self._teller.stop.wait())
            stopping.add_done_callback(lambda done: None if done.cancelled() else run.interrupt())
            try:
                async with aclosing(run):
                    async for event in run:
                        yield event
            finally:
                stopping.cancel()

    async def _provide(self, things: AsyncExitStack) -> "Attachment | None":
        """Tools and models, for as long as it works."""
        given = [*self._assistant.tools, *(spec.server() for spec in self._assistant.servers)]
        if given:
            granted = await self._sandbox.grant(*given)
            self._teller.tell(Log(f"Loaded {len(granted)} tools: {', '.join(one.name for one in granted)}", "paddock"))
        name = self._program.agent if isinstance(self._program, Program) else self._program
        if self._means.gateway is None or not load(name).needs_models:
            return None
        models = await self._means.gateway.attach(self._sandbox, self._assistant.connector)
        things.push_async_callback(lambda: to_the_end(models.close()))
        self._teller.tell(Progress(f"models by {models.connector.name}"))
        return models

    def _runner(self, models: "Attachment | None", variables: dict[str, str], session: str | None) -> Runner:
        settings = self._assistant.sandbox
        system = system_prompt(self._assistant, variables, self._sandbox.workdir)
        system = "\n\n".join(text for text in (settings.options.system, system) if text)
        return Runner(
            self._program,
            self._sandbox,
            models,
            options=replace(settings.options, system=system),
            skills=self._assistant.skills,
            session=session,
            memory=None if session is None else self._means.sessions,
            profile=self._profile,
        )

    async def _forget_home(self) -> None:
        with suppress(SandboxError):
            await to_the_end(self._sandbox.delete(f"{HOME}/{profile_place(self._profile)}", recursive=True))
