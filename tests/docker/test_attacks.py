"""What was tried against containers and the host beside them, and has to fail; each with its allowed twin."""

import asyncio
import io
import os
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from engines.daemon import Engine
from paddock import ConfigError, Mount, Sandbox, SandboxError, UnavailableError, places, state
from paddock.backends.docker import Docker, launch, ways
from paddock.backends.docker.place import Place
from paddock.backends.namespaces.identity import Identity
from paddock.records import living

SECRETS = "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c 'PADDOCK_SECRET=.'"


def load(engine: Engine, name: str, links: dict[str, str], **config: object) -> None:
    """An image with busybox and some links."""
    container = engine.api.json("POST", "/containers/create", {"Image": "busybox", "Cmd": ["true"]})["Id"]
    try:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for path, target in links.items():
                info = tarfile.TarInfo(path.lstrip("/"))
                info.type, info.linkname = tarfile.SYMTYPE, target
                archive.addfile(info)
        buffer.seek(0)
        engine.api.call("PUT", f"/containers/{container}/archive?path=/", buffer)
        engine.api.call("POST", "/commit", config, container=container, repo=name, tag="latest")
    finally:
        engine.api.call("DELETE", f"/containers/{container}", force="1")


@pytest.mark.parametrize("runtime", ["", "runsc"])
async def test_nobody_sees_the_secret(docker_engine: Engine, runtime: str, request: pytest.FixtureRequest) -> None:
    """Not in the first process, and not in the relay, which an engine starts with the container's own environment."""
    chosen = request.getfixturevalue("gvisor") if runtime else None
    ways.known(docker_engine.url, chosen).calls = False
    async with Sandbox.create(Docker(socket=docker_engine.socket, runtime=chosen), image="python") as sb:
        assert (await sb.exec(SECRETS)).stdout == "0\n"
        assert (await sb.exec(SECRETS, env={"PADDOCK_SECRET": "mine"})).stdout != "0\n"


async def test_an_image_that_leads_mounts_elsewhere(docker_engine: Engine, tmp_path: Path) -> None:
    load(docker_engine, "led-astray", {"/run": "/workspace"})
    load(docker_engine, "led-aside", {"/cache": "/etc"})
    load(docker_engine, "harmless", {"/elsewhere": "/workspace"})
    for image in ("led-astray", "led-aside"):
        with pytest.raises(UnavailableError, match="has a link where"):
            await Sandbox.create(Docker(socket=docker_engine.socket), image=image)
    async with Sandbox.create(Docker(socket=docker_engine.socket), image="harmless") as sb:
        assert (await sb.exec("echo x > /elsewhere/f; cat /workspace/f")).stdout == "x\n"


async def test_a_volume_below_a_mount(docker_engine: Engine) -> None:
    load(docker_engine, "volume-inside", {"/x": "y"}, Volumes={"/workspace/data": {}})
    with pytest.raises(ConfigError, match="below the mount"):
        await Sandbox.create(Docker(socket=docker_engine.socket), image="volume-inside")
    load(docker_engine, "volume-at", {"/x": "y"}, Volumes={"/workspace": {}})
    async with Sandbox.create(Docker(socket=docker_engine.socket), image="volume-at") as sb:
        assert (await sb.exec("echo x > f; cat f")).stdout == "x\n"


@pytest.mark.parametrize("name", ["../../containers/json?x=", "a b", "-rf", "a/../b", "", "a\nb", "http://x/y"])
async def test_names_that_are_no_image(docker_engine: Engine, name: str) -> None:
    with pytest.raises(ConfigError, match="not the name of an image"):
        await Sandbox.create(Docker(socket=docker_engine.socket), image=name)


async def test_a_source_that_is_swapped(
    docker_engine: Engine, backend: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the moment before the engine mounts it: a plain one, and one whose entries are mounted one by one."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key").write_text("SECRET")
    for name in ("data", "data/deep", "inner"):
        (tmp_path / name).mkdir()
    (tmp_path / "data/key").write_text("mine")
    (tmp_path / "data/deep/key").write_text("mine")
    create = launch.Launch._create

    async def swapped(self: Any, *arguments: Any) -> Any:
        (tmp_path / "data/deep").rename(tmp_path / "moved-deep")
        (tmp_path / "data/deep").symlink_to(tmp_path / "secret")
        (tmp_path / "data").rename(tmp_path / "moved")
        (tmp_path / "data").symlink_to(tmp_path / "secret")
        return await create(self, *arguments)

    for mounts in ([], [Mount(tmp_path / "inner", "/data/place")]):
        monkeypatch.setattr(launch.Launch, "_create", swapped)
        try:
            async with Sandbox.create(backend, mounts=[Mount(tmp_path / "data", "/data"), *mounts]) as sb:
                assert "SECRET" not in (await sb.exec("cat /data/key /data/deep/key")).stdout
        except SandboxError:
            pass
        monkeypatch.setattr(launch.Launch, "_create", create)
        for link, old in (("data", "moved"), ("data/deep", "moved-deep")):
            (tmp_path / link).unlink()
            (tmp_path / old).rename(tmp_path / link)
        async with Sandbox.create(backend, mounts=[Mount(tmp_path / "data", "/data"), *mounts]) as sb:
            assert (await sb.exec("cat /data/key /data/deep/key")).stdout == "minemine"
    assert ways.known(docker_engine.url, None) == ways.Ways()  # and nothing wrong was learnt


async def test_another_engine_at_the_usual_place(
    docker_engine: Engine, remote_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not know the sandbox, and that means nothing."""
    monkeypatch.setenv("DOCKER_HOST", docker_engine.url)
    sb = await Sandbox.create("docker", image="busybox", detached=True, name="web")
    await sb.write("f", "kept")
    await sb.close()
    monkeypatch.setenv("DOCKER_HOST", remote_engine.url)
    assert [info.name for info in await Sandbox.find()] == ["web"]
    async with Sandbox.connect("web") as again:
        assert await again.read("f") == "kept"
    (record,) = living()
    kept = state.record_path(record.info.id)
    told = kept.read_text()
    kept.write_text(told.replace(docker_engine.url, remote_engine.url))  # as if another one had been put there
    assert [info.name for info in await Sandbox.find()] == ["web"]
    with pytest.raises(UnavailableError, match="another one answers"):
        await Sandbox.remove("web")
    kept.write_text(told)
    await Sandbox.remove("web")
    assert await Sandbox.find() == []


async def test_the_name_of_one_that_ended(docker_engine: Engine, backend: Docker) -> None:
    first = await Sandbox.create(backend, detached=True, name="web")
    await first.close()
    docker_engine.api.call("DELETE", f"/containers/paddock-{first.id}", force="1")
    second = await Sandbox.create(backend, detached=True, name="web")
    await second.close()
    assert [info.id for info in await Sandbox.find()] == [second.id]
    await Sandbox.remove("web")


async def test_strangers_do_not_keep_it_alive(docker_engine: Engine, backend: Docker) -> None:
    """Who connects to the socket of a relay and says nothing is nobody who uses the sandbox, nor keeps others out."""
    ways.known(docker_engine.url, None).calls = False
    program = "import socket, time\\nall = []\\nfor _ in range(200):\\n    s = socket.socket(socket.AF_UNIX)\\n"
    program += "    s.setblocking(False)\\n    s.connect_ex(chr(0) + 'paddock')\\n    all.append(s)\\ntime.sleep(100)"
    sb = await Sandbox.create(backend, detached=True, idle_timeout=2)
    await sb.exec(f"printf '{program}' > /tmp/s.py; setsid python3 /tmp/s.py > /dev/null 2>&1 &")
    async with Sandbox.connect(sb.id) as again:
        assert (await again.exec("echo fine")).stdout == "fine\n"
    await sb.close()
    for _ in range(600):
        if docker_engine.api.held() == []:
            break
        await asyncio.sleep(0.05)
    assert docker_engine.api.held() == []
    assert await Sandbox.find() == []


def test_places_of_others_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two states can share a runtime directory, and neither knows who of the other's lives."""
    with TemporaryDirectory(prefix="r-", dir="/tmp") as runtime:  # a test's own path may be too long for sockets
        monkeypatch.setenv("PADDOCK_RUNTIME", runtime)
        _two_states(tmp_path, monkeypatch)


def _two_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = Place("sb-000000000001", Identity(1, 1, ours=False))
    monkeypatch.setenv("PADDOCK_STATE", str(tmp_path / "another"))
    ours = Place("sb-000000000002", Identity(1, 1, ours=False))
    places.sweep()
    assert (theirs.path.exists(), ours.path.exists()) == (True, False)
    theirs.remove()


async def test_errors_show_no_path_of_the_host(docker_engine: Engine, tmp_path: Path) -> None:
    load(docker_engine, "with-a-link", {"/data": "/bin/busybox"})
    (tmp_path / "d").mkdir()
    with pytest.raises(SandboxError) as caught:
        await Sandbox.create(
            Docker(socket=docker_engine.socket), image="with-a-link", mounts=[Mount(tmp_path / "d", "/data")]
        )
    assert str(tmp_path) not in str(caught.value)
    assert os.fspath(state.runtime_path()) not in str(caught.value)
