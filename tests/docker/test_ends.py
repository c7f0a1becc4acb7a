"""What is left of a sandbox in a container, however it ends: nothing."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engines.daemon import Engine
from paddock import NotFoundError, Sandbox, SandboxDiedError
from paddock.backends.docker import Docker, detached, spec
from paddock.backends.docker.launch import Launch
from paddock.state import runtime_path, state_directory

_MAKER = """
import asyncio, json, sys
from paddock import Sandbox
from paddock.backends.docker import Docker

async def main():
    sb = await Sandbox.create(Docker(socket=sys.argv[1], runtime=sys.argv[2] or None), image="busybox")
    await sb.start("sleep 1000")
    print(sb.id, flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


async def gone(engine: Engine, condition: Callable[[], bool] | None = None) -> bool:
    """Whether the engine has no container any more, in a while."""
    for _ in range(500):
        if engine.api.held() == [] if condition is None else condition():
            return True
        await asyncio.sleep(0.02)
    return False


def left_in_state() -> list[str]:
    """What there is of sandboxes on this host."""
    places = (state_directory() / "sandboxes", runtime_path())
    return [str(path) for place in places if place.is_dir() for path in place.iterdir() if path.name != ".records"]


@pytest.mark.parametrize("runtime", ["", "runsc"])
async def test_a_killed_host(
    docker_engine: Engine, backend: Docker, runtime: str, request: pytest.FixtureRequest
) -> None:
    if runtime:
        request.getfixturevalue("gvisor")
    words = [sys.executable, "-c", _MAKER, str(docker_engine.socket), runtime]
    process = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert (await process.stdout.readline()).startswith(b"sb-")
    assert docker_engine.api.held() != []
    process.send_signal(signal.SIGKILL)
    await process.wait()
    assert await gone(docker_engine)
    spec._swept.clear()
    async with Sandbox.create(backend):
        pass
    assert left_in_state() == []


async def test_a_container_that_nobody_started(docker_engine: Engine, backend: Docker) -> None:
    """Whoever was killed between making and starting it left this; and one of somebody else's stays."""
    async with Sandbox.create(backend) as sb:
        told = docker_engine.api.json("GET", f"/containers/paddock-{sb.id}/json")["Config"]["Labels"]
    for name, state in (("ours", told["dev.paddock.state"]), ("theirs", "another")):
        labels = {"dev.paddock.sandbox": "sb-0123456789ab", "dev.paddock.state": state}
        docker_engine.api.json(
            "POST", "/containers/create", {"Image": "busybox", "Cmd": ["true"], "Labels": labels}, name=name
        )
    try:
        spec._swept.clear()
        async with Sandbox.create(backend):
            pass
        assert docker_engine.api.held() == ["container /theirs"]
    finally:
        docker_engine.api.call("DELETE", "/containers/theirs", force="1")


async def test_cancelled_at_any_moment(docker_engine: Engine, backend: Docker) -> None:
    for step in range(12):
        task = asyncio.ensure_future(_made_and_closed(backend))
        await asyncio.sleep(0.02 * step)
        task.cancel()
        await asyncio.wait([task])
    assert await gone(docker_engine)
    assert left_in_state() == []


async def _used_for_ever(sb: Sandbox) -> None:
    while True:
        await sb.exec("true")
        await asyncio.sleep(0.01)


async def _made_and_closed(backend: Docker) -> None:
    async with Sandbox.create(backend):
        await asyncio.sleep(1)


async def test_an_engine_that_removes_it(docker_engine: Engine, backend: Docker) -> None:
    """Somebody else may end a container: calls say so, and closing is fine."""
    sb = await Sandbox.create(backend)
    docker_engine.api.call("DELETE", f"/containers/paddock-{sb.id}", force="1")
    with pytest.raises(SandboxDiedError):
        await _used_for_ever(sb)
    await sb.close()
    assert left_in_state() == []


@pytest.mark.parametrize("runtime", ["", "runsc"])
async def test_detached(docker_engine: Engine, backend: Docker, runtime: str, request: pytest.FixtureRequest) -> None:
    """Another process finds it, with its commands; it ends when it is removed."""
    chosen = Docker(socket=docker_engine.socket, runtime=request.getfixturevalue("gvisor") if runtime else None)
    sb = await Sandbox.create(chosen, name="web", detached=True, labels={"team": "blue"})
    try:
        process = await sb.start("echo one; sleep 1000")
        await sb.write("f", "kept")
        await sb.close()
        assert [info.name for info in await Sandbox.find(labels={"team": "blue"})] == ["web"]
        script = """
import asyncio, json
from paddock import Sandbox
async def main():
    async with Sandbox.connect("web") as sb:
        print(json.dumps([await sb.read("f"), [p.pid for p in await sb.processes()], (await sb.exec("echo hi")).stdout]))
asyncio.run(main())
"""
        told = await asyncio.to_thread(subprocess.check_output, [sys.executable, "-c", script], text=True)
        assert json.loads(told) == ["kept", [process.pid], "hi\n"]
        async with Sandbox.connect("web") as again:
            found = await again.process(process.pid)
            await found.kill()
            assert (await found.wait()).exit_code == 137
    finally:
        await Sandbox.remove("web")
    assert docker_engine.api.held() == []
    assert left_in_state() == []
    with pytest.raises(NotFoundError):
        await Sandbox.connect("web")


async def test_one_that_ends_by_itself(docker_engine: Engine, backend: Docker) -> None:
    sb = await Sandbox.create(backend, detached=True, idle_timeout=1)
    await sb.close()
    assert await gone(docker_engine)
    assert await Sandbox.find() == []
    assert left_in_state() == []


async def test_a_name_that_is_taken(docker_engine: Engine, backend: Docker) -> None:
    sb = await Sandbox.create(backend, name="web", detached=True)
    try:
        with pytest.raises(FileExistsError):
            await Sandbox.create(backend, name="web", detached=True)
        assert len(docker_engine.api.held()) == 1
    finally:
        await sb.close()
        await Sandbox.remove("web")


async def test_an_engine_that_is_gone(docker_engine: Engine, backend: Docker, tmp_path: Path) -> None:
    """Nobody knows whether it lives: it is still listed, and forgotten when the engine says so."""
    sb = await Sandbox.create(backend, name="web", detached=True)
    await sb.close()
    record = next((state_directory() / "sandboxes").glob("*.json"))
    kept = record.read_text()
    record.write_text(kept.replace(str(docker_engine.socket), str(tmp_path / "gone.sock")))
    assert [info.name for info in await Sandbox.find()] == ["web"]
    record.write_text(kept)
    docker_engine.api.call("DELETE", f"/containers/paddock-{sb.id}", force="1")
    assert await Sandbox.find() == []
    assert left_in_state() == []
    assert not os.path.exists(record)


@pytest.mark.parametrize("runtime", ["", "runsc"])
async def test_a_killed_container_is_noticed(
    docker_engine: Engine, runtime: str, request: pytest.FixtureRequest
) -> None:
    """At once: whoever waits for a command is told, and not when its time is over."""
    chosen = Docker(socket=docker_engine.socket, runtime=request.getfixturevalue("gvisor") if runtime else None)
    async with Sandbox.create(chosen, image="busybox") as sb:
        waiting = asyncio.ensure_future(sb.exec("sleep 1000", timeout=1000))
        await asyncio.sleep(0.3)
        docker_engine.api.call("POST", f"/containers/paddock-{sb.id}/kill")
        with pytest.raises(SandboxDiedError):
            await asyncio.wait_for(waiting, 60)


_KILLED_MAKER = """
import asyncio, os, signal, sys
from paddock import Sandbox
from paddock.backends.docker import Docker
from paddock.backends.docker.prepare import Preparation

Preparation.check_names = lambda self: os.kill(os.getpid(), signal.SIGKILL)

async def main():
    await Sandbox.create(Docker(socket=sys.argv[1]), image="busybox", root=sys.argv[2], detached=True)

asyncio.run(main())
"""


async def test_what_a_maker_showed_goes_before_its_container(
    docker_engine: Engine, backend: Docker, tmp_path: Path
) -> None:
    """One killed at the last moment leaves a sandbox that runs; the place for its start is nobody's any more."""
    (tmp_path / "ws").mkdir()
    words = [sys.executable, "-c", _KILLED_MAKER, str(docker_engine.socket), str(tmp_path / "ws")]
    process = await asyncio.create_subprocess_exec(*words)
    assert await process.wait() == -signal.SIGKILL
    (info,) = await Sandbox.find()
    try:
        async with Sandbox.connect(info.id) as sb:
            assert (await sb.exec("echo x > f; cat f")).stdout == "x\n"
        assert [path for path in runtime_path().iterdir() if path.name.endswith(".d")] == []
        assert str(runtime_path()) not in Path("/proc/self/mountinfo").read_text()
    finally:
        await Sandbox.remove(info.id)
    assert left_in_state() == []


_KILLED_BEFORE = """
import asyncio, os, signal, sys
from paddock import Sandbox
from paddock.backends.docker import Docker, detached

detached.keep = lambda *_: os.kill(os.getpid(), signal.SIGKILL)

async def main():
    await Sandbox.create(Docker(socket=sys.argv[1]), image="busybox", detached=True)

asyncio.run(main())
"""


async def test_a_maker_that_was_killed_before_others_knew(docker_engine: Engine, backend: Docker) -> None:
    """It had noted that an engine keeps it, and nobody can ever ask that about it."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _KILLED_BEFORE, str(docker_engine.socket))
    assert await process.wait() == -signal.SIGKILL
    assert left_in_state() != []
    async with Sandbox.create(backend):
        pass
    assert left_in_state() == []


async def test_one_that_began_while_somebody_asked(
    docker_engine: Engine, backend: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine was asked before it ran, and its maker had let go of it when that was looked at."""
    create, told = Launch._create, detached._running
    kept, asked = asyncio.Event(), asyncio.Event()

    async def created(self: Launch, *arguments: Any) -> Any:
        kept.set()
        await asked.wait()
        return await create(self, *arguments)

    async def running(address: str | None) -> Any:
        answer = await told(address)
        asked.set()
        await asyncio.wait([making])
        return answer

    monkeypatch.setattr(Launch, "_create", created)
    making = asyncio.ensure_future(_detached(backend))
    await kept.wait()
    monkeypatch.setattr(detached, "_running", running)
    assert [info.name for info in await Sandbox.find()] == ["web"]
    async with await making as sb:
        assert (await sb.exec("echo fine")).stdout == "fine\n"
    await Sandbox.remove("web")
    assert docker_engine.api.held() == []


async def _detached(backend: Docker) -> Sandbox:
    return await Sandbox.create(backend, name="web", detached=True)


async def test_detached_in_podman(podman_engine: Engine) -> None:
    """The same engine's words, spoken by another: who lives, who has ended, and what is left."""
    chosen = Docker(socket=podman_engine.socket)
    sb = await Sandbox.create(chosen, image="python", name="web", detached=True, labels={"team": "blue"})
    await sb.write("f", "kept")
    await sb.close()
    assert [info.id for info in await Sandbox.find(labels={"team": "blue"})] == [sb.id]
    async with Sandbox.connect("web") as again:
        assert (await again.exec("cat f")).stdout == "kept"
    podman_engine.api.call("DELETE", f"/containers/paddock-{sb.id}", force="1")
    assert await Sandbox.find() == []
    assert left_in_state() == []
    async with Sandbox.create(chosen, image="python", name="web", detached=True) as second:
        await Sandbox.remove("web")
    with pytest.raises(NotFoundError):
        await Sandbox.connect(second.id)
    assert podman_engine.api.held() == []
    assert left_in_state() == []
