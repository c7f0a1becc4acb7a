"""The parts of both suites that another kernel may see otherwise; the whole of them runs in a soak."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from engines.backends import contained, excused
from paddock import Limits, Sandbox
from paddock.driver import BackendSpec
from paddock.testing.contract.commands import CommandsContract
from paddock.testing.contract.links import LinksContract
from security.files import FilesSecurity
from security.filesystem import FilesystemSecurity
from security.kernel import KernelSecurity
from security.network import NetworkSecurity
from security.policy import OTHER, PolicySecurity
from security.processes import ProcessesSecurity
from security.resources import ResourcesSecurity
from security.suite import Backend


class TestGvisor(CommandsContract, LinksContract):
    @pytest.fixture
    def backend(self, request: pytest.FixtureRequest) -> str | BackendSpec:
        excused(request, "gvisor")
        return contained(request, "gvisor")


@pytest.mark.parametrize("limits", [Limits(), Limits(pids=16)])
async def test_its_own_threads_are_not_the_sandboxes_processes(request: pytest.FixtureRequest, limits: Limits) -> None:
    """The engine counts them, and gVisor takes several for each process: there is room for those."""
    count = (limits.pids or 0) // 5
    async with Sandbox.create(contained(request, "gvisor"), limits=limits) as sb:
        results = await asyncio.gather(*(sb.exec(["echo", str(n)]) for n in range(count)))
        assert [result.stdout for result in results] == [f"{n}\n" for n in range(count)]


class TestSecurity(FilesystemSecurity, KernelSecurity, NetworkSecurity, ProcessesSecurity):
    @pytest.fixture
    def backend(self, request: pytest.FixtureRequest) -> Backend:
        excused(request, "gvisor")
        return contained(request, "gvisor")


@pytest.mark.soak
class TestMoreSecurity(FilesSecurity, PolicySecurity, ResourcesSecurity):
    @pytest.fixture
    def backend(self, request: pytest.FixtureRequest) -> Backend:
        excused(request, "gvisor")
        return contained(request, "gvisor")

    @pytest_asyncio.fixture
    async def shared(self, backend: Backend, tmp_path: Path) -> AsyncIterator[Sandbox]:
        """A directory of another user's: root's own cannot be shown there."""
        (tmp_path / "workspace").mkdir()
        os.chown(tmp_path / "workspace", OTHER, OTHER)
        async with asyncio.timeout(100), Sandbox.create(backend, workspace=tmp_path / "workspace") as sandbox:
            yield sandbox
