"""The command line, as a user runs it."""

import subprocess
import sys

import pytest

import paddock
from paddock import cli


def paddock_program(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from paddock.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def test_demo() -> None:
    result = paddock_program("demo")
    assert result.returncode == 0, result.stderr
    for words in ("local", "memory", "refused, OUTSIDE", "refused, READ_ONLY", "µs", "close"):
        assert words in result.stdout
    assert "\x1b" not in result.stdout


def test_one_backend() -> None:
    result = paddock_program("demo", "--backend", "memory")
    assert result.returncode == 0
    assert "local" not in result.stdout


def test_a_backend_that_is_not_there() -> None:
    result = paddock_program("demo", "--backend", "docker")
    assert result.returncode == 1
    assert "UNAVAILABLE" in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


def test_help_and_version() -> None:
    assert f"paddock {paddock.__version__}" in paddock_program("--version").stdout
    shown = paddock_program("--help").stdout
    assert "demo" in shown
    assert "--backend" in paddock_program("demo", "-h").stdout


def test_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "paddock", "--version"], capture_output=True, text=True, check=True)
    assert paddock.__version__ in done.stdout


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "paddock.cli.app", raising=False)
    with pytest.raises(SystemExit, match=r"paddock\[cli\]"):
        cli.main()
