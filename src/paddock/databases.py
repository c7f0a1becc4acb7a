"""Small databases in the state directory, which several processes share."""

import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from paddock.errors import ConfigError, UnavailableError

T = TypeVar("T")
_SECONDS_FOR_A_LOCK = 30.0


class Database:
    """One of them, made when it is first used. Every call is made in one thread, and waits for other processes there."""

    def __init__(self, path: Path, tables: str, version: int) -> None:
        self._path = path
        self._tables = tables
        self._version = version
        self._thread = ThreadPoolExecutor(1, f"paddock-{path.stem}")
        self._connection: sqlite3.Connection | None = None

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """An `UnavailableError` if the database cannot be used, such as on a disk that is full."""
        import asyncio

        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: work(self._opened()))
        except (sqlite3.Error, OSError, RuntimeError) as error:  # the last if it was closed meanwhile
            raise UnavailableError(
                f"{self._path} cannot be used: {error}", hint="Look at the file and its disk."
            ) from None

    def close(self) -> None:
        """Idempotent; what was asked is done first."""
        with suppress(RuntimeError):  # that it is closed
            self._thread.submit(self._shut)
        self._thread.shutdown()

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            connection = sqlite3.connect(self._path, timeout=_SECONDS_FOR_A_LOCK, isolation_level=None)
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = normal")
        (version,) = connection.execute("pragma user_version").fetchone()
        if version > self._version:
            raise ConfigError(
                f"{self._path} was written by a newer Paddock.", hint="Use that one, or move the file away."
            )
        if version < self._version:
            connection.executescript(f"begin immediate; {self._tables} pragma user_version = {self._version}; commit;")

    def _shut(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
