"""The ways in which `local` runs commands: with a cgroup for each or with keepers, over descriptors or in frames."""

import pytest

from paddock import cgroups
from paddock.backends.local import Local
from supervisor.marks import Mark

MODES = {
    "cgroup": Local(),
    "cgroup-frames": Local(frames=True),
    "keeper": Local(cgroup=False),
    "keeper-frames": Local(frames=True, cgroup=False),
}
USED = [name for name, mode in MODES.items() if not mode.cgroup or cgroups.parent() is not None]
"""Where there is no cgroup for us, both would be the same; `test_there_are_cgroups` says so."""


@pytest.fixture(params=USED)
def mode(request: pytest.FixtureRequest) -> Local:
    """Every way."""
    return MODES[request.param]


@pytest.fixture(params=[name for name in USED if "frames" not in name])
def owner(request: pytest.FixtureRequest) -> Local:
    """What holds a tree together, where it does not matter how output travels."""
    return MODES[request.param]


@pytest.fixture(params=[name for name in USED if name.startswith(USED[0])])
def way(request: pytest.FixtureRequest) -> Local:
    """How output travels, where it does not matter what holds a tree together."""
    return MODES[request.param]


@pytest.fixture
def mark() -> Mark:
    return Mark()
