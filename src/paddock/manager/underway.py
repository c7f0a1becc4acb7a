"""What a manager is at: nothing of it goes on when the manager has ended, and the next one has what there is."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from paddock.errors import ClosedError
from paddock.finishing import to_the_end

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class Underway:
    """The calls that are being served, each in a task of its own."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._over = False

    async def do(self, work: Coroutine[Any, Any, T], undo: Callable[[T], Awaitable[object]] | None = None) -> T:
        """Serve a call. One whose caller is cancelled is over before he goes on, and undone if that came too late."""
        import asyncio

        if self._over:
            work.close()
            raise _closed()
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            await to_the_end(_give_up(task, undo))
            raise
        if task.cancelled():
            raise _closed()
        return task.result()

    async def end(self) -> None:
        """Serve no more, and wait until what was being done has ended. What cannot be left half done is done first."""
        import asyncio

        self._over = True
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def _give_up(task: "asyncio.Task[T]", undo: Callable[[T], Awaitable[object]] | None) -> None:
    import asyncio

    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and task.exception() is None and undo is not None:
        await undo(task.result())


def _closed() -> ClosedError:
    return ClosedError("The manager was closed meanwhile.", hint="Open a new one.")
