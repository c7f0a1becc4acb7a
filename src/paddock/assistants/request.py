"""One request, from what was said before to what is said now: history, sandbox, create, agent, next; and clean-up, always."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace

from paddock.assistants import attachments
from paddock.assistants.agent import AgentWork
from paddock.assistants.attachments import Said
from paddock.assistants.context import Context
from paddock.assistants.failing import as_it_is, for_the_user
from paddock.assistants.folding import folded
from paddock.assistants.history import Thread
from paddock.assistants.hooks import Reply
from paddock.assistants.model import ModelWork
from paddock.assistants.order import Means, Order
from paddock.assistants.place import Place
from paddock.assistants.telling import Doing, Interrupted, Teller
from paddock.errors import SandboxError
from paddock.finishing import to_the_end
from paddock.runners import Done, Event, Failed, Log, Message, Progress, failures
from paddock.sandbox import Sandbox

_log = logging.getLogger("paddock.assistants")


class Request:
    """One request on its way."""

    def __init__(self, order: Order, means: Means, stop: asyncio.Event) -> None:
        self._order = order
        self._assistant = order.assistant
        self._means = means
        self._teller = Teller(stop)
        self._things = AsyncExitStack()
        self._place = Place(order, means, self._things, self._teller)
        self._heard: str | None = None
        """The agent's own session that hears what is said."""

    async def events(self) -> AsyncGenerator[Event, None]:
        """All that happens. The last is `Done` or `Failed`; by then everything is put away."""
        began = time.monotonic()
        last: Done | Failed = Failed(failures.interrupted(self._assistant.name))
        try:
            async with aclosing(self._steps()) as steps:
                async for event in steps:
                    if isinstance(event, (Done, Failed)):
                        last = event
                        break
                    yield event
        except Interrupted:
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is, a request has an end
            last = Failed(for_the_user(self._assistant.name, error))
        finally:
            await self._put_away()
        yield replace(last, seconds=time.monotonic() - began)

    async def _put_away(self) -> None:
        try:
            await to_the_end(self._things.aclose())
        except Exception:  # noqa: BLE001 - the request itself has ended
            _log.exception("after a request to the assistant %s something was not put away", self._assistant.name)

    async def _steps(self) -> AsyncGenerator[Event, None]:
        thread = await self._remembered()
        reading = self._teller.doing(
            attachments.read(self._order.messages, self._assistant.attachments, self._means.fetch)
        )
        async with aclosing(reading):
            async for event in reading:
                yield event
        said = self._allowed(reading)
        if self._assistant.has_sandbox:
            async with aclosing(self._settle_in(said)) as events:
                async for event in events:
                    yield event
        ctx = self._context(thread, said)
        self._things.callback(ctx.leave)
        doing = self._teller.doing(self._assistant.hooks.create(ctx, list(ctx.messages)))
        async with aclosing(doing):
            async for event in doing:
                yield event
        reply: Done | None = None
        async with aclosing(self._work(doing.result, ctx, thread, said)) as events:
            async for event in events:
                if isinstance(event, Failed):
                    yield event
                    return
                if isinstance(event, Done):
                    reply = event
                else:
                    yield event
        async with aclosing(self._finish(ctx, reply or Done(""), said)) as events:
            async for event in events:
                yield event

    def _allowed(self, reading: Doing[list[Said]]) -> list[Said]:
        """What is said, if all that was sent along may be."""
        try:
            return reading.result
        except SandboxError as error:
            raise as_it_is(self._assistant.name, "attachments", error) from error

    async def _remembered(self) -> Thread:
        if not self._order.remembers:
            return Thread("", 0, ())
        return await self._means.history.read(self._order.whose, self._assistant.history)

    async def _settle_in(self, said: Sequence[Said]) -> AsyncGenerator[Event, None]:
        """A sandbox, with what the assistant wants done in it, and with what was sent along."""
        yield Progress("creating the sandbox", "creating")
        try:
            doing = self._teller.doing(self._place.settle_in(said))
            async with aclosing(doing):
                async for event in doing:
                    yield event
            doing.result  # noqa: B018 - or its error
        except Interrupted:
            yield Progress("the sandbox failed: it was interrupted", "failed")
            raise
        except Exception as error:
            told = for_the_user(self._assistant.name, error)
            yield Progress(f"the sandbox failed: {told.message}", "failed")
            raise told from error
        yield Progress("the sandbox is ready", "ready")

    def _context(self, thread: Thread, said: Sequence[Said]) -> Context:
        return Context(
            self._order.user,
            self._order.chat,
            self._assistant.name,
            [*thread.messages, *self._now(said)],
            self.sandbox,
            {**self._order.variables, "workdir": self.sandbox.workdir if self.sandbox else ""},
            tell=lambda text: self._teller.tell(Log(text, "hook")),
            loop=self._teller.loop,
        )

    def _now(self, said: Sequence[Said]) -> list[Message]:
        return self._place.messages if self._assistant.has_sandbox else [one.message() for one in said]

    @property
    def sandbox(self) -> Sandbox | None:
        """Where it works, if there is one."""
        return self._place.sandbox

    async def _work(
        self, told: list[Message] | Reply, ctx: Context, thread: Thread, said: Sequence[Said]
    ) -> AsyncGenerator[Event, None]:
        """The agent's part, or the model's. A hook that has answered needs neither."""
        if isinstance(told, Reply) or self._assistant.is_silent:
            yield Done(told.text if isinstance(told, Reply) else "", f"skip-{id(self):x}")
            return
        examples = self._assistant.prompts.messages(ctx.variables)
        if self._place.sandbox is not None:
            work = AgentWork(self._assistant, self._means, self._place, self._teller)
            session = thread.session if self._order.remembers and self._assistant.history else None
            self._heard = None if work.aside else session
            events = work.events([*examples, *folded(told, thread.messages)], ctx.variables, session)
        else:
            whole = [*examples, *told]
            same = whole[-len(said) :] == [one.message() for one in said]  # or a hook has put others in their place
            before, now = (whole[: -len(said)], said) if same else (whole, ())
            events = ModelWork(self._order, self._means, self._teller).events(before, now, ctx.variables)
        async with aclosing(events):
            async for event in events:
                yield event

    async def _finish(self, ctx: Context, reply: Done, said: Sequence[Said]) -> AsyncGenerator[Event, None]:
        doing = self._teller.doing(self._assistant.hooks.next(ctx, reply))
        async with aclosing(doing):
            async for event in doing:
                yield event
        text = doing.result
        if self._order.remembers:
            turn = [*self._now(said), Message("assistant", text)]
            await to_the_end(self._means.history.add(self._order.whose, turn, self._heard))
        yield replace(reply, text=text)
