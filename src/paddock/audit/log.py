"""The audit log: one JSON object a line, appended by a thread, rotated by size, shared by processes."""

import atexit
import fcntl
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from json.encoder import encode_basestring_ascii as _text
from pathlib import Path
from typing import Any

from paddock.config import DEFAULT, setting
from paddock.errors import UnavailableError
from paddock.state import state_directory

MAX_BYTES = 10 << 20
KEEP = 5
_BATCH_SECONDS = 0.05
_BACKLOG = 500_000
_FEW = 256
_LOCK_SECONDS = 2.0


def default_log() -> "AuditLog | None":
    """The log that the setting `audit` names: a path, `off`, or, unset, `audit.jsonl` in the state directory."""
    chosen = setting("audit")
    if chosen.value == "off":
        return None
    if chosen.source == DEFAULT:
        state_directory()
    return _shared(chosen.value)


@cache
def _shared(path: str) -> "AuditLog":
    return AuditLog(Path(path))


def _line(fields: tuple[Any, ...]) -> str:
    """The event as JSON. Written out by hand: it is done for every call, in competition with the caller's next one."""
    time, sandbox, kind, operation, subject, outcome, duration, size, count, target, initiator = fields
    return (
        f'{{"time": {time!r}, "sandbox": "{sandbox}", "kind": "{kind}", "operation": "{operation}", '
        f'"subject": {"null" if subject is None else _text(subject)}, "outcome": "{outcome}", '
        f'"duration": {duration:.9f}, "size": {"null" if size is None else size}, '
        f'"count": {"null" if count is None else count}, '
        f'"target": {"null" if target is None else _text(target)}, "initiator": "{initiator}"}}'
    )


class AuditLog:
    """A JSONL file. Lines reach the disk within a fraction of a second, or at `flush`."""

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES, keep: int = KEEP) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._waiting: deque[tuple[Any, ...]] = deque(maxlen=_BACKLOG)
        self._some = threading.Event()
        self._writing = threading.Lock()
        self._failed = False
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._locked():
                os.close(self._open())
        except OSError as error:
            raise UnavailableError(
                f"The audit log cannot be written ({error.strerror}).",
                hint="Set PADDOCK_AUDIT to an absolute path that can, or to 'off'.",
            ) from error
        self._start()
        atexit.register(self.flush)
        os.register_at_fork(after_in_child=self._after_fork)

    def append(self, event: tuple[Any, ...]) -> None:
        """Take the fields of one event; nothing is written here."""
        self._waiting.append(event)
        if not self._some.is_set():
            self._some.set()

    def flush(self) -> None:
        """Write what is waiting, now."""
        with self._writing:
            self._write_waiting()

    def flush_few(self) -> bool:
        """The same if it is little and nobody else is writing: so that there is nothing to wait for. Whether it was done."""
        if len(self._waiting) > _FEW or not self._writing.acquire(blocking=False):
            return False
        try:
            with self._lock_file() as lock:
                if not _taken(lock):
                    return False
                self._write_waiting(locked=True)
            return True
        except OSError:
            return False
        finally:
            self._writing.release()

    def _write_waiting(self, *, locked: bool = False) -> None:
        lines = []
        while self._waiting:
            lines.append(_line(self._waiting.popleft()))
        if lines:
            self._write(("\n".join(lines) + "\n").encode(), locked)

    def _start(self) -> None:
        threading.Thread(target=self._run, name="paddock-audit", daemon=True).start()

    def _run(self) -> None:
        while True:
            self._some.wait()
            time.sleep(_BATCH_SECONDS)  # gather: waking for every line would cost the writer of the event dearly
            self._some.clear()
            self.flush()

    def _write(self, data: bytes, locked: bool) -> None:
        try:
            with nullcontext() if locked else self._locked():
                self._rotate(len(data))
                self._append(data)
            self._failed = False
        except OSError as error:
            if not self._failed:
                import logging

                logging.getLogger("paddock.audit").error("events are being lost: %s", error.strerror)
            self._failed = True

    def _append(self, data: bytes) -> None:
        fd = self._open()
        try:
            size = os.fstat(fd).st_size
            try:
                while data:
                    data = data[os.write(fd, data) :]
            except OSError:
                os.ftruncate(fd, size)  # half a line would spoil the next one too
                raise
        finally:
            os.close(fd)

    def _rotate(self, coming: int) -> None:
        try:
            size = os.stat(self.path).st_size
        except FileNotFoundError:
            return
        if size + coming <= self._max_bytes:
            return
        for number in range(self._keep - 1, 0, -1):
            older = self._numbered(number)
            if older.exists():
                older.rename(self._numbered(number + 1))
        self.path.rename(self._numbered(1))
        self._numbered(self._keep).unlink(missing_ok=True)

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock_file() as lock:
            deadline = time.monotonic() + _LOCK_SECONDS
            while not _taken(lock) and time.monotonic() < deadline:
                time.sleep(0.005)  # and if it never comes: lines that overtake each other are better than none
            yield

    @contextmanager
    def _lock_file(self) -> Iterator[int]:
        lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield lock
        finally:
            os.close(lock)

    def _after_fork(self) -> None:
        self._waiting.clear()  # the parent writes those
        self._writing = threading.Lock()
        self._some = threading.Event()
        self._start()


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
