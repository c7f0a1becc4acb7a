"""The contract, over every backend that there is; `local` over descriptors and over frames."""

import pytest

from engines.backends import CONTAINED, contained, excused
from paddock.backends.local import Local
from paddock.backends.memory import Memory
from paddock.driver import BackendSpec
from paddock.registry import names
from paddock.testing import COMMANDS, SandboxContract

GVISOR = pytest.param("gvisor", marks=pytest.mark.soak)
"""All of it takes minutes there; tests/docker has what is most likely to differ."""
SPECIAL: dict[str, BackendSpec] = {"memory": Memory(commands=COMMANDS), "local-frames": Local(frames=True)}


class TestContract(SandboxContract):
    @pytest.fixture(
        params=[*(name for name in names(built=True) if name != "docker"), "local-frames", "docker", GVISOR]
    )
    def backend(self, request: pytest.FixtureRequest) -> str | BackendSpec:
        name: str = request.param
        if name in CONTAINED:
            excused(request, name)
            return contained(request, name)
        return SPECIAL.get(name, name)
