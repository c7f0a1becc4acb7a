"""Where the suites of the frameworks run: one sandbox for each backend and module, because they clean up after themselves."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_asyncio

import paddock.sync
from engines.daemon import Engine
from paddock import Sandbox
from paddock.backends.docker import Docker
from paddock.backends.memory import Memory
from paddock.driver import BackendSpec
from paddock.testing import COMMANDS

PATH = "/workspace/bin:/usr/local/bin:/usr/bin:/bin"


@contextmanager
def prepared(request: pytest.FixtureRequest, place: Path) -> Iterator[BackendSpec | str]:
    """The backend that a test was given by name, and a state directory for all of the module."""
    name: str = request.param
    backend: BackendSpec | str = name
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PADDOCK_STATE", str(place / "state"))
        if name == "docker":
            engine: Engine = request.getfixturevalue("docker_engine")
            patch.setenv("PADDOCK_IMAGE", "python")
            backend = Docker(socket=engine.socket)
        yield Memory(commands=COMMANDS) if name == "memory" else backend


@pytest.fixture(scope="module", params=["memory", "namespaces", "docker"])
def blocking(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[paddock.sync.Sandbox]:
    """A sandbox for frameworks that block."""
    with (
        prepared(request, tmp_path_factory.mktemp("module")) as backend,
        paddock.sync.Sandbox.create(backend, env={"PATH": PATH}) as sandbox,
    ):
        yield sandbox


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["namespaces", "docker"])
async def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    """A sandbox with real commands for frameworks that do not block, in the loop of the module."""
    with prepared(request, tmp_path_factory.mktemp("module")) as backend:
        async with Sandbox.create(backend) as sandbox:
            yield sandbox
