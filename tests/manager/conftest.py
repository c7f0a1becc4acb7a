"""A world of fakes for each test, which leaves nothing."""

from collections.abc import Iterator

import pytest

from manager import fakes
from paddock import registry


@pytest.fixture
def clock() -> fakes.FakeClock:
    return fakes.FakeClock()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[fakes.World]:
    registry.register("fake", "manager.fakes:Fake")
    registry.register("elsewhere", "manager.fakes:Elsewhere")
    new = fakes.World()
    monkeypatch.setattr(fakes, "WORLD", new)
    yield new
    new.end()
    registry.unregister("fake")
    registry.unregister("elsewhere")
