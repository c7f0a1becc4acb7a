"""The suite, over every isolating backend that there is."""

import pytest

from security.filesystem import FilesystemSecurity
from security.kernel import KernelSecurity
from security.network import NetworkSecurity
from security.processes import ProcessesSecurity
from security.suite import Backend

BACKENDS = ["namespaces"]


class TestSecurity(FilesystemSecurity, KernelSecurity, NetworkSecurity, ProcessesSecurity):
    @pytest.fixture(params=BACKENDS)
    def backend(self, request: pytest.FixtureRequest) -> Backend:
        name: str = request.param
        return name
