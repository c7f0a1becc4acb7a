"""Finding the processes of a command: they carry a mark in their environment, wherever they hide."""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from uuid import uuid4

PATIENCE = 20.0
"""Seconds: how long a busy machine may take, and no measure of how long it should."""


class Mark:
    """One mark, and who carries it."""

    name = "PADDOCK_TEST_MARK"

    def __init__(self) -> None:
        self.value = uuid4().hex
        self.env = {self.name: self.value}

    def pids(self) -> list[int]:
        """Every process with the mark that is not dead (one that only waits to be reaped is)."""
        word = f"{self.name}={self.value}".encode()
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if word in _environment(pid)]

    def gone(self) -> bool:
        """Whether nobody has it. Looked at more than once: a chain of short lives can slip through one look."""
        return not any(self.pids() for _ in range(3))


def _environment(pid: int) -> list[bytes]:
    """Of any of its threads: where the first has ended, it shows none."""
    for task in _names(f"/proc/{pid}/task"):
        with suppress(OSError), open(f"/proc/{pid}/task/{task}/environ", "rb") as file:
            if found := file.read():
                return found.split(b"\0")
    return []


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def parent(pid: int) -> int:
    """The parent of a process, or 0 if there is no such process."""
    return int((_stat(pid) or ["", "0"])[1])


def state(pid: int) -> str:
    """The letter of a process's state, or '' if there is no such process."""
    return (_stat(pid) or [""])[0]


def _stat(pid: int) -> list[str]:
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].decode().split()
    return []


async def until(condition: Callable[[], object], seconds: float = PATIENCE) -> bool:
    """Whether it becomes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.01)
    return True
