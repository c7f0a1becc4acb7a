"""The suite, over every isolating backend that there is."""

import pytest

from engines.backends import CONTAINED, contained
from security.files import FilesSecurity
from security.filesystem import FilesystemSecurity
from security.kernel import KernelSecurity
from security.network import NetworkSecurity
from security.policy import PolicySecurity
from security.processes import ProcessesSecurity
from security.resources import ResourcesSecurity
from security.review import ReviewSecurity
from security.suite import Backend

BACKENDS = ["namespaces", "docker"]


class TestSecurity(
    FilesystemSecurity,
    FilesSecurity,
    KernelSecurity,
    NetworkSecurity,
    PolicySecurity,
    ProcessesSecurity,
    ResourcesSecurity,
    ReviewSecurity,
):
    @pytest.fixture(params=BACKENDS)
    def backend(self, request: pytest.FixtureRequest) -> Backend:
        name: str = request.param
        return contained(request, name) if name in CONTAINED else name
