"""A private engine, and the backend on it."""

import os

import pytest

from engines.daemon import Engine
from paddock.backends.docker import Docker, ways


@pytest.fixture
def backend(docker_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Docker:
    """Docker on this host, with an image that has Python."""
    monkeypatch.setenv("PADDOCK_IMAGE", "python")
    return Docker(socket=docker_engine.socket)


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test finds out by itself what an engine can do."""
    monkeypatch.setattr(ways, "_known", {})
    for variable in [name for name in os.environ if name.startswith("DOCKER_")]:
        monkeypatch.delenv(variable)
