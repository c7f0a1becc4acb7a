"""The ways in which `local` runs commands: with a cgroup for each or with keepers, over descriptors or in frames."""

import pytest

from paddock.backends.local import Local
from supervisor.marks import Mark

MODES = {
    "cgroup": Local(),
    "cgroup-frames": Local(frames=True),
    "keeper": Local(cgroup=False),
    "keeper-frames": Local(frames=True, cgroup=False),
}


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> Local:
    """Every way."""
    return MODES[request.param]


@pytest.fixture(params=["cgroup", "keeper"])
def owner(request: pytest.FixtureRequest) -> Local:
    """What holds a tree together, where it does not matter how output travels."""
    return MODES[request.param]


@pytest.fixture(params=["cgroup", "cgroup-frames"])
def way(request: pytest.FixtureRequest) -> Local:
    """How output travels, where it does not matter what holds a tree together."""
    return MODES[request.param]


@pytest.fixture
def mark() -> Mark:
    return Mark()
