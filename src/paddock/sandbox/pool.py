"""`Pool`: sandboxes made in advance, so that nobody waits for one."""

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from paddock.config import BACKEND
from paddock.driver import BackendSpec
from paddock.errors import ClosedError, ConfigError, SandboxError
from paddock.finishing import to_the_end
from paddock.sandbox.sandbox import Sandbox
from paddock.sandbox.signs import is_usable

if TYPE_CHECKING:
    import asyncio

Prepare = Callable[[Sandbox], Awaitable[object]]

_AT_ONCE = 2
"""How many are made at a time: more would only get in each other's way."""
_PAUSE = 0.005
"""Seconds before the next is made: whoever has just taken one gets to its first command before that."""


class Acquisition:
    """A sandbox of a pool: await it, or enter it with `async with` to have it closed at the end of the block."""

    def __init__(self, take: Callable[[], Coroutine[Any, Any, Sandbox]]) -> None:
        self._take = take
        self._sandbox: Sandbox | None = None

    def __await__(self) -> Generator[Any, None, Sandbox]:
        return self._take().__await__()

    async def __aenter__(self) -> Sandbox:
        self._sandbox = await self._take()
        return self._sandbox

    async def __aexit__(self, *_: Any) -> None:
        if self._sandbox is not None:
            await self._sandbox.close()

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"acquire() was not awaited: use `sb = await pool.acquire()` before `.{name}`.")


class Pool:
    """Sandboxes that are ready before they are needed. Each is handed out once, and closed by whoever took it.

    `size` of them are kept ready. `prepare` is called with each before it counts as ready. The other arguments are those of
    `Sandbox.create`. Use it with `async with`, which closes it and everything that came from it.
    """

    def __init__(
        self, size: int = 4, backend: str | BackendSpec = BACKEND, *, prepare: Prepare | None = None, **arguments: Any
    ) -> None:
        if type(size) is not int or size < 0:
            raise ConfigError(f"size={size!r} is not a number of sandboxes.", hint="Give 0 or more.")
        if prepare is not None and not callable(prepare):
            raise ConfigError(f"prepare={prepare!r} cannot be called.", hint="Give an async function of one sandbox.")
        if arguments.get("detached") or arguments.get("name") is not None:
            raise ConfigError(
                "A pool's sandboxes have no names and end with it.", hint="Leave out name= and detached=."
            )
        self._create = partial(Sandbox.create, backend, **arguments)
        self._create()  # which makes nothing yet: it only looks at the names of the arguments
        self._size = size
        self._prepare = prepare
        self._ready: deque[Sandbox] = deque()
        self._taken: set[Sandbox] = set()
        self._waiting: deque[asyncio.Future[Sandbox]] = deque()
        self._making = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._failed = False
        self._closed = False

    @property
    def ready(self) -> int:
        """How many could be handed out at once."""
        return sum(map(is_usable, list(self._ready)))  # a copy: another thread may ask

    def acquire(self) -> Acquisition:
        """A sandbox that nobody has used before: `await` it, or use `async with`.

        If none is ready, it is the next one that is. What keeps one from being made is raised here.
        """
        return Acquisition(self._take)

    async def close(self) -> None:
        """End all sandboxes of the pool, also those being made and those that were handed out. Closing again is fine."""
        await to_the_end(self._close())

    async def _close(self) -> None:
        import asyncio

        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for future in self._waiting:
            if not future.done():
                future.set_exception(_is_closed())
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        closing = [sandbox.close() for sandbox in (*self._ready, *self._taken)]
        self._ready.clear()
        for outcome in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def __aenter__(self) -> "Pool":
        self._refill()
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Pool of {self._size}, {self.ready} ready>"

    # Handing out

    async def _take(self) -> Sandbox:
        if self._closed:
            raise _is_closed()
        sandbox = self._next()
        if sandbox is None:
            return await self._wait()
        self._refill_soon()
        return self._handed_out(sandbox)

    def _next(self) -> Sandbox | None:
        """One that is ready. Those that have ended meanwhile are not."""
        while self._ready:
            sandbox = self._ready.popleft()
            if is_usable(sandbox):
                return sandbox
            self._begin(_put_away(sandbox))
        return None

    async def _wait(self) -> Sandbox:
        import asyncio

        future: asyncio.Future[Sandbox] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._refill()
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self._taken.discard(future.result())
                self._deliver(future.result())  # it came too late for this one
            raise
        finally:
            with suppress(ValueError):
                self._waiting.remove(future)

    def _handed_out(self, sandbox: Sandbox) -> Sandbox:
        self._taken.add(sandbox)
        sandbox._core.when_closed = partial(self._taken.discard, sandbox)
        return sandbox

    def _deliver(self, sandbox: Sandbox) -> None:
        """To whoever has waited longest, else to those that are ready."""
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(self._handed_out(sandbox))
                return
        if self._closed:
            self._begin(_put_away(sandbox))
        else:
            self._ready.append(sandbox)

    # Making

    def _refill_soon(self) -> None:
        import asyncio

        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE, self._refill)

    def _refill(self) -> None:
        """Make what is missing. After a failure only those that somebody waits for, who is told if it fails again."""
        self._timer = None
        wanted = len(self._waiting) + (0 if self._failed else self._size - len(self._ready))
        while not self._closed and self._making < min(_AT_ONCE, wanted):
            self._making += 1
            self._begin(self._make())

    async def _make(self) -> None:
        try:
            sandbox = await self._made()
        except Exception as error:  # noqa: BLE001 - it is for whoever waits
            self._failed = True
            self._tell(error)
        else:
            self._failed = False
            self._deliver(sandbox)
        finally:
            self._making -= 1
        self._refill()

    async def _made(self) -> Sandbox:
        sandbox = await self._create()
        try:
            if self._prepare is not None:
                await self._prepare(sandbox)
        except BaseException:
            await to_the_end(_put_away(sandbox))
            raise
        return sandbox

    def _tell(self, error: Exception) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_exception(error)
                return

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        import asyncio

        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _put_away(sandbox: Sandbox) -> None:
    """Close one that nobody gets; what could not be removed is tried again by the next that is made."""
    with suppress(SandboxError):
        await sandbox.close()


def _is_closed() -> ClosedError:
    return ClosedError("The pool is closed.", hint="Make a new one.")
