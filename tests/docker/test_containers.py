"""What the engine is told, read back from it; and what a sandbox in a container is like."""

from pathlib import Path

import pytest

from engines.daemon import Engine
from paddock import ConfigError, Limits, NotFoundError, OutsideError, ReadOnlyError, Sandbox, UnavailableError
from paddock.backends.docker import Docker, ways


def inspected(engine: Engine, sb: Sandbox) -> dict[str, dict[str, object]]:
    """What the engine says about a sandbox's container."""
    told: dict[str, dict[str, object]] = engine.api.json("GET", f"/containers/paddock-{sb.id}/json")
    return told


async def test_it_is_locked_in(docker_engine: Engine, backend: Docker) -> None:
    async with Sandbox.create(backend, limits=Limits(memory="256m", cpu=0.5, pids=77), labels={"team": "blue"}) as sb:
        told = inspected(docker_engine, sb)
        host, config = told["HostConfig"], told["Config"]
        assert (host["CapDrop"], host["Privileged"], host["ReadonlyRootfs"]) == (["ALL"], False, True)
        assert host["SecurityOpt"] == ["no-new-privileges"]
        assert (host["NetworkMode"], host["IpcMode"], host["PidMode"]) == ("none", "private", "")
        assert (host["Memory"], host["MemorySwap"], host["NanoCpus"], host["PidsLimit"]) == (
            256 << 20,
            256 << 20,
            5 * 10**8,
            77,
        )
        assert host["AutoRemove"] is True
        user = str(config["User"])
        assert user.partition(":")[0] not in ("", "0", "root")
        labels = config["Labels"]
        assert isinstance(labels, dict)
        assert (labels["dev.paddock.sandbox"], labels["dev.paddock.label.team"]) == (sb.id, "blue")
        assert sb.isolation.limits["memory"].enforced
        assert {name for name, held in sb.isolation.limits.items() if held} >= {"memory", "cpu", "pids", "tmp"}
    with pytest.raises(Exception, match="No such container"):
        inspected(docker_engine, sb)


async def test_an_image_with_one_program(docker_engine: Engine) -> None:
    """No shell, no /etc, no /tmp: the supervisor needs nothing of an image."""
    async with Sandbox.create(Docker(socket=docker_engine.socket), image="bare") as sb:
        await sb.write("/workspace/f", "x")
        assert (await sb.exec(["/busybox", "cat", "f"])).stdout == "x"
        assert (await sb.exec("echo hi")).exit_code == 127


async def test_the_root_of_an_image(backend: Docker) -> None:
    """It is reached by file calls where an image was asked for, to read; the kernel's own files never are."""
    async with Sandbox.create(backend, image="python") as sb:
        assert "root:" in await sb.read("/etc/passwd")
        assert {"etc", "usr", "workspace"} <= set(await sb.list("/"))
        assert await sb.exists("/bin/sh")
        assert (await sb.stat("/etc")).kind == "directory"
        assert await sb.grep("nobody", "/etc", glob="passwd")
        for path in ("/proc/1/environ", "/sys/kernel", "/dev/null", "/run/paddock/init"):
            with pytest.raises(OutsideError):
                await sb.read(path)
        with pytest.raises(ReadOnlyError):
            await sb.write("/etc/passwd", "")
        with pytest.raises(NotFoundError):
            await sb.read("/etc/nothing")
        assert (await sb.exec("pwd", cwd="/etc")).stdout == "/etc\n"
    async with Sandbox.create(backend) as sb:
        with pytest.raises(OutsideError):
            await sb.read("/etc/passwd")


async def test_a_root_that_can_be_written(docker_engine: Engine) -> None:
    spec = Docker(socket=docker_engine.socket, read_only=False)
    async with Sandbox.create(spec, image="python") as sb:
        assert not inspected(docker_engine, sb)["HostConfig"]["ReadonlyRootfs"]
        assert (await sb.exec("echo x > /etc/passwd")).exit_code != 0  # it is still root's


async def test_an_images_own_environment(docker_engine: Engine) -> None:
    async with Sandbox.create(Docker(socket=docker_engine.socket), image="busybox", env={"LANG": "mine"}) as sb:
        told = dict(line.split("=", 1) for line in (await sb.exec("env")).stdout.splitlines())
        assert told["PATH"].startswith("/usr/local/sbin")
        assert (told["HOME"], told["LANG"]) == ("/home/agent", "mine")
        assert "PADDOCK_SECRET" not in told


async def test_auto_is_docker_where_an_image_is_asked_for(
    docker_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", docker_engine.url)
    async with Sandbox.create(image="busybox") as sb:
        assert sb.backend == "docker"
    async with Sandbox.create() as sb:
        assert sb.backend == "namespaces"


async def test_a_memory_hog_is_told(backend: Docker) -> None:
    async with Sandbox.create(backend, limits=Limits(memory="64m")) as sb:
        result = await sb.exec(["python3", "-c", "x = bytearray(400 << 20)"])
        assert (result.exit_code, result.limit) == (137, "memory")
        assert (await sb.exec("echo fine")).stdout == "fine\n"


async def test_a_volume_of_an_image_is_bounded(docker_engine: Engine, tmp_path: Path) -> None:
    """An engine would make a volume for it, with nobody to remove it."""
    container = docker_engine.api.json("POST", "/containers/create", {"Image": "busybox", "Cmd": ["true"]})["Id"]
    try:
        docker_engine.api.call(
            "POST", "/commit", {"Volumes": {"/data": {}}}, container=container, repo="with-volume", tag="latest"
        )
    finally:
        docker_engine.api.call("DELETE", f"/containers/{container}", force="1")
    async with Sandbox.create(Docker(socket=docker_engine.socket), image="with-volume", limits=Limits(tmp="8m")) as sb:
        assert (await sb.exec("echo x > /data/f && cat /data/f")).stdout == "x\n"
        assert (await sb.exec("dd if=/dev/zero of=/data/large bs=1M count=20")).exit_code != 0
        assert "volume" not in " ".join(docker_engine.api.held())


async def test_words_that_are_none() -> None:
    with pytest.raises(ConfigError):
        Docker(runtime=5)  # type: ignore[arg-type]


async def test_a_runtime_that_is_none(docker_engine: Engine) -> None:
    with pytest.raises(UnavailableError, match="nosuch"):
        await Sandbox.create(Docker(socket=docker_engine.socket, runtime="nosuch"), image="busybox")


@pytest.mark.parametrize("frames", [False, True])
async def test_the_fewest_processes(frames: bool, docker_engine: Engine, backend: Docker) -> None:
    """Also where a relay is one more of them."""
    ways.known(docker_engine.url, None).calls = not frames
    async with Sandbox.create(backend, limits=Limits(pids=16)) as sb, await sb.start(["sleep", "1000"]):
        for _ in range(10):
            assert (await sb.exec("echo fine | cat")).stdout == "fine\n"
    with pytest.raises(ConfigError, match="pids=15"):
        await Sandbox.create(backend, limits=Limits(pids=15))
