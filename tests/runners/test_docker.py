"""A real agent in containers: from this host, and from an image that has it."""

import asyncio
import io
import tarfile
from pathlib import Path

import pytest

from engines.daemon import Engine
from paddock import AgentError, Docker, Sandbox
from paddock.runners import Done, Failed, Options, Text, ToolCall, ToolResult, find_agent
from paddock.testing import Say, Shell, Use
from runners.conftest import Staged, installed, left_running, replied_in


@pytest.fixture
def backend(docker_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Docker:
    monkeypatch.setenv("PADDOCK_IMAGE", "python")
    return Docker(socket=docker_engine.socket)


def echo(text: str) -> str:
    """Say it back."""
    return f"echo: {text}"


async def test_a_program_of_this_host(backend: Docker, staged: Staged) -> None:
    script = [Shell("echo hi > out.txt; cat out.txt"), Use("echo", {"text": "there"}), Say("Both done.", pieces=2)]
    async with staged("claude", script, backend=backend, tools=[echo]) as stage:
        end = await stage.run()
        assert isinstance(end, Done), (end, stage.model.complaints)
        assert stage.sb.backend == "docker"
        assert await stage.sb.read("out.txt") == "hi\n"
        results = stage.of(ToolResult)
        assert [result.id for result in results] == [call.id for call in stage.of(ToolCall)]
        assert ["hi" in results[0].output, "echo: there" in results[1].output] == [True, True]
        assert "".join(event.text for event in stage.of(Text)) == end.text == "Both done."


async def test_a_plain_program_is_shown_alone(backend: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("x")
    program = tmp_path / "codex"
    program.write_text("#!/bin/sh\nls -A ${0%/*}\n")
    program.chmod(0o755)
    with monkeypatch.context() as here:
        here.setenv("PATH", str(tmp_path))
        found = find_agent("codex")
    async with Sandbox.create(backend, mounts=found.mounts) as sb:
        assert (await sb.exec(found.argv)).stdout == "codex\n"


async def test_it_ends_whole(backend: Docker, staged: Staged) -> None:
    script = [Shell("touch begun; sleep 97 & exec sleep 98")] * 9
    async with staged("claude", script, backend=backend) as stage:
        async with stage.runner.stream("Do it.") as run:
            events = []
            async for event in run:
                events.append(event)
                if isinstance(event, ToolCall):
                    while not await stage.sb.exists("begun"):
                        await asyncio.sleep(0.05)
                    run.interrupt()
        assert isinstance(events[-1], Failed)
        assert events[-1].error.kind == "interrupted"
        assert await left_running(stage.sb) == []
        stage.runner = stage.again(options=Options(timeout=8))
        end = await stage.run()
        assert isinstance(end, Failed)
        assert end.error.kind == "timeout"


@pytest.mark.timeout(600)
async def test_a_program_of_the_image(docker_engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By its name alone; and an image without it."""
    program = Path(str(installed("claude", monkeypatch).found))
    with tarfile.open(tmp_path / "context.tar", "w") as archive:
        archive.add(program, "claude")
        recipe = b"FROM python\nCOPY claude /usr/local/bin/claude\n"
        info = tarfile.TarInfo("Dockerfile")
        info.size = len(recipe)
        archive.addfile(info, io.BytesIO(recipe))
    with (tmp_path / "context.tar").open("rb") as file:
        docker_engine.api.build("with-claude", file)
    assert await replied_in(docker_engine, "with-claude") == "Done."
    with pytest.raises(AgentError, match="cannot be started"):
        await replied_in(docker_engine, "python")
