"""The parts of the suite about processes once more, with a layer: for an ordinary user that is a user namespace more."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

from paddock import Mount, Namespaces
from paddock.backends.supervised.driver import SupervisedDriver
from paddock.driver import Plan
from security.kernel import KernelSecurity
from security.network import NetworkSecurity
from security.processes import ProcessesSecurity
from security.resources import ResourcesSecurity


@dataclass(frozen=True, slots=True)
class WithLayer(Namespaces):
    """Every sandbox has a layer somewhere."""

    name: ClassVar[str] = "namespaces"
    below: str = ""

    async def launch(self, plan: Plan) -> SupervisedDriver:
        layered = Mount(self.below, "/layered", mode="rw")
        driver = await Namespaces.launch(self, replace(plan, mounts=(*plan.mounts, layered), review=True))
        assert driver.layers["/layered"].kind == "overlay"
        return driver


class TestUnderReview(KernelSecurity, NetworkSecurity, ProcessesSecurity, ResourcesSecurity):
    @pytest.fixture
    def backend(self, tmp_path_factory: pytest.TempPathFactory) -> WithLayer:
        below: Path = tmp_path_factory.mktemp("below")
        return WithLayer(below=str(below))
