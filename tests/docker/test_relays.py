"""Relays where the engine decides what there is: its tmpfs, a volume, a root that may be written or not."""

import pytest

from engines.daemon import Engine
from paddock import Sandbox
from paddock.backends.docker import Docker, ways
from paddock.types.ports import RelayAddress
from relays import inside
from relays.conftest import Subject, echo

BRIDGE = RelayAddress.unix("/run/paddock/bridge.sock")


async def used(sandbox: Sandbox) -> None:
    """A socket and a port, both ways; and what is the supervisor's stays so."""
    there = Subject(sandbox)
    path = await there.driver.listen(BRIDGE, echo)
    port = await there.driver.listen(RelayAddress.loopback(), echo)
    assert await there.ask(inside.say, "/run/paddock/bridge.sock", "by a path") == "by a path"
    assert await there.ask(inside.say, port.address.port, "by a port") == "by a port"
    bridged = await sandbox.exec(
        ["/run/paddock/paddock-bridge", "/run/paddock/bridge.sock"], stdin="through the bridge"
    )
    assert bridged.stdout == "through the bridge"
    for address in (BRIDGE, port.address):
        connection = await there.driver.connect(address)
        await connection.write(b"from the host")
        assert await connection.read() == b"from the host"
        connection.close()
    for name in ("init", "paddock-bridge", "allow.bpf"):
        assert (await sandbox.exec(f"rm -f /run/paddock/{name} || mv /run/paddock/{name} /run/paddock/x")).exit_code
        assert (await sandbox.exec(f"echo x > /run/paddock/{name}")).exit_code
    await path.close()
    await port.close()


@pytest.mark.parametrize("read_only", [True, False])
async def test_docker(docker_engine: Engine, read_only: bool) -> None:
    async with Sandbox.create(Docker(socket=docker_engine.socket, read_only=read_only), image="python") as sandbox:
        await used(sandbox)


async def test_docker_in_frames(docker_engine: Engine, backend: Docker) -> None:
    ways.known(docker_engine.url, None).calls = False
    async with Sandbox.create(backend) as sandbox:
        await used(sandbox)


async def test_podman(podman_engine: Engine) -> None:
    async with Sandbox.create(Docker(socket=podman_engine.socket), image="python") as sandbox:
        await used(sandbox)


async def test_a_remote_engine(remote_engine: Engine) -> None:
    async with Sandbox.create(Docker(socket=remote_engine.socket), image="python") as sandbox:
        await used(sandbox)


async def test_detached(docker_engine: Engine, backend: Docker) -> None:
    """What listens ends with the connection that asked for it, and comes again with the next."""
    sandbox = await Sandbox.create(backend, detached=True)
    try:
        await Subject(sandbox).driver.listen(BRIDGE, echo)
        await sandbox.close()
        async with await Sandbox.connect(sandbox.id) as again:
            assert await Subject(again).ask(inside.reach, "/run/paddock/bridge.sock") == "FileNotFoundError\n"
            await used(again)
    finally:
        await Sandbox.remove(sandbox.id)
