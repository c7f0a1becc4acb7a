"""The end of the process that made a sandbox, in the middle and without a word: nothing of the sandbox stays."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import paddock
from paddock import Sandbox
from paddock.state import is_held, runtime_path, sweep
from security import creator
from security.suite import Backend
from supervisor.marks import PATIENCE, Mark, until


def descendants(pid: int) -> set[int]:
    """A process and all below it that can be seen."""
    found = {pid}
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            found |= descendants(int(child))
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _appears(mark: Mark) -> bool:
    """The command is there, and can be seen a moment later: while it becomes its program, nobody can read its environment."""
    deadline = time.monotonic() + PATIENCE
    while not mark.pids() and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(mark.pids())


def mounts() -> list[str]:
    """All of this host's, but for those of engines and of tests beside this one, which come and go with their sandboxes."""
    ours, others = f" {runtime_path()}/", (" /tmp/engine-", f" /tmp/paddock-{os.geteuid()}/")
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if ours in line or not any(place in line for place in others)]


@contextmanager
def host(backend: Backend, way: str, mark: Mark, removed: Sequence[str] = ()) -> Iterator[tuple[int, set[int], str]]:
    """A process that has made a sandbox, perhaps without some parts: its pid, all that is below it, and what it said."""
    paths = [Path(paddock.__file__).parent.parent, Path(creator.__file__).parent.parent]
    environment = {**os.environ, "PYTHONPATH": ":".join(map(str, paths))}
    words = [sys.executable, creator.__file__, str(backend), way, f"{mark.name}={mark.value}", *removed]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said = process.stdout.readline()
            assert said.startswith("started")
            maker = int(said.split()[1])
            assert _appears(mark)
            below = descendants(maker) - {maker}
            assert set(mark.pids()) <= below
            yield maker, below, said
        finally:
            process.kill()


@pytest.fixture(params=["namespaces"])  # tests/docker has the same for containers
def backend(request: pytest.FixtureRequest) -> Backend:
    name: str = request.param
    return name


@pytest.mark.alone  # it compares all mounts of this host
@pytest.mark.parametrize("way", ["plain", "forked", "child"])
async def test_a_killed_host(backend: Backend, way: str, tmp_path: Path) -> None:
    mark, before = Mark(), mounts()
    with host(backend, way, mark) as (maker, below, _):
        state = tmp_path / "state/sandboxes"
        (lock,) = state.glob("*.lock")
        groups = [Path(line) for line in lock.read_text().splitlines() if line.startswith("/")]
        others = {pid for pid in below if "creator.py" in Path(f"/proc/{pid}/cmdline").read_text()}
        os.kill(maker, signal.SIGKILL)
        assert await until(lambda: not any(alive(pid) for pid in below - others))
        assert mark.gone()
        for pid in others:  # the fork that held all descriptors, and nobody up
            assert alive(pid)
            os.kill(pid, signal.SIGKILL)
        assert await until(lambda: not any(alive(pid) for pid in below))
    assert await until(lambda: not is_held(lock.stem))  # the kernel closes files a moment after their process has ended
    assert mounts() == before
    async with Sandbox.create(backend) as sb:
        assert sorted(path.name for path in state.iterdir()) == sorted([sb.id, f"{sb.id}.lock"])
        assert [path for path in groups if path.exists()] == []


async def test_the_thread_that_made_it_ends(backend: Backend) -> None:
    """The sandbox belongs to the process: it goes on as long as that does."""
    mark = Mark()
    with host(backend, "thread", mark) as (_, _, said):
        assert said.split()[2] == "lives"
        assert mark.pids()
    assert await until(mark.gone)
    assert await until(sweep)


async def test_an_ended_host(backend: Backend) -> None:
    """The twin: as long as the host lives, so does the sandbox; and it ends with an ordinary end as well."""
    mark = Mark()
    with host(backend, "plain", mark) as (maker, below, _):
        assert all(alive(pid) for pid in mark.pids())
        os.kill(maker, signal.SIGINT)
        assert await until(lambda: not any(alive(pid) for pid in {maker, *below}))
    assert sweep() == 0
