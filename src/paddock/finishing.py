"""Work that has to be done to its end, whatever happens to whoever waits for it."""

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Wait for it until it is done, however often we are cancelled meanwhile; that is raised afterwards."""
    import asyncio

    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None or task.cancelled():
        return task.result()
    task.exception()  # looked at: what counts is that we were cancelled
    raise cancelled


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """A call in a thread, waited for to its end: a thread goes on when whoever waits for it is cancelled."""
    import asyncio

    return await to_the_end(asyncio.to_thread(work, *args, **kwargs))
