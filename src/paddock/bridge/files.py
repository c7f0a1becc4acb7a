"""Which files of the host a grant runs: whoever can change them decides what the host does."""

import inspect
import os
from collections import deque
from collections.abc import Iterator
from functools import partial

from paddock.bridge.grants import McpServer, Tool

_MOST_LINKS = 40


def run_by(given: Tool | McpServer) -> frozenset[str]:
    """The places of all files that it runs, or that its program is given; see `places`."""
    named = _of_function(given) if isinstance(given, Tool) else _of_server(given)
    return frozenset(place for path in named for place in places(path))


def places(path: str) -> frozenset[str]:
    """Where a path leads, without links, and every link on the way: each of them decides what it is."""
    found: set[str] = set()
    here, rest = "/", deque(os.path.abspath(path).split("/"))
    while rest:
        name = rest.popleft()
        there = os.path.dirname(here) if name == ".." else os.path.join(here, name)
        if name not in ("", ".", "..") and os.path.islink(there) and len(found) < _MOST_LINKS:
            found.add(there)
            target = os.readlink(there)
            rest.extendleft(reversed(target.split("/")))
            here = "/" if target.startswith("/") else here
        elif name not in ("", "."):
            here = there
    return frozenset({*found, here})


def _of_function(tool: Tool) -> Iterator[str]:
    function = tool.function
    while isinstance(function, partial):
        function = function.func
    function = inspect.unwrap(function)
    if not inspect.isroutine(function):
        function = type(function).__call__
    try:
        yield inspect.getfile(function)
    except TypeError:  # built in
        return


def _of_server(server: McpServer) -> Iterator[str]:
    """Every word that is a file from where it starts; a module or a directory that Python would run, too."""
    if isinstance(server.server, str):
        return
    start = os.path.abspath(os.fspath(server.cwd or "."))
    for before, word in zip(("", *server.server), server.server, strict=False):
        module = [f"{word.replace('.', '/')}{ending}" for ending in (".py", "/__main__.py")] if before == "-m" else []
        for name in (word, word.partition("=")[2], f"{word}/__main__.py", *module):
            if name and os.path.isfile(path := os.path.join(start, name)):
                yield path
