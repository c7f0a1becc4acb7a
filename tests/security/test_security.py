"""The suite, over every isolating backend that there is."""

import pytest

from security.files import FilesSecurity
from security.filesystem import FilesystemSecurity
from security.kernel import KernelSecurity
from security.network import NetworkSecurity
from security.policy import PolicySecurity
from security.processes import ProcessesSecurity
from security.resources import ResourcesSecurity
from security.suite import Backend

BACKENDS = ["namespaces"]


class TestSecurity(
    FilesystemSecurity,
    FilesSecurity,
    KernelSecurity,
    NetworkSecurity,
    PolicySecurity,
    ProcessesSecurity,
    ResourcesSecurity,
):
    @pytest.fixture(params=BACKENDS)
    def backend(self, request: pytest.FixtureRequest) -> Backend:
        name: str = request.param
        return name
