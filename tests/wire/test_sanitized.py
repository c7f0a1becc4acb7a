"""The contract's commands and files over a supervisor that notices what it does wrong with memory."""

from collections.abc import Iterator

import pytest

from paddock.backends.local import Local
from paddock.driver import BackendSpec
from paddock.sandbox import Sandbox
from paddock.testing.contract.commands import CommandsContract
from paddock.testing.contract.files import FilesContract
from paddock.testing.contract.links import LinksContract
from wire.building import Sanitized


class TestSanitized(CommandsContract, FilesContract, LinksContract):
    @pytest.fixture(params=[Local(), Local(frames=True, cgroup=False)], ids=["socket", "frames"])
    def backend(
        self, request: pytest.FixtureRequest, sanitized: Sanitized, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[BackendSpec]:
        monkeypatch.setenv("PADDOCK_SUPERVISOR", str(sanitized.program))
        with sanitized.clean():
            yield request.param

    @pytest.mark.soak
    async def test_a_directory_of_100_000(self, sb: Sandbox) -> None:
        await super().test_a_directory_of_100_000(sb)
