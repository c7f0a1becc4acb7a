"""Reading the audit log: what is in it, over its rotated files, and what is being written."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from paddock.audit.log import KEEP
from paddock.types import Event

_POLL_SECONDS = 0.2
_LATEST = 1e11  # seconds; what claims to be later is not a time


def event(line: bytes) -> Event | None:
    """The event of a line; None for half a line, or one that Paddock did not write."""
    try:
        data = json.loads(line) if line.isascii() else None
        found = Event.from_dict(data) if isinstance(data, dict) else None
    except (ValueError, TypeError, RecursionError):
        return None
    return found if found is not None and _is_sound(found) else None


def _is_sound(found: Event) -> bool:
    texts = (found.sandbox, found.kind, found.operation, found.outcome, found.subject or "", found.target or "")
    numbers = (found.time, found.duration, found.size or 0, found.count or 0)
    return (
        all(isinstance(text, str) for text in texts)
        and all(type(number) in (int, float) for number in numbers)
        and 0 <= found.time < _LATEST
    )


def _open_all(path: Path) -> list[BinaryIO]:
    """The log and its older files, newest first. In this order a rotation meanwhile shows one twice, and hides none."""
    found: dict[tuple[int, int], BinaryIO] = {}
    for older in (path, *(path.with_name(f"{path.name}.{number}") for number in range(1, KEEP + 1))):
        try:
            file = older.open("rb")
        except FileNotFoundError:
            continue
        if found.setdefault(_identity(file), file) is not file:
            file.close()
    return list(found.values())


def _identity(file: BinaryIO) -> tuple[int, int]:
    info = os.fstat(file.fileno())
    return info.st_dev, info.st_ino


class LogReader:
    """What is in the log when it is made, and what comes after: no line is missed between the two, or told twice."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._first, self._part = b"", b""
        try:
            self._file = path.open("rb")
        except FileNotFoundError:
            return
        whole = self._file.read()
        end = whole.rfind(b"\n") + 1
        self._first, self._part = whole[:end], whole[end:]

    def before(self) -> Iterator[bytes]:
        """The lines that were there, the last one first, over the older files too."""
        yield from reversed(self._first.splitlines())
        ours = None if self._file is None else _identity(self._file)
        is_older = False
        with ExitStack() as stack:
            for file in [stack.enter_context(file) for file in _open_all(self._path)]:
                if is_older:
                    yield from reversed(file.read().splitlines())
                is_older = is_older or _identity(file) == ours

    def after(self) -> Iterator[bytes]:
        """The lines that are written from then on, for ever: over rotations, and also if the log only begins later."""
        while True:
            yield from self.new_lines()
            time.sleep(_POLL_SECONDS)

    def new_lines(self) -> Iterator[bytes]:
        """What was written since the last time."""
        yield from self._rest()
        if self._is_rotated():
            for file in self._newer():
                yield from self._rest()  # what came just before the rotation
                self.close()
                self._file = file
            yield from self._rest()

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
        self._file, self._part = None, b""

    def _rest(self) -> Iterator[bytes]:
        if self._file is None:
            return
        if os.fstat(self._file.fileno()).st_size < self._file.tell():  # a writer took half a line back
            self._file.seek(0, os.SEEK_END)
            self._part = b""
        *lines, self._part = (self._part + self._file.read()).split(b"\n")
        yield from lines

    def _is_rotated(self) -> bool:
        try:
            info = os.stat(self._path)
        except FileNotFoundError:
            return False
        return self._file is None or (info.st_dev, info.st_ino) != _identity(self._file)

    def _newer(self) -> list[BinaryIO]:
        """The files that were begun since, oldest first: more than one if it was rotated twice."""
        ours = None if self._file is None else _identity(self._file)
        files = _open_all(self._path)
        place = next((n for n, file in enumerate(files) if _identity(file) == ours), 1)
        for file in files[place:]:
            file.close()
        return files[:place][::-1]
