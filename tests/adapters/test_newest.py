"""The suite of langchain-tests once more, with the newest deepagents: in an environment of its own."""

import os
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


@pytest.mark.timeout(900)
def test_the_newest_deepagents(tmp_path: Path) -> None:
    """In a soak with containers too, which take longer than all the rest."""
    if not _made(tmp_path / "venv"):
        pytest.skip("neither uv nor pip could get it")
    words = [
        str(tmp_path / "venv/bin/python"),
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/adapters/test_deepagents.py",
    ]
    words += ["-p", "no:workers"]  # it would take what others leave meanwhile for its own; the run around it looks
    words += [] if "PADDOCK_SOAK" in os.environ else ["-k", "not docker"]
    env = {"PYTHONPATH": "src", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    run = subprocess.run(words, cwd=ROOT, env=env, check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
    assert " passed" in run.stdout


def _made(place: Path) -> bool:
    """An environment with what is needed; uv takes seconds for it where pip takes a minute."""
    python, uv = str(place / "bin" / "python"), [sys.executable, "-m", "uv"]
    by_uv = [[*uv, "venv", str(place)], [*uv, "pip", "install", "--python", python, *NEEDED]]
    by_pip = [[sys.executable, "-m", "venv", "--clear", str(place)], [python, "-m", "pip", "install", *NEEDED]]
    return any(all(_done(step) for step in steps) for steps in (by_uv, by_pip))


def _done(words: list[str]) -> bool:
    return subprocess.run(words, check=False, capture_output=True).returncode == 0
