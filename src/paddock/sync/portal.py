"""The way from blocking calls to the event loop: one loop, in one daemon thread, made when it is first needed.

Every call is handed to that thread and waited for, about 60 µs there and back. The first step of a file call could be
made in the calling thread instead, but only by taking asyncio apart: that was tried, and is not worth it.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, NoReturn, TypeVar

from paddock.errors import ClosedError, ConfigError

T = TypeVar("T")

CLEAN_UP_SECONDS = 5.0
_EXIT_SECONDS = 2.0


class Portal:
    """The loop and its thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._ending = False
        self._thread = threading.Thread(target=self._serve, name="paddock-sync", daemon=True)
        self._thread.start()

    def run(self, make: Callable[[], Awaitable[T]], instead: str) -> T:
        """Await what `make` returns in the loop's thread. Ctrl-C cancels it, and is raised when it has cleaned up."""
        if asyncio._get_running_loop() is not None:
            raise ConfigError(
                "A blocking call would stop the event loop that runs in this thread.", hint=f"Use `{instead}` here."
            )
        return self._job(make)

    async def awaited(self, make: Callable[[], Awaitable[T]]) -> T:
        """The same for who runs in another loop: nothing blocks, and cancelling who waits cancels the call."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_made(make), self._loop))

    def call(self, function: Callable[[], T]) -> T:
        """Call what is not async, and waits for nothing, but shares state with what is."""

        async def made() -> T:
            return function()

        return function() if asyncio._get_running_loop() is self._loop else self._job(made)

    def advance(self, make: Callable[[], Awaitable[T]], instead: str) -> T:
        """The next item of a stream."""
        try:
            return self.run(make, instead)
        except StopAsyncIteration:
            raise StopIteration from None

    def iterate(self, make: Callable[[], AsyncIterator[T]], instead: str) -> Iterator[T]:
        """A stream as an ordinary iterator."""
        stream = self.call(make)
        while True:
            try:
                yield self.run(stream.__anext__, instead)
            except StopAsyncIteration:
                return

    def end(self) -> None:
        """Cancel what still runs, and stop."""
        self._ending = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(2 * _EXIT_SECONDS)

    def _job(self, make: Callable[[], Awaitable[T]]) -> T:
        if not self._ending:
            outcome = _Job(self._loop, make).wait()
            if not self._ending:
                return outcome()
        if threading.current_thread().daemon:
            threading.Event().wait()  # it ends with the program, and an error would only be noise on its last lines
        raise ClosedError("The program is ending.", hint="Make the call before that.")

    def _serve(self) -> None:
        while not self._ending:
            with suppress(SystemExit, KeyboardInterrupt):  # raised by a task: whoever waits for it gets it
                self._loop.run_forever()
        self._loop.run_until_complete(_cancel_all())
        self._loop.close()


class _Job(Generic[T]):
    """One call, between the thread that waits for it and the loop that does it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, make: Callable[[], Awaitable[T]]) -> None:
        self._loop = loop
        self._make = make
        self._task: asyncio.Task[T] | None = None
        self._outcome: SimpleQueue[Callable[[], T]] = SimpleQueue()

    def wait(self) -> Callable[[], T]:
        """Begin and wait for the end: what returns the result, or raises the error."""
        try:
            self._loop.call_soon_threadsafe(self._start)
            return self._outcome.get()
        except BaseException:  # Ctrl-C, or what another signal handler raised
            self._loop.call_soon_threadsafe(self._cancel)
            with suppress(Empty):
                self._outcome.get(timeout=CLEAN_UP_SECONDS)
            raise

    def _start(self) -> None:
        self._task = self._loop.create_task(_made(self._make))
        self._task.add_done_callback(lambda task: self._outcome.put(task.result))

    def _cancel(self) -> None:
        if self._task is None or not self._task.cancel():  # it never began, or has ended
            self._outcome.put(_interrupted)


async def _made(make: Callable[[], Awaitable[T]]) -> T:
    return await make()


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        done, _ = await asyncio.wait(tasks, timeout=_EXIT_SECONDS)
        for task in done:
            if not task.cancelled():
                task.exception()  # looked at: nobody else will
    await asyncio.get_running_loop().shutdown_asyncgens()


def _interrupted() -> NoReturn:
    raise KeyboardInterrupt


_current: Portal | None = None
_abandoned: list[Portal] = []
_starting = threading.Lock()


def portal() -> Portal:
    """The portal of this process."""
    global _current
    with _starting:
        _current = _current or Portal()
        return _current


def _end() -> None:
    if _current is not None:
        _current.end()


def _after_fork() -> None:
    """The loop's thread stayed with the parent, and the loop is still the parent's: leave it as it is."""
    global _current, _starting
    if _current is not None:
        _abandoned.append(_current)
    _current, _starting = None, threading.Lock()


atexit.register(_end)
os.register_at_fork(after_in_child=_after_fork)
