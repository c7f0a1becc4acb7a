"""The way from blocking calls to the event loop: one loop, in one daemon thread, made when this module is first used.

A call takes one of two ways. `run` hands it to the loop's thread and waits. `run_here` makes its first step in the
calling thread, and most file calls end within it: switching to another thread and back costs ten times what they do.

That is sound because of one lock. The loop's thread holds it whenever it does anything, and gives it up only to wait in
`select`; so whoever holds it has the loop, and all that belongs to the loop, to itself. The first step is that of an
ordinary task, with this loop as the running one, and the loop is woken if the step left it something to do.
"""

import _signal  # type: ignore[import-not-found]  # `signal` makes enums of it all, which costs as much as a file call
import asyncio
import atexit
import os
import selectors
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar, TypeVarTuple

from paddock.errors import ClosedError, ConfigError

T = TypeVar("T")
P = ParamSpec("P")
Ts = TypeVarTuple("Ts")

CLEAN_UP_SECONDS = 5.0
_EXIT_SECONDS = 2.0


class Portal:
    """The loop and its thread."""

    def __init__(self) -> None:
        self._loop = _Loop()
        self._thread = threading.Thread(target=self._serve, name="paddock-sync", daemon=True)
        self._thread.start()

    def run(self, make: Callable[[], Awaitable[T]], instead: str) -> T:
        """Await what `make` returns in the loop's thread. Ctrl-C cancels it, and is raised when it has cleaned up."""
        self._check(instead)
        job = _Job(self._loop, make)
        return job.wait(lambda: self._loop.call_soon_threadsafe(job.start))

    def run_here(self, make: Callable[[], Awaitable[T]], instead: str) -> T:
        """The same, but begun in this thread: for what does not mind where it runs and often need not wait."""
        self._check(instead)
        job = _Job(self._loop, make)
        return job.wait(lambda: self._loop.borrow(job.start_here))

    def call(self, function: Callable[[], T]) -> T:
        """Call what is not async but shares state with what is."""
        if asyncio._get_running_loop() is self._loop:
            return function()
        return self._loop.borrow(function)

    def advance(self, make: Callable[[], Awaitable[T]], instead: str) -> T:
        """The next item of a stream."""
        try:
            return self.run_here(make, instead)
        except StopAsyncIteration:
            raise StopIteration from None

    def iterate(self, make: Callable[[], AsyncIterator[T]], instead: str) -> Iterator[T]:
        """A stream that is made when its first item is asked for."""
        return _Stream(self, make, instead)

    def end(self) -> None:
        """Cancel what still runs, and stop."""
        self._loop.ending = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(2 * _EXIT_SECONDS)

    def _check(self, instead: str) -> None:
        if asyncio._get_running_loop() is not None:
            raise ConfigError(
                "A blocking call would stop the event loop that runs in this thread.", hint=f"Use `{instead}` here."
            )
        if self._loop.ending:
            raise ClosedError("The program is ending.", hint="Make the call before that.")

    def _serve(self) -> None:
        with self._loop.turn:
            while not self._loop.ending:
                with suppress(SystemExit, KeyboardInterrupt):  # raised by a task: whoever waits for it gets it
                    self._loop.run_forever()
            self._loop.run_until_complete(_cancel_all())
            self._loop.close()


class _Loop(asyncio.SelectorEventLoop):
    """A loop that another thread may borrow while its own waits for something to happen."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.ending = False
        self._touched = False
        self._first: Coroutine[Any, Any, Any] | None = None
        self._step: Callable[[], object] = _nothing
        super().__init__(_Selector(self.turn))
        self.set_debug(False)  # it would insist on one thread
        self.set_default_executor(_Executor(thread_name_prefix="paddock-sync"))

    def borrow(self, function: Callable[[], T]) -> T:
        """Call `function` in this thread, as a callback of this loop is called."""
        with self.turn, _InterruptLater():
            before = asyncio._get_running_loop()
            self._touched = False
            asyncio._set_running_loop(self)
            try:
                return function()
            finally:
                asyncio._set_running_loop(before)
                if self._touched:
                    self.call_soon_threadsafe(_nothing)

    def first_step(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A new task, which makes its first step at once."""
        self._first = coroutine
        task = self.create_task(coroutine)
        self._first = None
        step, self._step = self._step, _nothing
        with suppress(SystemExit, KeyboardInterrupt):  # the task has it too
            step()
        return task

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if self._first is not None and _coroutine(callback) is self._first:
            context = context or copy_context()
            self._step = partial(context.run, callback, *args)
            return asyncio.Handle(callback, args, self, context)
        self._touched = True
        return super().call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        self._touched = True
        return super().call_at(when, callback, *args, context=context)


class _Selector(selectors.DefaultSelector):
    """A selector that lets others have their turn while it waits."""

    def __init__(self, turn: threading.Lock) -> None:
        super().__init__()
        self._turn = turn

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._turn.release()
        try:
            found = super().select(timeout)
        finally:
            self._turn.acquire()
        known = self.get_map()
        return [(key, events) for key, events in found if known.get(key.fileobj) is key]  # not what changed meanwhile


class _Executor(ThreadPoolExecutor):
    """The loop's threads, and the loop's own where no more can be had: a sandbox may be closed while the program ends."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        try:
            return super().submit(fn, *args, **kwargs)
        except RuntimeError:
            future: Future[T] = Future()
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - told to whoever waits for the future
                future.set_exception(error)
            return future


class _InterruptLater:
    """Ctrl-C waits for the end of the block: it must not come in the middle of the loop's own work."""

    def __enter__(self) -> None:
        self._came = False
        main = threading.current_thread() is threading.main_thread()
        self._holds = main and _signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._holds:
            _signal.signal(signal.SIGINT, self._note)

    def __exit__(self, *_: object) -> None:
        if self._holds:
            _signal.signal(signal.SIGINT, signal.default_int_handler)
            if self._came:
                raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came = True


class _Job(Generic[T]):
    """One call, between the thread that waits for it and the loop that does it."""

    def __init__(self, loop: _Loop, make: Callable[[], Awaitable[T]]) -> None:
        self._loop = loop
        self._make = make
        self._task: asyncio.Task[T] | None = None
        self._outcome: SimpleQueue[Callable[[], T]] = SimpleQueue()

    def start(self) -> None:
        """Begin, in the loop's thread."""
        self._task = self._loop.create_task(_made(self._make))
        self._task.add_done_callback(self._ended)

    def start_here(self) -> None:
        """Begin, in a thread that has borrowed the loop."""
        self._task = self._loop.first_step(_made(self._make))
        if self._task.done():
            self._ended(self._task)
        else:
            self._task.add_done_callback(self._ended)

    def wait(self, begin: Callable[[], object]) -> T:
        """Begin, wait for the end, and return or raise what it was."""
        try:
            begin()
            outcome = self._outcome.get()
            self._task = None
        except BaseException:  # Ctrl-C, or what another signal handler raised
            self._loop.call_soon_threadsafe(self._cancel)
            with suppress(Empty):
                self._outcome.get(timeout=CLEAN_UP_SECONDS)
            raise
        try:
            return outcome()
        finally:
            del outcome  # an error in it refers to this frame

    def _ended(self, task: asyncio.Task[T]) -> None:
        if not self._loop.ending:  # only daemon threads still wait then, and they end with the program
            self._outcome.put(task.result)

    def _cancel(self) -> None:
        if self._task is None or not self._task.cancel():  # it never began, or has ended
            self._outcome.put(_interrupted)


class _Stream(Iterator[T]):
    """An async iterator as a plain one."""

    def __init__(self, portal: Portal, make: Callable[[], AsyncIterator[T]], instead: str) -> None:
        self._portal = portal
        self._make = make
        self._instead = instead
        self._source: AsyncIterator[T] | None = None

    def __next__(self) -> T:
        source = self._source
        if source is not None:
            return self._portal.advance(lambda: anext(source), self._instead)
        try:
            return self._portal.run(self._begin, self._instead)
        except StopAsyncIteration:
            raise StopIteration from None

    async def _begin(self) -> T:
        """In the loop's thread, where an async generator finds who ends it when it is dropped half-way."""
        self._source = self._make()
        return await anext(self._source)


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


def _coroutine(callback: Callable[..., object]) -> object:
    """The coroutine that a callback makes a step of, if it does."""
    task = getattr(callback, "__self__", None)
    return task.get_coro() if isinstance(task, asyncio.Task) else None


def _interrupted() -> NoReturn:
    raise KeyboardInterrupt


def _nothing() -> None: ...


_current: Portal | None = None
_starting = threading.Lock()


def portal() -> Portal:
    """The portal of this process."""
    return _current or _start()


def _start() -> Portal:
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


_abandoned: list[Portal] = []
atexit.register(_end)
os.register_at_fork(after_in_child=_after_fork)
