"""The suite of langchain-tests once more, with the newest deepagents: in an environment of its own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEEDED = (
    "deepagents>=0.7",
    "langchain-tests",
    "pytest-asyncio",
    "pytest-timeout",
    "hypothesis",
    "aiodocker",
    "h11",
    "httpx2",
)
SUITE = 85
"""How many of langchain-tests' there are on each backend."""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("newest") / "venv"
    if not _made(place):
        pytest.skip("neither uv nor pip could get it")
    return str(place / "bin" / "python")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("containers", [False, True], ids=["without", "docker"])
def test_the_newest_deepagents(python: str, containers: bool, request: pytest.FixtureRequest) -> None:
    """All of it, and nothing is skipped: whether there is an engine is known before."""
    if containers:
        request.getfixturevalue("docker_engine")
    words = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/adapters/test_deepagents.py"]
    words += ["-p", "no:workers"]  # it would take what others leave meanwhile for its own; the run around it looks
    words += ["-k", "docker" if containers else "not docker"]
    env = {"PYTHONPATH": "src", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    run = subprocess.run(words, cwd=ROOT, env=env, check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
    counted = {kind: int(count) for count, kind in re.findall(r"(\d+) (passed|xfailed|skipped)", run.stdout)}
    assert "skipped" not in counted, run.stdout
    assert counted["passed"] + counted["xfailed"] >= SUITE * (1 if containers else 2), run.stdout


def _made(place: Path) -> bool:
    """An environment with what is needed; uv takes seconds for it where pip takes a minute."""
    python, uv = str(place / "bin" / "python"), [sys.executable, "-m", "uv"]
    by_uv = [[*uv, "venv", str(place)], [*uv, "pip", "install", "--python", python, *NEEDED]]
    by_pip = [[sys.executable, "-m", "venv", "--clear", str(place)], [python, "-m", "pip", "install", *NEEDED]]
    return any(all(_done(step) for step in steps) for steps in (by_uv, by_pip))


def _done(words: list[str]) -> bool:
    return subprocess.run(words, check=False, capture_output=True).returncode == 0
