"""Counting this process's open descriptors, in spite of threads that open some for a moment."""

import asyncio
import os
import time

from paddock.backends.namespaces import lean

_SECONDS = 20.0
_PAUSE = 0.02


def count() -> int:
    """How many are open, without those of the audit log: its thread opens and closes them when it likes.

    And without those of the namespace that root starts sandboxes from, which stays, whichever test is the first.
    """
    return sum(_counts(name) for name in os.listdir("/proc/self/fd")) - _lean()


def back_to(before: int) -> bool:
    """Whether there are no more than before, or soon will be: somebody may be about to close one."""
    deadline = time.monotonic() + _SECONDS
    while count() > before and time.monotonic() < deadline:
        time.sleep(_PAUSE)
    return count() <= before


async def soon_back_to(before: int) -> bool:
    """The same where a loop runs: it may be the one that is about to."""
    deadline = time.monotonic() + _SECONDS
    while count() > before and time.monotonic() < deadline:
        await asyncio.sleep(_PAUSE)
    return count() <= before


def _lean() -> int:
    known = lean._known
    return 0 if known is None else 1 + (known._fd >= 0) + (known._coming is not None)


def _counts(name: str) -> bool:
    try:
        target = os.readlink(f"/proc/self/fd/{name}")
    except FileNotFoundError:  # the one that listed them, or just closed
        return False
    return "audit.jsonl" not in target
