"""Blocking work in a thread that is told when nobody wants it any more."""

from collections.abc import Callable
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

from paddock.finishing import to_the_end

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class Stop:
    """Whether what runs in a thread should end. Programs that it waits for are ended then."""

    def __init__(self) -> None:
        self._event = Event()

    def __call__(self) -> bool:
        return self._event.is_set()

    async def in_thread(self, work: Callable[[], T]) -> T:
        """A call in a thread. When we are cancelled it is told, and waited for."""
        import asyncio

        task = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._event.set()
            await to_the_end(_ended(task))
            raise


async def _ended(task: "asyncio.Future[Any]") -> None:
    import asyncio

    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # looked at: what counts is that we were cancelled
