"""`Runner`: an agent in a sandbox, as users hold it."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterable, Iterator
from contextlib import aclosing, suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from paddock.driver import HOME
from paddock.errors import AgentError, ConfigError, SandboxError
from paddock.finishing import to_the_end
from paddock.runners import failures, keys, preparing, registry, sessions
from paddock.runners.agent import Inside, Launch, Task
from paddock.runners.events import Done, Event, Failed, Log, Progress, Started
from paddock.runners.messages import Conversation, Messages, conversation
from paddock.runners.options import Options
from paddock.runners.programs import Program
from paddock.runners.pump import Instead, within
from paddock.runners.running import Running
from paddock.runners.sessions import Marks, Sessions
from paddock.sandbox import Sandbox
from paddock.skills import Skill

if TYPE_CHECKING:
    from paddock.gateway import Attachment

_Came = TypeVar("_Came")
_FORGOTTEN = "The agent has nothing left of the conversation: it begins anew, and knows what it is told now."


class Run(AsyncIterator[Event]):
    """The events of one run. As a context manager it ends the agent at the end of the block."""

    def __init__(self, events: AsyncGenerator[Event, None], stop: asyncio.Event) -> None:
        self._events = events
        self._stop = stop

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        return await anext(self._events)

    def interrupt(self) -> None:
        """End the agent, with all that it started, within a second. Its last event is `Failed`, of the kind `interrupted`."""
        self._stop.set()

    async def aclose(self) -> None:
        """End it without waiting for its last words; idempotent."""
        await self._events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Runner:
    """Runs an agent in a sandbox."""

    def __init__(
        self,
        agent: str | Program,
        sandbox: Sandbox,
        models: "Attachment | None" = None,
        *,
        options: Options = Options(),  # noqa: B008 - frozen
        skills: Iterable[Skill] = (),
        session: str | None = None,
        memory: Sessions | None = None,
        profile: str | None = None,
        key: str | None = None,
    ) -> None:
        """`agent` is what `find_agent` found, or the name of one whose program is in the sandbox's image.

        `models` is what `Gateway.attach` gave, `skills` what `load_skills` did. With a `session` a conversation goes on where
        the same one was used in this sandbox before, or anywhere with `memory`, which keeps it on this host. A `profile` has
        a home of its own: its configuration, its skills and what it remembers. `key` is for an agent that asks a provider of
        its own, and goes inside: into the environment of its program.
        """
        self.program = agent if isinstance(agent, Program) else Program(agent, registry.load(agent).command)
        self.agent = registry.load(self.program.agent)
        self.sandbox = sandbox
        self.options = options
        self._models = models
        self.agent.check(options)
        keys.need_models(self.agent, models)
        self._keys = keys.given(self.agent, key)
        self._skills = tuple(skills)
        self._session = sessions.session_id(session, profile)
        self._goes_on = session is not None
        self._memory = memory
        self._home = HOME if profile is None else f"{HOME}/{preparing.profile_place(profile)}"
        self._marks = Marks(sandbox, self._home, self.agent.name)

    def stream(self, messages: Messages) -> Run:
        """Give it these messages, and see what it does. The last event is `Done` or `Failed`, whatever fails.

        What has to be changed before it can run, here or in the first steps, is a `ConfigError` all the same.
        """
        stop = asyncio.Event()
        return Run(self._events(conversation(messages), stop), stop)

    async def execute(self, messages: Messages) -> Done:
        """Give it these messages, and wait for its reply. A run that failed is an `AgentError`."""
        async with self.stream(messages) as run:
            async for event in run:
                if isinstance(event, Done):
                    return event
                if isinstance(event, Failed):
                    raise event.error
        raise AgentError("The run had no end.", agent=self.agent.name)

    async def _events(self, said: Conversation, stop: asyncio.Event) -> AsyncGenerator[Event, None]:
        began = time.monotonic()
        until = began + self.options.timeout
        yield Progress(f"preparing {self.agent.title}")
        try:
            inside, known = await self._in_time(self._prepare(), stop, until)
            async with aclosing(self._kept(said, inside, known, stop, until)) as events:
                async for event in events:
                    yield event
        except ConfigError:
            raise
        except SandboxError as error:
            yield Failed(failures.of_sandbox(self.agent.name, error), seconds=time.monotonic() - began)

    async def _kept(
        self, said: Conversation, inside: Inside, known: str | None, stop: asyncio.Event, until: float
    ) -> AsyncGenerator[Event, None]:
        """All that it does; what it remembers is kept before the end is told, and a remark says if it could not be."""
        last: list[Event] = []
        try:
            async with aclosing(self._attempts(said, inside, known, stop, until)) as events:
                async for event in events:
                    if isinstance(event, (Done, Failed)):
                        last.append(event)
                    else:
                        yield event
        finally:
            trouble = await to_the_end(self._remember())
        if trouble is not None:
            yield Log(trouble, "paddock")
        for event in last:
            yield event

    async def _attempts(
        self, said: Conversation, inside: Inside, known: str | None, stop: asyncio.Event, until: float
    ) -> AsyncGenerator[Event, None]:
        """One after another, until one finds the conversation that it goes on with, or a name that is free. One that has
        begun to work is the last, whatever it says in the end: nothing is done twice."""
        *ways, last = self._ways(known)
        for session, resume in (*ways, last):
            task = Task(said, self.options, inside, session, resume)
            may_retry = (session, resume) != last
            async with aclosing(self._run(task, stop, until)) as events:
                async for event in events:
                    if may_retry and isinstance(event, Failed) and event.error.kind == "no_session":
                        break
                    may_retry = may_retry and isinstance(event, (Progress, Log))
                    yield event
                    if known is not None and isinstance(event, Started) and not event.resumed:
                        yield Log(_FORGOTTEN, "paddock")
                else:
                    return
            await self._marks.remove(self._session)

    def _ways(self, known: str | None) -> Iterator[tuple[str, str | None]]:
        """Where it was, or from the beginning if nothing is left of that. The agent can remove its mark, or write another
        one: then its program has a conversation of this name already, and goes on with it, or takes a new name."""
        if known is not None:
            yield self._session, known
        yield self._session, None
        if self._goes_on:
            yield self._session, self._session
            yield sessions.session_id(None), None

    async def _run(self, task: Task, stop: asyncio.Event, until: float) -> AsyncGenerator[Event, None]:
        launch = await self._in_time(self._launch(task), stop, until)
        reader, keys = self.agent.reader(task), tuple(self._keys.values())
        running = Running(self.agent, reader, self.options, stop, until, self._models, keys)
        async with aclosing(running.events(self.sandbox, launch)) as events:
            async for event in events:
                if isinstance(event, Started) and event.session and self._goes_on:
                    await self._marks.set(self._session, event.session)
                yield event

    async def _in_time(self, work: Coroutine[Any, Any, _Came], stop: asyncio.Event, until: float) -> _Came:
        """What has to be done before the agent runs, which may be in a sandbox where nothing answers."""
        came = await within(work, until - time.monotonic(), stop)
        if came is Instead.STOPPED:
            raise failures.interrupted(self.agent.name)
        if isinstance(came, Instead):
            raise failures.timeout(self.agent.name, self.options.timeout)
        return came

    async def _prepare(self) -> tuple[Inside, str | None]:
        inside = await preparing.prepare(self.sandbox, self.agent, self.program, self._home, self._skills, self._models)
        return inside, await self._known()

    async def _launch(self, task: Task) -> Launch:
        launch = self.agent.launch(task)
        await preparing.write(self.sandbox, self._home, launch.files)
        if self._keys:
            self.sandbox.note_secret(f"the key of {self.agent.title}, in the environment of its program")
            launch = replace(launch, env={**launch.env, **self._keys})
        return launch

    async def _known(self) -> str | None:
        """What the agent's program calls the conversation, if it is to go on."""
        if not self._goes_on:
            return None
        name = await self._marks.known(self._session)
        if name is None and self._memory is not None:
            with suppress(SandboxError):  # its home may be of a kind in which nothing can be put
                await self._memory.restore(self.sandbox, self._home, self.agent.name, self._session)
            name = await self._marks.known(self._session)
        return name

    async def _remember(self) -> str | None:
        """What to say if it could not be: it is the run's own end that counts, whatever the agent has made of its home."""
        if self._memory is None or not self._goes_on:
            return None
        try:
            await self._memory.save(self.sandbox, self._home, self.agent.name, self._session, self.agent.sessions)
        except (SandboxError, OSError) as error:
            words = error.message if isinstance(error, SandboxError) else str(error.strerror or error)
            return f"The conversation is not kept for another sandbox: {words}"
        return None
