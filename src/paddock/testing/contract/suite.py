"""What the parts of the contract share: the fixtures, and how a missing capability has to answer."""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from paddock.driver import BackendSpec, Capabilities
from paddock.errors import UnsupportedError
from paddock.registry import find
from paddock.sandbox import Sandbox

Test = Callable[..., Awaitable[None]]


class Suite:
    """Override `backend`; the rest follows from it."""

    @pytest.fixture
    def backend(self) -> str | BackendSpec:
        """The backend under test, by name or spec."""
        raise NotImplementedError("a contract test class has a fixture `backend`")

    @pytest.fixture
    def can(self, backend: str | BackendSpec) -> Capabilities:
        """What it says it can do."""
        return find(backend).capabilities

    @pytest.fixture(autouse=True)
    def _private_state(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PADDOCK_STATE", str(tmp_path / "state"))
        monkeypatch.delenv("PADDOCK_AUDIT", raising=False)

    @pytest_asyncio.fixture
    async def sb(self, backend: str | BackendSpec) -> AsyncIterator[Sandbox]:
        """A sandbox with everything private."""
        async with Sandbox.create(backend) as sandbox:
            yield sandbox


def needs(capability: str) -> Callable[[Test], Test]:
    """A test of something optional. Where it is missing, the same steps have to end in the one error that says so."""

    def decorate(test: Test) -> Test:
        @wraps(test)
        async def run(self: Suite, *args: Any, backend: str | BackendSpec, can: Capabilities, **others: Any) -> None:
            if getattr(can, capability):
                await test(self, *args, backend=backend, can=can, **others)
                return
            with pytest.raises(UnsupportedError) as caught:
                await test(self, *args, backend=backend, can=can, **others)
            assert caught.value.backend == find(backend).name
            assert caught.value.capability

        return run

    return decorate
