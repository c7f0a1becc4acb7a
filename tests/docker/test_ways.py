"""How host and supervisor come together: by descriptors, or through a relay; found by trying."""

import os
from pathlib import Path

import pytest

from engines.daemon import Engine
from paddock import Sandbox, UnavailableError, places
from paddock.backends.docker import Docker, place, ways
from paddock.backends.namespaces.identity import Identity
from paddock.dirs.descriptor import DescriptorDir
from paddock.state import state_directory
from paddock.wire.dir import WireDir


def directory_of(sb: Sandbox, target: str = "/workspace") -> object:
    """What stands behind file calls."""
    return sb._files.table.locate(target).dir


async def used(sb: Sandbox) -> None:
    """Files and commands, and both on the same things."""
    await sb.write("f", "hello")
    assert (await sb.exec("cat f; echo x > g")).stdout == "hello"
    assert await sb.read("g") == "x\n"
    await sb.write("/tmp/f", "there")
    assert (await sb.exec(["cat", "/tmp/f"])).stdout == "there"
    process = await sb.start(["cat"], stdin=True)
    await process.write("in")
    await process.close_stdin()
    assert (await process.wait()).stdout == "in"


async def test_by_descriptors(docker_engine: Engine, backend: Docker) -> None:
    async with Sandbox.create(backend) as sb:
        assert isinstance(directory_of(sb), DescriptorDir)
        await used(sb)
    assert ways.known(docker_engine.url, None) == ways.Ways(files=True, calls=True)


async def test_podman(podman_engine: Engine) -> None:
    async with Sandbox.create(Docker(socket=podman_engine.socket), image="python") as sb:
        assert isinstance(directory_of(sb), DescriptorDir)
        await used(sb)
        assert "root:" in await sb.read("/etc/passwd")


async def test_gvisor_through_a_relay(docker_engine: Engine, gvisor: str) -> None:
    spec = Docker(socket=docker_engine.socket, runtime=gvisor)
    async with Sandbox.create(spec, image="python") as sb:
        assert isinstance(directory_of(sb), WireDir)
        await used(sb)
        assert (await sb.exec("uname -r")).stdout.startswith("4.4.0")  # which is what gVisor's kernel says it is
        assert "gVisor" in sb.isolation.files.by
    assert not ways.known(docker_engine.url, gvisor).calls
    assert ways.known(docker_engine.url, gvisor).files


async def test_an_engine_that_sees_no_file_of_ours(remote_engine: Engine, tmp_path: Path) -> None:
    spec = Docker(socket=remote_engine.socket)
    async with Sandbox.create(spec, image="python") as sb:
        assert isinstance(directory_of(sb), WireDir)
        await used(sb)
        await sb.upload(Path(__file__), "me.py")
        assert "def used" in await sb.read("me.py")
        assert (await sb.exec("stat -c %a:%u . /cache")).stdout.split()[0].startswith("755:")
    assert ways.known(remote_engine.url, None) == ways.Ways(files=False, calls=False)
    with pytest.raises(UnavailableError, match="does not see this host's directories"):
        await Sandbox.create(spec, image="python", workspace=tmp_path / "ws")


async def test_descriptors_that_are_of_no_use(
    docker_engine: Engine, backend: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They travel, and what they stand for is closed to us: then the supervisor makes the calls."""
    stat, refusals = DescriptorDir.stat, iter([True])

    def closed(self: DescriptorDir, path: str) -> object:
        if path == ".paddock" and next(refusals, False):
            raise PermissionError
        return stat(self, path)

    monkeypatch.setattr(DescriptorDir, "stat", closed)
    async with Sandbox.create(backend) as sb:
        assert isinstance(directory_of(sb), WireDir)
        await used(sb)
    assert ways.known(docker_engine.url, None) == ways.Ways(files=True, calls=False)


async def test_nobody_else_is_taken_for_the_host(docker_engine: Engine, backend: Docker) -> None:
    """A command can connect to the socket that a relay uses, and does not know what to say."""
    ways.known(docker_engine.url, None).calls = False
    program = """
import socket, struct
s = socket.socket(socket.AF_UNIX)
s.connect(chr(0) + 'paddock')
s.sendall(struct.pack('<IBBHI', 12, 1, 0, 0, 1) + struct.pack('<HII', 1, 0, 1) + b'x' + bytes(1))
print(s.recv(1000))
"""
    sb = await Sandbox.create(backend, detached=True)
    try:
        told = await sb.exec(["python3", "-c", program])
        assert "not this sandbox's secret" in told.stdout
        assert "PADDOCK_SECRET" not in (await sb.exec("cat /proc/1/environ /proc/1/cmdline")).stdout
        assert (await sb.exec("echo fine")).stdout == "fine\n"
    finally:
        await sb.close()
        await Sandbox.remove(sb.id)
    async with Sandbox.create(backend) as sb:  # with only one host there is nothing to connect to any more
        assert "refused" in (await sb.exec(["python3", "-c", program])).stderr


def test_what_was_shown_is_never_removed(tmp_path: Path) -> None:
    """Root's directories are mounted for a moment. One who is killed then leaves a mount; a sweep takes away just that."""
    precious = tmp_path / "precious"
    (precious / "deep").mkdir(parents=True)
    (precious / "deep/file").write_text("keep me")
    state_directory()
    left = place.Place("sb-000000000000", Identity(12345, 12345, ours=False))
    fd = os.open(precious, os.O_PATH)
    try:
        shown = left.show(fd)
        left.mount()
    finally:
        os.close(fd)
    assert Path(shown, "deep/file").read_text() == "keep me"
    assert Path(shown, "deep/file").stat().st_uid == 12345
    places.sweep()
    assert not left.path.exists()
    assert (precious / "deep/file").read_text() == "keep me"
    assert str(left.path) not in Path("/proc/self/mountinfo").read_text()
