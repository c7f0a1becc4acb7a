"""Requests that work in one sandbox at the same time: each has a home of its own, and turns at what is shared."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Desks:
    """Who is where, in this process: a manager's sandboxes belong to one."""

    def __init__(self) -> None:
        self._taken: dict[str, set[int]] = {}
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @contextmanager
    def desk(self, sandbox: str) -> Iterator[int]:
        """The lowest number that nobody has in this sandbox: 1 for whoever is alone."""
        taken = self._taken.setdefault(sandbox, set())
        number = next(one for one in range(1, len(taken) + 2) if one not in taken)
        taken.add(number)
        try:
            yield number
        finally:
            taken.discard(number)
            if not taken:
                self._taken.pop(sandbox, None)

    @contextmanager
    def lock(self, workspace: str) -> Iterator[asyncio.Lock]:
        """The lock of a workspace, for as long as somebody needs it."""
        lock, users = self._locks.get(workspace, (asyncio.Lock(), 0))
        self._locks[workspace] = lock, users + 1
        try:
            yield lock
        finally:
            lock, users = self._locks.pop(workspace)
            if users > 1:
                self._locks[workspace] = lock, users - 1
