"""`grep`: a plain text is looked for here; a regular expression by a small process that can be ended.

Python's `re` cannot be interrupted and holds the interpreter's lock, so one bad pattern would stop the whole program.
"""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from paddock import paths
from paddock.errors import (
    ConfigError,
    LimitReachedError,
    NotFileError,
    SandboxError,
    TooLargeError,
    UnavailableError,
    visible,
)
from paddock.sandbox.budget import Budget
from paddock.sandbox.files import Files
from paddock.sandbox.walk import SKIPPED, name_filter, walk
from paddock.types import Match

MAX_FILE = 64 << 20
MAX_LINE = 1000
MAX_MATCHES = 100_000
_BATCH = 1 << 20
_WORKER = Path(__file__).with_name("search_worker.py")
_PLAIN = re.compile(r"[^\\.^$*+?{}\[\]|()]*")


class _Searcher(Protocol):
    def search(self, contents: list[bytes], limit: int) -> list[list[tuple[int, str]]]:
        """For each content the lines that match, at most `limit` in all."""


def grep(
    files: Files, pattern: str, path: str, *, only: str | None, ignore_case: bool, limit: int, budget: Budget
) -> list[Match]:
    """The lines that match in the text files below `path`, in order of path and line."""
    if type(limit) is not int or not 0 < limit <= MAX_MATCHES:
        raise ConfigError(f"limit={limit!r} is not a number of matches.", hint=f"Give 1 to {MAX_MATCHES}.")
    if not isinstance(pattern, str) or "\n" in pattern or not pattern or _unencodable(pattern):
        raise ConfigError("A pattern is one line of text and not empty.", hint="grep looks at one line at a time.")
    if _PLAIN.fullmatch(pattern) and not ignore_case:
        return _search(files, _Plain(pattern), path, only, limit, budget)
    with _Process(pattern, ignore_case, budget) as process:
        return _search(files, process, path, only, limit, budget)


def _unencodable(text: str) -> bool:
    try:
        paths.encode(text)
    except UnicodeEncodeError:
        return True
    return False


def _search(files: Files, searcher: _Searcher, path: str, only: str | None, limit: int, budget: Budget) -> list[Match]:
    found: list[Match] = []
    for names, contents in _batches(_texts(files, path, only, budget)):
        results = searcher.search(contents, limit - len(found))
        for name, lines in zip(names, results, strict=True):
            found.extend(Match(name, number, text) for number, text in lines)
        if len(found) >= limit:
            break
    return found[:limit]


def _texts(files: Files, path: str, only: str | None, budget: Budget) -> Iterator[tuple[str, bytes]]:
    """The text files below `path`, or `path` itself."""
    wanted = name_filter(only) if only is not None else lambda relative: True
    if not files.stat(path).is_dir:
        with files.open(path) as reader:
            yield path, reader.read(MAX_FILE)
        return
    for number, (child, node) in enumerate(walk(files, path, budget)):
        if number % 256 == 0:
            budget.spend()
        if node.kind != "file" or not wanted(paths.below(child, path)):
            continue
        data = _content(files, child)
        budget.spend(size=len(data))
        if data and b"\0" not in data[:8192]:
            yield child, data


def _content(files: Files, path: str) -> bytes:
    """A file of a walk; empty for what vanished meanwhile or may not be read, as any walk leaves that out."""
    try:
        with files.open(path) as reader:
            return reader.read(MAX_FILE)
    except (*SKIPPED, NotFileError, TooLargeError):
        return b""


def _batches(texts: Iterator[tuple[str, bytes]]) -> Iterator[tuple[list[str], list[bytes]]]:
    names: list[str] = []
    contents: list[bytes] = []
    size = 0
    for name, data in texts:
        names.append(name)
        contents.append(data)
        size += len(data)
        if size >= _BATCH:
            yield names, contents
            names, contents, size = [], [], 0
    if names:
        yield names, contents


class _Plain:
    def __init__(self, text: str) -> None:
        self._text = paths.encode(text)

    def search(self, contents: list[bytes], limit: int) -> list[list[tuple[int, str]]]:
        return [list(self._lines(data, limit)) if self._text in data else [] for data in contents]

    def _lines(self, data: bytes, limit: int) -> Iterator[tuple[int, str]]:
        line, counted, position = 1, 0, data.find(self._text)
        while position >= 0 and limit > 0:
            line += data.count(b"\n", counted, position)
            start = data.rfind(b"\n", 0, position) + 1
            end = data.find(b"\n", position)
            end = len(data) if end < 0 else end
            yield (
                line,
                data[start : min(end, start + 4 * MAX_LINE)].decode("utf-8", "replace").rstrip("\r")[:MAX_LINE],
            )
            limit -= 1
            counted, position = position, data.find(self._text, end)


class _Process:
    """The process that runs the regular expression; it is ended at the budget's end, whatever it does."""

    def __init__(self, pattern: str, ignore_case: bool, budget: Budget) -> None:
        if not sys.executable:
            raise UnavailableError(
                "There is no Python program to search with.", hint="Search for a plain text instead."
            )
        self._budget = budget
        self._pattern = {"pattern": pattern, "ignore_case": ignore_case, "max_line": MAX_LINE}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={},
                start_new_session=True,
            )
        except OSError as error:
            raise LimitReachedError(
                f"A process to search with cannot be started: {error.strerror}.", limit="processes or open files"
            ) from None
        self._clock = threading.Timer(min(budget.remaining(), threading.TIMEOUT_MAX), self._process.kill)
        self._clock.daemon = True
        budget.when_stopped(self._process.kill)

    def __enter__(self) -> "_Process":
        self._clock.start()
        try:
            answer = self._ask(self._pattern, [])
            if "error" in answer:
                shown = visible(str(self._pattern["pattern"]))
                raise ConfigError(
                    f"The pattern '{shown}' is not a regular expression: {answer['error']}.",
                    hint="Escape special characters with a backslash.",
                )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._clock.cancel()
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def search(self, contents: list[bytes], limit: int) -> list[list[tuple[int, str]]]:
        self._budget.spend()
        answer = self._ask({"sizes": [len(data) for data in contents], "limit": limit}, contents)
        return [[(number, text) for number, text in lines] for lines in answer["lines"]]

    def _ask(self, header: dict[str, Any], contents: list[bytes]) -> dict[str, Any]:
        pipe_in, pipe_out = self._process.stdin, self._process.stdout
        if pipe_in is None or pipe_out is None:
            raise AssertionError("the process was started with pipes")
        with suppress(BrokenPipeError):
            pipe_in.write(json.dumps(header).encode() + b"\n")
            for data in contents:
                pipe_in.write(data)
            pipe_in.flush()
        line = pipe_out.readline()
        if not line:
            raise self._ended()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _ended(self) -> SandboxError:
        self._budget.spend()
        if self._budget.remaining() < 0.01:
            return self._budget.out_of_time()
        return ConfigError("The pattern needs more memory than a search may use.", hint="Use a simpler pattern.")
