"""Inspect's own checks of a sandbox, and an evaluation."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from inspect_ai.tool._sandbox_tools_utils.sandbox import sandbox_with_injected_tools
from inspect_ai.util._sandbox import self_check
from inspect_ai.util._sandbox.environment import SandboxUnavailableError, SandboxUserUnsupportedError
from inspect_ai.util._sandbox.events import SandboxEnvironmentProxy
from inspect_ai.util._sandbox.registry import registry_find_sandboxenv
from inspect_ai.util._sandbox.self_check import *  # noqa: F403 - that is how the suite is used
from pydantic import BaseModel

from paddock import Docker, Sandbox
from paddock.adapters.inspect_ai import PaddockConfig, PaddockSandboxEnvironment
from paddock.driver import BackendSpec
from paddock.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.asyncio(loop_scope="module")

EXCEPTIONS = {
    "test_exec_as_user": (SandboxUserUnsupportedError, "all commands of a sandbox run as one user, who is never root"),
}


async def _at_once(seconds: float) -> None:
    """The suite waits for processes to end after a timeout. Here they have ended by then."""


@pytest.fixture
def sandbox_env(request: Any, shared: Sandbox, monkeypatch: pytest.MonkeyPatch) -> PaddockSandboxEnvironment:
    monkeypatch.setattr(self_check, "anyio", SimpleNamespace(sleep=_at_once))
    if request.node.originalname in EXCEPTIONS:
        raises, reason = EXCEPTIONS[request.node.originalname]
        request.applymarker(pytest.mark.xfail(raises=raises, reason=reason, strict=True))
    return PaddockSandboxEnvironment(shared)


async def test_an_evaluation(tmp_path: Path) -> None:
    """The example of the docs, in a process of its own: Inspect leaves streams open, and draws on the terminal."""
    page = (ROOT / "docs" / "adapters.md").read_text()
    (program,) = re.findall(r"```python no-run\n(from inspect_ai .*?)```", page, re.DOTALL)
    words = [sys.executable, "-c", program]
    run = await asyncio.to_thread(subprocess.run, words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "success C 3", run.stderr


NAMED = """
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import includes
from inspect_ai.util import SandboxEnvironmentSpec, sandbox
from inspect_ai.solver import solver

from paddock.adapters.inspect_ai import PaddockSandboxEnvironment


@solver
def which():
    async def solve(state, generate):
        state.output = ModelOutput.from_content("mockllm/model", sandbox().as_type(PaddockSandboxEnvironment).sandbox.backend)
        return state

    return solve


def logs(backend, **options):
    task = Task(dataset=[Sample("go", target=backend)], solver=which(), scorer=includes(), **options)
    return eval(task, model="mockllm/model", display="none", log_dir="logs")


for log in (
    *logs("local", sandbox=("paddock", "local")),
    *logs("local", sandbox=SandboxEnvironmentSpec("paddock", "local")),
    *logs("nowhere", sandbox=("paddock", "nowhere")),
):
    print(log.error.message if log.error else log.samples[0].scores["includes"].value)
"""


async def test_a_backend_by_its_name(tmp_path: Path) -> None:
    """Inspect makes a path of a task's text; a directory of that name may be there, and no path is shown."""
    (tmp_path / "local").mkdir()
    words = [sys.executable, "-c", NAMED]
    run = await asyncio.to_thread(subprocess.run, words, cwd=tmp_path, capture_output=True, text=True, check=False)
    right, also, error = run.stdout.splitlines() or [run.stderr] * 3
    assert (right, also) == ("C", "C"), run.stderr
    assert "There is no backend 'nowhere'" in error
    assert str(tmp_path) not in error


async def test_a_link_to_what_never_ends(shared: Sandbox) -> None:
    """A scorer that reads what a model left gets an error, and does not wait for ever."""
    environment = PaddockSandboxEnvironment(shared)
    await environment.exec(["ln", "-sf", "/dev/zero", "answer.txt"])
    async with asyncio.timeout(60):
        with pytest.raises(IsADirectoryError, match="device"):
            await environment.read_file("answer.txt")
    assert "root" in await environment.read_file("/etc/passwd")


@pytest.mark.parametrize("backend", ["namespaces", "docker"])
async def test_its_own_tools(backend: str, request: pytest.FixtureRequest) -> None:
    """Inspect puts a program into the sandbox for some of its tools, such as `bash_session`, and speaks to that."""
    spec: BackendSpec | str = backend
    if backend == "docker":
        spec = Docker(socket=request.getfixturevalue("docker_engine").socket, read_only=False)
    async with Sandbox.create(spec, image="python" if backend == "docker" else None) as sandbox:
        proxy = SandboxEnvironmentProxy(PaddockSandboxEnvironment(sandbox))
        await sandbox_with_injected_tools(sandbox=proxy)
        result = await proxy.exec_remote(["sh", "-c", "echo from inside; exit 3"], stream=False)
        assert (result.returncode, result.stdout) == (3, "from inside\n")


class Foreign(BaseModel):
    """A configuration of something else."""


async def test_configurations() -> None:
    for given in (None, "memory", PaddockConfig(backend="memory", env={"A": "1"})):
        assert isinstance(hash(given), int)
    kept = PaddockSandboxEnvironment.config_deserialize(PaddockConfig(backend="memory", env={"A": "1"}).model_dump())
    made = await PaddockSandboxEnvironment.sample_init("task", kept, {})
    await made["default"].write_file("f", "1")
    await PaddockSandboxEnvironment.sample_cleanup("task", kept, made, False)
    with pytest.raises(SandboxUnavailableError):
        await made["default"].read_file("f")
    with pytest.raises(ConfigError, match="PaddockConfig"):
        await PaddockSandboxEnvironment.sample_init("task", Foreign(), {})
    assert registry_find_sandboxenv("paddock") is PaddockSandboxEnvironment
