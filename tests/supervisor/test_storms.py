"""Storms that refill whatever is killed, up to a bound that the kernel holds: not for root, so they run as somebody else."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

import pytest

from paddock.wire.frames import Reply
from supervisor.host import NOBODY, Host
from supervisor.marks import Mark, until
from supervisor.shapes import ENDLESS_STORM, SESSION_STORM, SHAPES, Shape

pytestmark = pytest.mark.alone  # they fill the machine, and what bounds them counts all processes of their user

USER = None if os.geteuid() else NOBODY
BOUND = 60
"""They bound themselves further: the supervisor's bound is on top of as many threads as this machine has."""


def _runs(python: str) -> bool:
    """Whether the user of the storm can run this interpreter."""
    try:
        done = subprocess.run([python, "-S", "-E", "-c", ""], user=USER, group=USER, extra_groups=[] if USER else None)
    except OSError:
        return False
    return done.returncode == 0


@pytest.fixture(scope="module")
def python() -> str:
    for candidate in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        if _runs(candidate):
            return candidate
    pytest.skip("there is no Python that an ordinary user can run")


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    path = Path(mkdtemp(prefix="paddock-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


STORMS = {"group": ENDLESS_STORM, "sessions": SESSION_STORM, "chains": replace(SHAPES["chain"], argument=20)}


@pytest.fixture(params=STORMS)
def storm(request: pytest.FixtureRequest) -> Shape:
    return STORMS[request.param]


async def _grown(host: Host, id: int, mark: Mark) -> bool:
    """Whether it has become a storm."""
    host.wait(Reply.STARTED, id)
    await asyncio.sleep(0.3)
    return await until(mark.pids)


async def test_kill(storm: Shape, python: str, directory: Path, mark: Mark) -> None:
    with Host("--pids", str(BOUND), directory=directory, user=USER) as host:
        other = host.spawn(["/bin/sleep", "60"])
        id = host.spawn([python, *storm.argv[1:]], mark.env)
        assert await _grown(host, id, mark)
        host.kill(id)
        assert mark.gone()
        assert host.quiet(Reply.ENDED, other)


async def test_the_end_of_the_channel(storm: Shape, python: str, directory: Path, mark: Mark) -> None:
    with Host("--pids", str(BOUND), directory=directory, user=USER) as host:
        id = host.spawn([python, *storm.argv[1:]], mark.env)
        assert await _grown(host, id, mark)
        assert host.close() == 0
        assert mark.gone()


async def test_a_killed_supervisor(storm: Shape, python: str, directory: Path, mark: Mark) -> None:
    """Its keepers are left, and end what they keep."""
    with Host("--pids", str(BOUND), directory=directory, user=USER) as host:
        id = host.spawn([python, *storm.argv[1:]], mark.env)
        assert await _grown(host, id, mark)
        host.process.kill()
        host.process.wait()
        assert await until(mark.gone)
