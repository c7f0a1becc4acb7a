"""The model's part of a request without a sandbox: asked from here, with tools that run here."""

import logging
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING

from paddock.assistants.assistant import READER
from paddock.assistants.attachments import Said
from paddock.assistants.environment import system_prompt
from paddock.assistants.order import Means, Order
from paddock.assistants.telling import Teller
from paddock.bridge import Caller, Tool, sdk
from paddock.documents import read_text
from paddock.errors import BridgeError, ConfigError
from paddock.runners import Event, Message
from paddock.skills import Skill, skills_prompt
from paddock.skills.skill import FILES

if TYPE_CHECKING:
    from paddock.bridge.host import HostTools

_log = logging.getLogger("paddock.assistants")


class ModelWork:
    """A model that is asked for one request."""

    def __init__(self, order: Order, means: Means, teller: Teller) -> None:
        if means.gateway is None:
            raise ConfigError("There is no gateway to ask a model by.", hint="Give gateway=, or configure a connector.")
        self._order = order
        self._assistant = order.assistant
        self._gateway = means.gateway
        self._approve = means.approve
        self._teller = teller

    async def events(
        self, before: Sequence[Message], now: Sequence[Said], variables: dict[str, str]
    ) -> AsyncGenerator[Event, None]:
        """What it says, and which tools it has used. The last is `Done` or `Failed`."""
        models = self._gateway.direct(self._assistant.connector, user=self._order.user, chat=self._order.chat)
        said = [*(Said(message.role, (message.text,)) for message in before), *now]
        async with AsyncExitStack() as things:
            doing = self._teller.doing(self._begun(things))
            async with aclosing(doing):
                async for event in doing:
                    yield event
            from paddock.assistants.direct import DirectRun  # which needs the gateway's packages

            run = DirectRun(models, doing.result, self._assistant.sandbox.options, self._teller.stop)
            async with aclosing(run.events(self._system(variables), said)) as events:
                async for event in events:
                    yield event

    async def _begun(self, things: AsyncExitStack) -> "HostTools | None":
        """Tools, for as long as they are needed. Servers take their time to start."""
        given = [*self._assistant.tools, *(spec.server() for spec in self._assistant.servers)]
        given += [Tool(_reader(self._assistant.skills), READER)] if self._assistant.skills else []
        if not given:
            return None
        sdk.need()
        from paddock.bridge.host import HostTools

        caller = Caller("direct", self._order.user, self._order.chat)
        return await things.enter_async_context(HostTools(caller, given, self._approve))

    def _system(self, variables: dict[str, str]) -> str:
        own = self._assistant.sandbox.options.system
        skills = skills_prompt(self._assistant.skills, READER)
        return "\n\n".join(text for text in (own, system_prompt(self._assistant, variables, None), skills) if text)


def _reader(skills: Sequence[Skill]) -> Callable[[str], str]:
    """What that tool does."""
    known = {skill.name: skill.path for skill in skills}

    def read_skill(name: str) -> str:
        """What a skill says, by its name."""
        if name not in known:
            raise BridgeError(f"There is no skill {name!r}.", hint=f"Known: {', '.join(known)}.")
        files = [os.path.join(known[name], file) for file in FILES]
        try:
            return read_text(next((file for file in files if os.path.exists(file)), files[0]))
        except ConfigError as error:  # where it is on this host is not for a model
            _log.error("a skill cannot be read: %s", error)
            raise BridgeError(f"The skill {name!r} cannot be read.", hint="Go on without it.") from None

    return read_skill
