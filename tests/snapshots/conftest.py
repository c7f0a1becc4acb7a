"""A directory of each kind, and a store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.dirs.protocol import Dir
from paddock.snapshots import Store
from snapshots.places import KINDS, place


@pytest.fixture(params=KINDS)
def dir(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Dir]:
    with place(request.param, tmp_path / "workspace") as dir:
        yield dir


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Dir]:
    with place("local", tmp_path / "workspace") as dir:
        yield dir


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Where `local` is."""
    return tmp_path / "workspace"


@pytest.fixture
def store() -> Store:
    return Store()
