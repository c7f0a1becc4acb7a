"""A test that is skipped tests nothing: in CI, a skip that is not on the known list is a failure."""

import os
import re
from pathlib import Path

import pytest

KNOWN = {
    line.split("#")[0].strip()
    for line in Path(__file__).with_name("known_skips.txt").read_text().splitlines()
    if line.split("#")[0].strip()
}


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if os.environ.get("CI") and _unknown(session) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    unknown = _unknown(terminalreporter._session)
    if unknown:
        terminalreporter.section("skips that are not on the known list (a failure in CI)", red=True)
        for nodeid in unknown:
            terminalreporter.line(nodeid)


def _unknown(session: pytest.Session | None) -> list[str]:
    """Only who reports knows of all: a worker has no reporter."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter") if session else None
    skipped = reporter.stats.get("skipped", []) if reporter else []
    return [report.nodeid for report in skipped if not any(_is_like(report.nodeid, known) for known in KNOWN)]


def _is_like(nodeid: str, known: str) -> bool:
    """Whether it begins so; a * stands for anything."""
    return re.match(".*".join(map(re.escape, known.split("*"))), nodeid) is not None
