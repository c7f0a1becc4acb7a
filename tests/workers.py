"""Several workers run tests at once, and it comes to the same as one.

A test that is marked `alone` has the machine for itself: the others wait. What is left on the host is looked for where the
whole run begins and ends; workers only tell of their own children.
"""

import fcntl
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import leftovers

BEFORE = pytest.StashKey[set[str]]()
LEFT = pytest.StashKey[list[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """A shorter name for a worker's directory: for sockets, a few letters are many."""
    if is_worker(config):
        path = Path(config.option.basetemp)
        config.option.basetemp = path.with_name(path.name.removeprefix("popen-gw"))


def is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def shared_directory(config: pytest.Config) -> Path:
    """One for all who take part in this run."""
    base: Path = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    return base.parent if is_worker(config) else base


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Around everything, so that waiting does not count as time of the test."""
    with turn(shared_directory(item.config), alone="alone" in item.keywords):
        return (yield)


@contextmanager
def turn(directory: Path, *, alone: bool) -> Iterator[None]:
    """In the room are many, or one. Whoever waits to be in it alone stands in the door, or there would always be somebody."""
    with open(directory / "door.lock", "w") as door, open(directory / "room.lock", "w") as room:
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(room, fcntl.LOCK_UN)  # closing would not do: a child that was forked may have it too


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.stash[LEFT] = []
    session.config.stash[BEFORE] = set() if is_worker(session.config) else leftovers.found()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if is_worker(config):
        config.workeroutput["left"] = leftovers.since(set(), leftovers.supervisors)  # type: ignore[attr-defined]
        return
    config.stash[LEFT] += leftovers.since(config.stash[BEFORE])
    if config.stash[LEFT] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[LEFT] += getattr(node, "workeroutput", {}).get("left", [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash[LEFT]:
        terminalreporter.section("the tests have left these on the host (a failure)", red=True)
        for line in config.stash[LEFT]:
            terminalreporter.line(line)
