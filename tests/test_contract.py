"""The contract, over every backend that there is."""

import pytest

from paddock.backends.memory import Memory
from paddock.driver import BackendSpec
from paddock.registry import names
from paddock.testing import COMMANDS, SandboxContract


class TestContract(SandboxContract):
    @pytest.fixture(params=names(built=True))
    def backend(self, request: pytest.FixtureRequest) -> str | BackendSpec:
        name: str = request.param
        return Memory(commands=COMMANDS) if name == "memory" else name
