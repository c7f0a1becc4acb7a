"""Hooks: Python functions of an assistant that run on this host, before the agent and after it, for as long as they may."""

import asyncio
import inspect
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from paddock.assistants.context import Context
from paddock.assistants.isolation import Folder, said, where
from paddock.bridge.threads import Threads
from paddock.errors import AgentError, ConfigError, visible
from paddock.runners import Done, Message
from paddock.runners.messages import listed

FILE = "hooks.py"
SECONDS = 30.0
_PATIENCE = 1.0
_MORE = "The log of this host says more."
_threads = Threads()
_log = logging.getLogger("paddock.assistants")

Hook = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """What `create` returns to answer by itself: no agent is asked."""

    text: str


@dataclass(frozen=True, slots=True)
class Hooks:
    """Those of one assistant; either may be missing."""

    path: Path
    before: Hook | None = None
    after: Hook | None = None
    seconds: float = SECONDS
    folder: Folder | None = None
    """What holds their modules."""

    async def create(self, ctx: Context, messages: list[Message]) -> list[Message] | Reply:
        """What the agent is to be told: these messages, or those that the hook has instead of them."""
        if self.before is None:
            return messages
        names = set(ctx.variables)
        found = await self._called("create", self.before, ctx, list(messages))
        wrong = [name for name in names | set(ctx.variables) if not isinstance(ctx.variables.get(name), str)]
        if wrong:
            raise self._failed(
                ctx, "create", f"ctx.variables[{min(wrong, key=str)!r}] is no text", "Leave a text there."
            )
        if found is None:
            return messages
        if isinstance(found, Reply) and isinstance(found.text, str):
            return found
        try:
            return listed(found if isinstance(found, (str, Message, Iterable)) else [found])
        except ConfigError as error:
            _log.error("%s: create: %s", self.path, error)
            raise self._failed(ctx, "create", "it returned what is no message") from None

    async def next(self, ctx: Context, reply: Done) -> str:
        """What the user is told: the reply, or what the hook has instead of it."""
        if self.after is None:
            return reply.text
        found = await self._called("next", self.after, ctx, reply)
        if found is None:
            return reply.text
        text = found.text if isinstance(found, (Reply, Done)) else found
        if not isinstance(text, str):
            raise self._failed(
                ctx, "next", f"it returned {type(found).__name__}, which is no text", "It returns a text, or nothing."
            )
        return text

    async def _called(self, name: str, hook: Hook, ctx: Context, given: Any) -> Any:
        """In a task of its own, which is left behind if it does not end when it has to."""
        task = asyncio.ensure_future(self._outcome(name, hook, ctx, given))
        try:
            in_time, _ = await asyncio.wait([task], timeout=self.seconds)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task], timeout=_PATIENCE)
        if in_time and task.cancelled():
            raise self._failed(ctx, name, "it has cancelled itself", "Leave its own task alone.")
        if not task.done() or task.cancelled():
            raise self._failed(
                ctx, name, f"it took longer than {self.seconds:g} seconds", "Give it more: hooks.timeout."
            )
        return task.result()()

    async def _outcome(self, name: str, hook: Hook, ctx: Context, given: Any) -> Callable[[], Any]:
        """What it came to, or what it raised: an exit of a hook is no exit of the program."""
        try:
            bound = partial(hook, ctx, given)
            found = bound() if inspect.iscoroutinefunction(hook) else await _threads.run(bound)
            found = await found if inspect.isawaitable(found) else found
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever it is, it ends this request and nothing else
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            caught = error
            return lambda: self._raise(ctx, name, caught)
        return lambda: found

    def _raise(self, ctx: Context, name: str, error: BaseException) -> None:
        _log.error("%s: %s: %s", where(error, self.path), name, said(error), exc_info=error)
        raise self._failed(ctx, name, type(error).__name__) from error

    def _failed(self, ctx: Context, name: str, words: str, hint: str = _MORE) -> AgentError:
        """For the user, who is told nothing of this host."""
        message = f"The hook {name} of {ctx.assistant} failed: {words}."
        return AgentError(message, hint=hint, agent="hooks", kind="hook")


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def hooks(path: Path, folder: Folder, seconds: float | None) -> Hooks:
    """Those of a folder, loaded now; none if it has no hooks.py."""
    file = path / FILE
    if not os.path.lexists(file):
        return Hooks(file, seconds=seconds or SECONDS)
    names = vars(folder.module(FILE))
    found = Hooks(file.resolve(), _hook(file, names, "create"), _hook(file, names, "next"), seconds or SECONDS, folder)
    if found.before is None and found.after is None:
        raise ConfigError(
            f"{visible(str(file))}: it has neither create nor next.", hint="Define one of them, or remove the file."
        )
    return found


def _hook(file: Path, names: Mapping[str, Any], name: str) -> Hook | None:
    found = names.get(name)
    if found is None:
        return None
    try:
        inspect.signature(found).bind(None, None)
    except (TypeError, ValueError):  # the second for what is written in C
        given = "ctx, messages" if name == "create" else "ctx, reply"
        line = getattr(getattr(found, "__code__", None), "co_firstlineno", 1)
        raise ConfigError(
            f"{file}, line {line}: {name}: it cannot be called with what hooks are given.",
            hint=f"Write `def {name}({given}):`, async or not.",
        ) from None
    if inspect.isasyncgenfunction(found) or inspect.isgeneratorfunction(found):
        raise ConfigError(
            f"{file}, line {found.__code__.co_firstlineno}: {name}: it has a yield in it, and nobody asks it for more.",
            hint="Use return, once.",
        )
    return found  # type: ignore[no-any-return]
