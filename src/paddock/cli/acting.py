"""An agent in a sandbox, shown while it works; then somebody decides about what it changed."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass, field

from paddock.cli.around import connected, exposed, kept_for_later, kept_if_cut_off, note, reviewed
from paddock.cli.ending import INTERRUPTED, tell
from paddock.cli.views import View
from paddock.errors import AgentError
from paddock.runners import Done, Failed, Options, Program, Run, Runner, Sessions
from paddock.sandbox import Creation, Sandbox
from paddock.skills import Skill

UNDONE = 1


@dataclass(frozen=True, slots=True)
class Job:
    """What an agent is to do, and where."""

    place: Creation
    program: Program
    prompt: str
    options: Options
    skills: Sequence[Skill]
    session: str
    memory: Sessions
    profile: str | None = None
    connector: str | None = None
    expose: Sequence[int] = ()
    review: bool = False
    as_json: bool = False
    quiet: bool = False
    key: str | None = field(default=None, repr=False)


async def done(job: Job, view: View) -> int:
    """The whole of it; the exit code."""
    with closing(view):
        async with job.place as sb, connected(sb, job.connector) as models, exposed(sb, job.expose), _decided(sb, job):
            note(sb, job.quiet)
            runner = Runner(
                job.program,
                sb,
                models,
                options=job.options,
                skills=job.skills,
                session=job.session,
                memory=job.memory,
                profile=job.profile,
                key=job.key,
            )
            end = await watched(runner.stream(job.prompt), view)
            if isinstance(end, Failed) and not job.as_json:
                tell(end.error, as_json=False)
            await view.ended(await kept_for_later(sb) if job.review and job.as_json else None)
    return exit_code(end)


def _decided(sb: Sandbox, job: Job) -> AbstractAsyncContextManager[None]:
    return kept_if_cut_off(sb, job.review) if job.as_json else reviewed(sb, job.review, job.quiet)


async def watched(run: Run, view: View) -> Done | Failed:
    """A run to its end, shown as it goes; Ctrl-C interrupts it."""

    def interrupt() -> None:
        view.interrupting()
        run.interrupt()

    with closing(view):
        async with run, first_ctrl_c(interrupt):
            async for event in run:
                await view.show(event)
                if isinstance(event, (Done, Failed)):
                    return event
    raise AgentError("The run had no end.")


@asynccontextmanager
async def first_ctrl_c(action: Callable[[], object]) -> AsyncIterator[None]:
    """In this block the first Ctrl-C is the action; the next one is what it usually is."""
    usual, loop = signal.getsignal(signal.SIGINT), asyncio.get_running_loop()

    def back(*_: object) -> None:
        signal.signal(signal.SIGINT, usual)

    def once(*_: object) -> None:
        back()
        loop.call_soon_threadsafe(action)

    if usual is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, once)
    try:
        yield
    finally:
        back()


def exit_code(end: Done | Failed) -> int:
    """Of the program."""
    if isinstance(end, Done):
        return 0
    return INTERRUPTED if end.error.kind == "interrupted" else UNDONE
