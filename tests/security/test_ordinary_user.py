"""Started by root, the whole suite runs once more as somebody who is not: by far the more usual caller."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

import paddock
from security import as_user

HERE = Path(__file__).parent
USER = 65533
"""Nobody's, on any usual system."""


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory of the user's own, which everybody can get to."""
    path = Path(mkdtemp(prefix="scratch-", dir="/tmp"))
    (path / "run").mkdir()
    for made in (path, path / "run"):
        os.chown(made, USER, USER)
    yield path
    shutil.rmtree(path)


def _environment(home: Path) -> dict[str, str]:
    source = str(Path(paddock.__file__).parent.parent)
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "CI", "PADDOCK_SOAK") if name in os.environ}
    own = {"HOME": home, "TMPDIR": home, "XDG_RUNTIME_DIR": home / "run"}
    return {
        **kept,
        **{name: str(path) for name, path in own.items()},
        "PYTHONPATH": source,
        "PYTHONDONTWRITEBYTECODE": "1",
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="this run is an ordinary user's already")
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "suites",
    [["tests/security", "tests/test_layers.py"], ["tests/test_contract.py", "-k", "namespaces and not 100_000"]],
    ids=["security", "contract"],
)
def test_as_an_ordinary_user(home: Path, suites: list[str]) -> None:
    """In a mount namespace in which that user can reach this checkout and its Python, wherever they are."""
    checkout = HERE.parent.parent
    shown = {os.path.realpath(path) for path in (checkout, paddock.__file__ + "/../..", sys.prefix, sys.base_prefix)}
    pytest_words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(home / "tests"), *suites]
    done = subprocess.run(
        [sys.executable, as_user.__file__, str(USER), *sorted(shown), "--", sys.executable, *pytest_words],
        cwd=checkout,
        env=_environment(home),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    assert " passed" in done.stdout
