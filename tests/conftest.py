"""Every test has a state directory of its own; what a run leaves on the host, and in CI an unknown skip, is a failure."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import leftovers
from paddock.config import OPTIONS
from paddock.errors import SandboxError
from paddock.state import runtime_path

for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:  # as in the background of a script; programs under test inherit it
        signal.signal(_number, _usual)

KNOWN_SKIPS = {
    line.split("#")[0].strip()
    for line in Path(__file__).with_name("known_skips.txt").read_text().splitlines()
    if line.split("#")[0].strip()
}


@pytest.fixture(autouse=True)
def private_state(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    monkeypatch.setenv("PADDOCK_STATE", str(tmp_path / "state"))
    monkeypatch.setenv(
        "XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache")
    )  # one for all: it can be made again
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for variable in ("PADDOCK_CONFIG", *(option.variable for option in OPTIONS.values())):
        if variable != "PADDOCK_STATE":
            monkeypatch.delenv(variable, raising=False)
    yield
    with suppress(OSError, SandboxError):  # a test's paths are too long for sockets, so it may have had a place in /tmp
        stand_in = runtime_path()
        if not stand_in.is_relative_to(tmp_path):
            stand_in.rmdir()


@pytest.fixture(autouse=True, scope="session")
def nothing_is_left() -> Iterator[None]:
    before = leftovers.found()
    yield
    assert leftovers.since(before) == []


LONG = (
    "tests/test_contract.py::TestContract::test_a_directory_of_100_000[local-frames]",
    "tests/test_docs.py::TestTheBackendOfTheDocs::test_a_directory_of_100_000",
)
"""What takes most of a minute here and is the same code as elsewhere: only in a soak."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("-m"):
        items[:] = [item for item in items if "soak" not in item.keywords and item.nodeid not in LONG]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if os.environ.get("CI") and _unknown_skips(session) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    unknown = _unknown_skips(terminalreporter._session)
    if unknown:
        terminalreporter.section("skips that are not on the known list (a failure in CI)", red=True)
        for nodeid in unknown:
            terminalreporter.line(nodeid)


def _unknown_skips(session: pytest.Session | None) -> list[str]:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter") if session else None
    skipped = reporter.stats.get("skipped", []) if reporter else []
    return [report.nodeid for report in skipped if not any(report.nodeid.startswith(known) for known in KNOWN_SKIPS)]
