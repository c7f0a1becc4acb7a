"""The engines as fixtures. Each is started when a test first wants it, has all images, and is ended with the session.

| Fixture | What it is |
| --- | --- |
| `docker_engine` | a Docker on this host |
| `podman_engine` | a Podman on this host, with the API of Docker |
| `remote_engine` | a Docker that sees no file of the tests: as on another machine, or in the one of Docker Desktop |
| `apart_engine` | a Docker on this host, in a mount namespace of its own |
| `gvisor` | the name of the runtime of `docker_engine` that is gVisor |

What a test leaves in an engine, containers or volumes, is a failure of the session.
"""

import fcntl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from engines import images
from engines.api import ApiError
from engines.daemon import Engine, docker, missing, podman
from workers import shared_directory

_HERE = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def docker_engine(pytestconfig: pytest.Config) -> Iterator[Engine]:
    """A Docker on this host."""
    with _ready(docker, pytestconfig, "dockerd", "containerd", "runc", "busybox") as engine:
        yield engine


@pytest.fixture(scope="session")
def podman_engine(pytestconfig: pytest.Config) -> Iterator[Engine]:
    """A Podman on this host."""
    with _ready(podman, pytestconfig, "podman", "conmon", "busybox") as engine:
        yield engine


@pytest.fixture(scope="session")
def remote_engine(pytestconfig: pytest.Config) -> Iterator[Engine]:
    """A Docker for which this host has no files of tests."""
    usual = (Path(place) for place in ("/tmp", "/home", "/root", "/dev/shm", tempfile.gettempdir()))
    places = {place.resolve() for place in (*usual, _HERE, shared_directory(pytestconfig)) if place.is_dir()}
    hidden = sorted(place for place in places if not places.intersection(place.parents))

    def remote() -> AbstractContextManager[Engine]:
        return docker(hidden)

    with _ready(remote, pytestconfig, "dockerd", "containerd", "runc", "busybox") as engine:
        yield engine


@pytest.fixture(scope="session")
def apart_engine(pytestconfig: pytest.Config) -> Iterator[Engine]:
    """A Docker on this host that sees none of the mounts made since."""

    def apart() -> AbstractContextManager[Engine]:
        return docker(apart=True)

    with _ready(apart, pytestconfig, "dockerd", "containerd", "runc", "busybox") as engine:
        yield engine


@pytest.fixture(scope="session")
def gvisor(docker_engine: Engine) -> str:
    """The name of the runtime. It is there if it has run something."""
    if reason := missing("runsc"):
        pytest.skip(reason)
    try:
        told = docker_engine.api.run("busybox", "dmesg", Runtime="runsc")
    except ApiError as error:
        pytest.skip(f"gVisor does not run on this kernel: {error}")
    assert "gVisor" in told
    return "runsc"


@contextmanager
def _ready(
    make: Callable[[], AbstractContextManager[Engine]], config: pytest.Config, *programs: str
) -> Iterator[Engine]:
    if reason := missing(*programs):
        pytest.skip(reason)
    with make() as engine:
        for name in images.NAMES:
            images.load(engine.api, name, _archive(name, config))
        yield engine
        assert engine.api.held() == [], "tests have left these in the engine"


def _archive(name: str, config: pytest.Config) -> Path:
    """Made once for all who take part in a run."""
    shared = shared_directory(config)
    archive = shared / f"image-{name}.tar"
    with open(shared / "images.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            images.make(name, archive)
    return archive
