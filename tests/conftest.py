"""Every test has a state directory of its own."""

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from paddock.config import OPTIONS
from paddock.errors import SandboxError
from paddock.state import runtime_path

_SECURITY = ("filesystem", "files", "kernel", "network", "policy", "processes", "resources", "suite")
pytest.register_assert_rewrite(
    *(f"security.{part}" for part in _SECURITY)
)  # they are no test modules, and tell as much

pytest_plugins = ["workers", "skips", "engines.fixtures"]

for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:  # as in the background of a script; programs under test inherit it
        signal.signal(_number, _usual)


settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")  # how long an example takes says nothing where others use the machine


@pytest.fixture(autouse=True)
def private_state(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    monkeypatch.setenv("PADDOCK_STATE", str(tmp_path / "state"))
    monkeypatch.setenv(
        "XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache")
    )  # one for all: it can be made again
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for variable in ("PADDOCK_CONFIG", *(option.variable for option in OPTIONS.values())):
        if variable != "PADDOCK_STATE":
            monkeypatch.delenv(variable, raising=False)
    stand_ins = {runtime_path()}
    yield
    with suppress(SandboxError):
        stand_ins.add(runtime_path())
    for stand_in in stand_ins:  # a test's paths may be too long for sockets, so it may have had a place in /tmp
        if not stand_in.is_relative_to(tmp_path):
            with suppress(OSError):
                stand_in.rmdir()


LONG = (
    "tests/test_contract.py::TestContract::test_a_directory_of_100_000[local]",
    "tests/test_contract.py::TestContract::test_a_directory_of_100_000[local-frames]",
    "tests/test_contract.py::TestContract::test_a_directory_of_100_000[docker]",
    "tests/test_contract.py::TestContract::test_a_directory_of_100_000[namespaces]",
    "tests/test_docs.py::TestTheBackendOfTheDocs::test_a_directory_of_100_000",
    "tests/runners/test_agents.py::test_an_error_of_the_model_is_one_typed_error[400-opencode]",
    "tests/runners/test_agents.py::test_an_error_of_the_model_is_one_typed_error[404-opencode]",
    "tests/runners/test_agents.py::test_an_error_of_the_model_is_one_typed_error[429-opencode]",
    "tests/tools/test_python.py::test_figures[jupyter]",
)
"""What takes long here and is the same code as elsewhere: only in a soak."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("-m"):
        items[:] = [item for item in items if "soak" not in item.keywords and item.nodeid not in LONG]
