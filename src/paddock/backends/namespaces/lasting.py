"""A thread that lasts as long as this process, to start sandboxes from.

The kernel ties a child that is to die with its parent to the thread that started it. A sandbox belongs to the process: the
thread that made it may end, and the loop go on in another.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
_Work = tuple[Callable[[], Any], "Future[Any]"]


def in_lasting_thread(work: Callable[[], T]) -> T:
    """Do it there, and wait for what comes of it. The main thread lasts as well, and need not wait for another."""
    if threading.current_thread() is threading.main_thread():
        return work()
    future: Future[T] = Future()
    _queue(os.getpid()).put((work, future))
    return future.result()


def later(work: Callable[[], object]) -> None:
    """Do it there some time, if this process lives so long. Nobody learns what comes of it."""
    try:
        _queue(os.getpid()).put((work, Future()))
    except RuntimeError:  # at the end of the program there are no more threads
        work()


@cache
def _queue(process: int) -> "SimpleQueue[_Work]":
    """What that thread takes its work from. A forked child has no threads of its parent's, and needs its own."""
    del process
    queue: SimpleQueue[_Work] = SimpleQueue()
    threading.Thread(target=_serve, args=(queue,), name="paddock-start", daemon=True).start()
    return queue


def _serve(queue: "SimpleQueue[_Work]") -> None:
    while True:
        work, future = queue.get()
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - for the one who waits
            future.set_exception(error)
        del work, future
