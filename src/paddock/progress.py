"""Saying what takes long, to whoever wants to know: pulling an image, say."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str, bool], object]
"""Told what is being done, in a line, and whether that is a detail of what it was told before."""

_listener: ContextVar[Listener | None] = ContextVar("paddock_progress", default=None)


def report(words: str, *, detail: bool = False) -> None:
    """What is being done now, in a line."""
    listener = _listener.get()
    if listener is not None:
        listener(words, detail)


@contextmanager
def reporting(listener: Listener) -> Iterator[None]:
    """A block in which `listener` is told. Tasks that begin in it inherit that."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
