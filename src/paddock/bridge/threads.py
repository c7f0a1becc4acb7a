"""Functions that are not async, each in a thread of its own: one that hangs holds up nobody, and not the program's end."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from paddock.errors import LimitReachedError

MOST = 256
"""Twice as many as calls may be at work: the others are those that nobody waits for any more."""


class Threads:
    """Those of one bridge."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._running = 0

    async def run(self, function: Callable[[], Any]) -> Any:
        """What it returns or raises. If nobody waits any more it goes on by itself: a thread cannot be stopped."""
        if self._running >= self._most:
            raise LimitReachedError(
                f"{self._most} functions run already, perhaps for ever.", limit="threads", hint="Try again later."
            )
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Callable[[], Any]] = loop.create_future()
        context = contextvars.copy_context()
        self._running += 1

        def ended(outcome: Callable[[], Any]) -> None:
            self._running -= 1
            if not future.done():
                future.set_result(outcome)

        def work() -> None:
            outcome = _outcome(context, function)
            with suppress(RuntimeError):  # the loop may have ended
                loop.call_soon_threadsafe(ended, outcome)

        try:
            threading.Thread(target=work, name="paddock-tool", daemon=True).start()
        except BaseException:
            self._running -= 1
            raise
        return (await future)()


def _outcome(context: contextvars.Context, function: Callable[[], Any]) -> Callable[[], Any]:
    try:
        result = context.run(function)
    except BaseException as error:  # noqa: BLE001 - also SystemExit: it ends this thread, and whoever waits is told
        caught = RuntimeError("KeyboardInterrupt") if isinstance(error, KeyboardInterrupt) else error

        def fail() -> Any:
            raise caught

        return fail
    return lambda: result
