"""Copying a directory for a sandbox: in a thread, with a word when it takes long, and only while somebody waits for it."""

import errno
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from paddock.dirs.copying import Copy, copy_tree
from paddock.errors import UnavailableError
from paddock.finishing import to_the_end
from paddock.progress import report

if TYPE_CHECKING:
    import asyncio

_SECONDS_BETWEEN_WORDS = 1.0


class _StoppedError(Exception):
    """Nobody waits for it any more."""


class _Progress:
    def __init__(self, target: str, say: Callable[[str, bool], object]) -> None:
        self.stopped = False
        self._target, self._say = target, say
        self._entries = self._size = 0
        self._last, self._has_spoken = time.monotonic(), False

    def tell(self, entries: int, size: int) -> None:
        if self.stopped:
            raise _StoppedError
        self._entries += entries
        self._size += size
        if time.monotonic() - self._last >= _SECONDS_BETWEEN_WORDS:
            self._speak()

    def _speak(self) -> None:
        if not self._has_spoken:
            self._say(f"copying {self._target} for review", False)
        self._last, self._has_spoken = time.monotonic(), True
        self._say(f"{self._entries} entries, {self._size >> 20} MiB", True)


async def copied(copy: Copy, target: str) -> int:
    """Make the copy of what is seen at `target`; how many entries were left out, because they cannot be read."""
    import asyncio

    loop = asyncio.get_running_loop()
    progress = _Progress(target, lambda words, detail: loop.call_soon_threadsafe(_report, words, detail))
    work = asyncio.ensure_future(asyncio.to_thread(_copy, copy, progress, target))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        progress.stopped = True
        await to_the_end(_ended(work))
        raise


async def _ended(work: "asyncio.Future[int]") -> None:
    import asyncio

    await asyncio.wait([work])
    work.exception()  # looked at


def _report(words: str, detail: bool) -> None:
    report(words, detail=detail)


def _copy(copy: Copy, progress: _Progress, target: str) -> int:
    try:
        return copy_tree(copy, progress.tell)
    except _StoppedError:
        return 0
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise UnavailableError(
            f"The directory for {target!r} cannot be copied: {error.strerror or os.strerror(error.errno or 0)}.",
            hint="Free some space, or set PADDOCK_STATE to an absolute path on the same file system."
            if full
            else "Give another directory, or one that is a copy of what is needed of it.",
        ) from error
