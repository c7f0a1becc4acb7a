"""`Context`: what hooks are given, the same for both hooks of a request."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from paddock.errors import ConfigError
from paddock.runners import Message
from paddock.sandbox import Sandbox

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Context:
    """One request, as its hooks see it."""

    user: str
    chat: str
    assistant: str
    """Its name."""
    messages: list[Message]
    """The conversation: what was said before, and what is said now."""
    sandbox: Sandbox | None
    """Where the agent works; None for an assistant without one."""
    variables: dict[str, str]
    """What the prompts are filled with. What `create` changes here, they say."""
    state: dict[str, Any] = field(default_factory=dict)
    """What `create` puts here, `next` finds."""
    tell: Callable[[str], None] = field(default=lambda _: None, repr=False)
    loop: asyncio.AbstractEventLoop | None = field(default=None, repr=False)
    _waits: "set[Future[Any]]" = field(default_factory=set, repr=False)
    _over: bool = field(default=False, repr=False)

    def log(self, text: str) -> None:
        """Tell whoever follows the request; from any thread, and nothing is waited for."""
        self.tell(str(text))

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        """For a hook that is not async: the result of an async call, such as `ctx.wait(ctx.sandbox.read("a.txt"))`."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            call.close()
            raise ConfigError("An async hook does not wait() for a call.", hint="Use `await` instead.")
        if self.loop is None:
            return asyncio.run(call)
        waiting = asyncio.run_coroutine_threadsafe(call, self.loop)
        self._waits.add(waiting)  # before the look at what leave() sets, so that one of the two ends it
        waiting.add_done_callback(self._waits.discard)
        if self._over:
            waiting.cancel()
        return waiting.result()

    def leave(self) -> None:
        """The request has ended: what a thread of a hook still waits for ends too, and so the thread can."""
        self._over = True
        for waiting in tuple(self._waits):
            waiting.cancel()
