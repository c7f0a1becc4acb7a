"""The contract, over every backend that there is; `local` over descriptors and over frames."""

import pytest

from paddock.backends.local import Local
from paddock.backends.memory import Memory
from paddock.driver import BackendSpec
from paddock.registry import names
from paddock.testing import COMMANDS, SandboxContract

SPECIAL: dict[str, BackendSpec] = {"memory": Memory(commands=COMMANDS), "local-frames": Local(frames=True)}


class TestContract(SandboxContract):
    @pytest.fixture(params=[*names(built=True), "local-frames"])
    def backend(self, request: pytest.FixtureRequest) -> str | BackendSpec:
        name: str = request.param
        return SPECIAL.get(name, name)
