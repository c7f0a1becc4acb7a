"""`Assistants`: the service that runs them, for many users at once."""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from copy import deepcopy
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from paddock.assistants.assistant import Assistant, is_assistant, load_assistants
from paddock.assistants.attachments import Fetch
from paddock.assistants.connecting import check_connector, needs_models
from paddock.assistants.desks import Desks
from paddock.assistants.history import History, Whose
from paddock.assistants.order import Means, Order
from paddock.assistants.prompts import moment, variables_for
from paddock.assistants.request import Request
from paddock.consent import Policy, check_policy
from paddock.errors import AgentError, ClosedError, ConfigError, visible
from paddock.finishing import in_thread, to_the_end
from paddock.manager import Manager
from paddock.manager.keys import checked
from paddock.runners import Done, Event, Failed, Message, Run, Sessions
from paddock.runners.messages import Messages, listed
from paddock.runners.shapes import can_be_said

if TYPE_CHECKING:
    from paddock.gateway import Gateway

_LOCALE = re.compile(r"[A-Za-z]{1,8}([-_][A-Za-z0-9]{1,8}){0,8}")


class Assistants:
    """Runs assistants. Use it with `async with`.

    `source` is the folder of one, a folder of several, or assistants that were loaded. Without a manager or a gateway the
    service has its own, by the configuration of this host. `approve` is asked about tools with `consent: ask`; without it
    they are refused.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Assistant | Iterable[Assistant],
        *,
        manager: Manager | None = None,
        gateway: "Gateway | None" = None,
        history: str | os.PathLike[str] | None = None,
        fetch: Fetch | None = None,
        approve: Policy = None,
    ) -> None:
        self._assistants = {one.name: one for one in _loaded(source)}
        self._manager = manager
        self._gateway = gateway
        self._own: list[Manager | Gateway] = []
        self._history = History(None if history is None else Path(history))
        self._fetch = fetch
        check_policy(approve)
        self._approve = approve
        self._desks = Desks()
        self._sessions = Sessions()
        self._stops: set[asyncio.Event] = set()
        self._open = False

    @property
    def assistants(self) -> Mapping[str, Assistant]:
        """Those that there are, by name."""
        return dict(self._assistants)

    async def __aenter__(self) -> Self:
        try:
            await self._begin()
        except BaseException:
            await self.close()
            raise
        self._open = True
        return self

    async def _begin(self) -> None:
        if self._manager is None and any(one.has_sandbox for one in self._assistants.values()):
            self._manager = Manager()
            await self._manager.open()
            self._own.append(self._manager)
        if self._gateway is None and any(needs_models(one) for one in self._assistants.values()):
            from paddock.gateway import Gateway

            self._gateway = Gateway()
            self._own.append(self._gateway)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Interrupt what runs, and let go; idempotent. A manager and a gateway that were given stay open."""
        self._open = False
        for stop in self._stops:
            stop.set()
        await to_the_end(self._let_go())

    async def _let_go(self) -> None:
        """All of it, also if one thing cannot be closed."""
        own, self._own = self._own, []
        async with AsyncExitStack() as things:
            things.push_async_callback(in_thread, self._history.close)
            for one in own:
                things.push_async_callback(one.close)

    def request(
        self,
        assistant: str | Assistant,
        messages: Messages,
        *,
        user: str,
        chat: str,
        variables: Mapping[str, str] | None = None,
        locale: str = "",
        history: bool = True,
    ) -> Run:
        """Give an assistant these messages, and see what it does. The last event is `Done` or `Failed`.

        What was said before in this chat is known to it, and what is said now is kept; without `history` these messages are
        all there is.
        """
        if not self._open:
            raise ClosedError("The service is not open.", hint="Use `async with Assistants(…) as service`.")
        order = self._order(assistant, messages, user, chat, variables or {}, locale, history)
        stop = asyncio.Event()
        return Run(self._events(order, stop), stop)

    async def execute(
        self,
        assistant: str | Assistant,
        messages: Messages,
        *,
        user: str,
        chat: str,
        variables: Mapping[str, str] | None = None,
        locale: str = "",
        history: bool = True,
    ) -> Done:
        """The same, waited for. A request that failed is an `AgentError`."""
        run = self.request(
            assistant, messages, user=user, chat=chat, variables=variables, locale=locale, history=history
        )
        async with run:
            async for event in run:
                if isinstance(event, Done):
                    return event
                if isinstance(event, Failed):
                    raise event.error
        raise AgentError("The request had no end.", agent=str(assistant))

    async def messages(self, assistant: str, *, user: str, chat: str) -> list[Message]:
        """What was said in a chat."""
        whose = Whose(checked("user", user), checked("chat", chat), checked("assistant", assistant))
        return list(await self._history.said(whose))

    async def forget(self, *, user: str, chat: str, assistant: str | None = None) -> int:
        """Forget what was said in a chat, to one assistant or to all; how many conversations that were. Files stay."""
        if assistant is not None:
            checked("assistant", assistant)
        return await self._history.forget(checked("user", user), checked("chat", chat), assistant)

    def _order(
        self,
        assistant: str | Assistant,
        messages: Messages,
        user: str,
        chat: str,
        variables: Mapping[str, str],
        locale: str,
        history: bool,
    ) -> Order:
        """All of it checked. What was said is copied; an assistant is frozen, and its tools may hold what has no copy."""
        found = self._found(assistant)
        said = tuple(deepcopy(listed(messages)))
        _check_said(said)
        checked("user", user)
        checked("chat", chat)
        if needs_models(found):
            check_connector(found, () if self._gateway is None else self._gateway.connectors)
        if locale and not _LOCALE.fullmatch(locale):
            raise ConfigError(f"locale={visible(repr(locale)[:40])} is no language.", hint="Such as 'de' or 'pt-BR'.")
        known = {"user": visible(user), "chat": visible(chat), "assistant": found.name, "locale": locale, "workdir": ""}
        return Order(found, said, user, chat, variables_for(found.variables, variables, {**known, **moment()}), history)

    def _found(self, assistant: str | Assistant) -> Assistant:
        if isinstance(assistant, Assistant):
            return assistant
        if assistant not in self._assistants:
            raise ConfigError(
                f"There is no assistant '{visible(str(assistant))}'.",
                hint=f"Known: {', '.join(sorted(self._assistants)) or 'none'}.",
            )
        return self._assistants[assistant]

    async def _events(self, order: Order, stop: asyncio.Event) -> AsyncGenerator[Event, None]:
        means = Means(
            self._manager, self._gateway, self._history, self._sessions, self._desks, self._fetch, self._approve
        )
        events = Request(order, means, stop).events()
        self._stops.add(stop)
        try:
            async for event in events:
                yield event
        finally:
            self._stops.discard(stop)
            await events.aclose()


def _loaded(source: str | os.PathLike[str] | Assistant | Iterable[Assistant]) -> list[Assistant]:
    if isinstance(source, Assistant):
        return [source]
    if isinstance(source, (str, os.PathLike)):
        return [Assistant.load(source)] if is_assistant(Path(source)) else load_assistants(source)
    found = list(source)
    if len({one.name for one in found}) < len(found):
        raise ConfigError("Two assistants have the same name.", hint="Give each its own.")
    return found


def _check_said(said: Sequence[Message]) -> None:
    """What an agent could not be told, whoever says it hears of at once."""
    if not any(message.role == "user" and _says_something(message) for message in said):
        raise ConfigError("There is no message of the user.", hint="End with what the assistant is to do.")
    if not all(can_be_said(message.text) for message in said):
        raise ConfigError("A message has characters that are none.", hint="Give text, and other data in files.")


def _says_something(message: Message) -> bool:
    parts = () if message.content is None or isinstance(message.content, str) else message.content
    return bool(message.text.strip()) or any(part.get("type", "text") != "text" for part in parts)
