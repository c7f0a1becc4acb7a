"""Where a request works: its lease on a sandbox of the manager's, prepared as the assistant wants it."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from paddock.assistants import attachments
from paddock.assistants.attachments import Said
from paddock.assistants.order import Means, Order
from paddock.assistants.preparing import Preparation
from paddock.assistants.telling import Teller
from paddock.errors import ClosedError
from paddock.manager.keys import as_label
from paddock.runners import Message, Program, Progress, find_agent
from paddock.sandbox import Sandbox
from paddock.sandbox.behalf import act_for
from paddock.types.network import Network


class Place:
    """One request's."""

    def __init__(self, order: Order, means: Means, things: AsyncExitStack, teller: Teller) -> None:
        self._order = order
        self._assistant = order.assistant
        self._means = means
        self._things = things
        self._teller = teller
        self.sandbox: Sandbox | None = None
        self.messages: list[Message] = []
        """What is said now, with the paths of what was sent along."""
        self.desk = 1
        self.program: Program | str = self._assistant.sandbox.agent

    async def settle_in(self, said: Sequence[Said]) -> None:
        """Have it ready. What was taken is given back by the things of the request."""
        lease = await self._lease()
        act_for(lease.sandbox, {"paddock.chat": as_label(self._order.chat)}, self._means.approve)
        self.sandbox = lease.sandbox
        self.desk = self._things.enter_context(self._means.desks.desk(lease.sandbox.id))
        lock = self._things.enter_context(self._means.desks.lock(lease.info.workspace))
        async with lock:
            await Preparation(
                lease.sandbox,
                self._assistant.name,
                self._assistant.path,
                lambda text: self._teller.tell(Progress(text)),
            ).run(self._assistant.sandbox.prepare)
            self.messages = await attachments.put(lease.sandbox, said)

    async def _lease(self) -> Any:
        if self._means.manager is None:
            raise ClosedError("The service is not open.", hint="Use `async with Assistants(…) as service`.")
        settings = self._assistant.sandbox
        times = {name: getattr(settings, name) for name in ("idle_timeout", "lifetime") if getattr(settings, name)}
        leasing = self._means.manager.get_or_create(
            self._order.user,
            self._order.chat,
            policy=settings.policy,
            assistant=self._assistant.name,
            workspace=settings.workspace,
            **times,
            **self._options(),
        )
        return await self._things.enter_async_context(leasing)

    def _options(self) -> dict[str, Any]:
        """The arguments of `Sandbox.create`; those that are not said are the manager's own."""
        settings, found = self._assistant.sandbox, dict[str, Any]()
        if settings.image is None and not self._assistant.is_silent:
            self.program = find_agent(settings.agent)
            found["mounts"] = list(self.program.mounts)
        for name in ("backend", "image", "limits"):
            if getattr(settings, name) is not None:
                found[name] = getattr(settings, name)
        if settings.env:
            found["env"] = dict(settings.env)
        if self._assistant.network != Network.none():
            found["network"] = self._assistant.network
        if self._assistant.secrets:
            found["secrets"] = list(self._assistant.secrets)
        return found
