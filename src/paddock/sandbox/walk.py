"""Going through many files: walking, and matching names against a pattern."""

import re
from collections.abc import Callable, Iterator
from fnmatch import translate

from paddock import paths
from paddock.dirs.protocol import Node
from paddock.errors import (
    InvalidPathError,
    NotDirectoryError,
    NotFoundError,
    OutsideError,
    PermissionDeniedError,
    visible,
)
from paddock.sandbox.budget import Budget
from paddock.sandbox.files import Files

_MAX_PARTS = 64
SKIPPED = (NotFoundError, NotDirectoryError, OutsideError, PermissionDeniedError)
_Matcher = Callable[[str], object]


def walk(files: Files, path: str, budget: Budget) -> Iterator[tuple[str, Node]]:
    """Every entry below `path`, each directory's in order of name. Links are shown, not followed.

    What vanishes meanwhile or may not be read is left out; `path` itself has to be a directory that may.
    """
    pending = [path]
    nodes = files.entries(path, stats=False)
    while pending:
        here = pending.pop()
        if here != path:
            nodes = _entries(files, here)
        budget.spend(len(nodes))
        directories = []
        for node in sorted(nodes, key=lambda node: node.name):
            child = paths.join(here, node.name)
            yield child, node
            if node.kind == "directory":
                directories.append(child)
        pending.extend(reversed(directories))


def glob(files: Files, pattern: str, base: str, budget: Budget) -> list[str]:
    """The paths that match, sorted. `*` and `?` match within a name, `**` any number of directories, `[…]` a set."""
    start, parts = _split(pattern, base)
    matchers = [_matcher(part) for part in parts]
    if not matchers:
        return [start] if files.exists(start) else []
    found = []
    pending = [(start, _closure({0}, matchers))]
    while pending:
        here, states = pending.pop()
        nodes = _entries(files, here)
        budget.spend(len(nodes))
        for number, node in enumerate(nodes):
            if number % 256 == 0:
                budget.spend()
            reached = _step(states, matchers, node.name)
            child = paths.join(here, node.name)
            if len(matchers) in reached:
                found.append(child)
            if node.kind == "directory" and reached - {len(matchers)}:
                pending.append((child, reached))
    return sorted(found)


def name_filter(pattern: str) -> Callable[[str], bool]:
    """A test for paths relative to a directory: a pattern without `/` looks at the last name only."""
    _check(pattern)
    if "/" not in pattern:
        matches = _compiled(pattern)
        return lambda relative: matches(relative.rpartition("/")[2]) is not None
    matchers = [_matcher(part) for part in _parts(pattern)]

    def test(relative: str) -> bool:
        states = _closure({0}, matchers)
        for name in relative.split("/"):
            states = _step(states, matchers, name)
        return len(matchers) in states

    return test


def _entries(files: Files, path: str) -> list[Node]:
    try:
        return files.entries(path, stats=False)
    except SKIPPED:
        return []


def _split(pattern: str, base: str) -> tuple[str, list[str]]:
    """The directory a pattern starts from and its remaining parts: names without wildcards are simply walked to."""
    _check(pattern)
    parts = _parts(pattern)
    if ".." in parts and any(map(_is_wild, parts[: parts.index("..")])):
        raise InvalidPathError(
            f"The pattern '{visible(pattern)}' has '..' after a wildcard.", hint="Use path= instead."
        )
    plain = 0
    while plain < len(parts) and not _is_wild(parts[plain]):
        plain += 1
    prefix = "/".join(parts[:plain]) or "."
    start = paths.normalise("/" + prefix if pattern.startswith("/") else prefix, base)
    return start, parts[plain:]


def _check(pattern: str) -> None:
    if not isinstance(pattern, str) or not pattern or "\0" in pattern or len(pattern) > paths.MAX_PATH:
        raise InvalidPathError("The pattern is not text, empty, too long, or holds a NUL character.")


def _parts(pattern: str) -> list[str]:
    """The names of a pattern; several `**` in a row mean no more than one."""
    parts: list[str] = []
    for part in pattern.split("/"):
        if part not in ("", ".") and not (part == "**" and parts[-1:] == ["**"]):
            parts.append(part)
    if len(parts) > _MAX_PARTS:
        raise InvalidPathError(f"The pattern has more than {_MAX_PARTS} parts.", hint="Use a shorter one, or path=.")
    return parts


def _is_wild(part: str) -> bool:
    return any(character in part for character in "*?[")


def _matcher(part: str) -> _Matcher | None:
    return None if part == "**" else _compiled(part)


def _compiled(part: str) -> _Matcher:
    try:
        return re.compile(translate(part)).match
    except re.error as error:
        raise InvalidPathError(
            f"The pattern '{visible(part)}' is not valid: {error}.", hint="Check its brackets."
        ) from None


def _closure(states: set[int], matchers: list[_Matcher | None]) -> frozenset[int]:
    """The states with those that follow for nothing: `**` may match no directory at all."""
    pending = list(states)
    while pending:
        state = pending.pop()
        if state < len(matchers) and matchers[state] is None and state + 1 not in states:
            states.add(state + 1)
            pending.append(state + 1)
    return frozenset(states)


def _step(states: frozenset[int], matchers: list[_Matcher | None], name: str) -> frozenset[int]:
    reached: set[int] = set()
    for state in states:
        if state == len(matchers):
            continue
        matcher = matchers[state]
        if matcher is None:
            reached.add(state)
        elif matcher(name):
            reached.add(state + 1)
    return _closure(reached, matchers)
