"""What holds for the whole run holds with one worker and with several: what is left, what is skipped, who is alone."""

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path
from uuid import uuid4

import pytest

from workers import turn

HERE = Path(__file__).parent
WAYS = {"one": [], "several": ["-n", "1", "--dist", "worksteal"]}
OPTIONS = ["-c", os.devnull, "-p", "workers", "-p", "skips", "-p", "no:cacheprovider", "-ra", "--rootdir"]
FINE = "def test_fine():\n    pass\n"
LEAVES = """
import subprocess
def test_files():
    open({file!r}, "w").close()
def test_processes():
    global left
    left = subprocess.Popen(["paddock-init", "-"], executable="/bin/cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    left.stdin.write(b"there?\\n")
    left.stdin.flush()
    left.stdout.readline()  # it has its name once it runs, which is a moment after it was started
"""
SKIPS = "import pytest\ndef test_skipped():\n    pytest.skip('no reason at all')\n"


def run(directory: Path, way: str, code: str, **env: str) -> tuple[int, str]:
    """A run of these tests, with the rules of ours."""
    (directory / "test_it.py").write_text(FINE + code)
    words = [
        sys.executable,
        "-m",
        "pytest",
        *OPTIONS,
        str(directory),
        "--basetemp",
        str(directory / "base"),
        *WAYS[way],
    ]
    usual = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST_")}
    done = subprocess.run(
        [*words, str(directory)],
        env={**usual, "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, sys.path)]), **env},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("way", WAYS)
def test_what_is_left(way: str, tmp_path: Path) -> None:
    """The process is named as ours are, and ends when nobody holds the other end of its input."""
    file = Path(f"/dev/shm/paddock-left-{uuid4().hex}")
    try:
        code, said = run(tmp_path, way, LEAVES.format(file=str(file)), PADDOCK_LEFTOVERS_SECONDS="0.2")
    finally:
        file.unlink(missing_ok=True)
    assert code == 1, said
    assert "3 passed" in said
    assert f"{file}\n" in said
    assert "paddock-init -\n" in said.replace(" \n", "\n")


@pytest.mark.alone  # what another test has for a while would be taken for left
@pytest.mark.parametrize(("way", "where", "code"), [("one", "", 0), ("one", "1", 1), ("several", "1", 1)])
def test_a_skip_that_nobody_knows(way: str, where: str, code: int, tmp_path: Path) -> None:
    done, said = run(tmp_path, way, SKIPS, CI=where)
    assert done == code, said
    assert "1 passed, 1 skipped" in said
    assert "no reason at all" in said
    assert "not on the known list" in said


def test_many_or_one(tmp_path: Path) -> None:
    """Whoever is alone waits for those who are there, and whoever comes later waits for it."""
    order: list[str] = []
    asked = threading.Event()

    def alone() -> None:
        asked.set()
        with turn(tmp_path, alone=True):
            order.append("alone")

    def late() -> None:
        with turn(tmp_path, alone=False):
            order.append("late")

    with turn(tmp_path, alone=False), turn(tmp_path, alone=False):
        threads = [threading.Thread(target=alone), threading.Thread(target=late)]
        threads[0].start()
        asked.wait()
        while _free(tmp_path / "door.lock"):
            pass
        threads[1].start()
        order.append("both")
    for thread in threads:
        thread.join()
    assert order == ["both", "alone", "late"]


def _free(path: Path) -> bool:
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
