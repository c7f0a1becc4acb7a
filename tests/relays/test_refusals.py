"""What cannot be is a typed error with words; and nearly the same thing can."""

import asyncio

import pytest

from paddock import (
    ClosedError,
    ConfigError,
    ExistsError,
    InvalidPathError,
    Memory,
    NotFoundError,
    OutsideError,
    ReadOnlyError,
    Sandbox,
    SandboxError,
)
from paddock.driver import RelayingDriver
from paddock.registry import find, names
from paddock.types.ports import RelayAddress
from relays import inside
from relays.conftest import Subject, echo


def test_which_backends_have_them() -> None:
    can = {name: find(name).capabilities.relays for name in names(built=True)}
    assert can == {"memory": False, "local": True, "namespaces": True, "docker": True}


async def test_one_without(here: Subject) -> None:
    async with Sandbox.create(Memory()) as sandbox:
        assert not isinstance(sandbox._core.launched.driver, RelayingDriver)
    assert isinstance(here.driver, RelayingDriver)


async def test_a_port_that_is_taken(sb: Subject) -> None:
    async with sb.serving(inside.echo, 0) as address:
        with pytest.raises(ExistsError, match=f"Something listens at port {address.port} inside already"):
            await sb.driver.listen(address, echo)
    listener = await sb.driver.listen(address, echo)  # free again
    with pytest.raises(ExistsError):
        await sb.driver.listen(address, echo)
    assert await sb.ask(inside.say, address.port, "ours") == "ours"
    await listener.close()


async def test_a_port_that_is_taken_for_ipv6_alone(here: Subject) -> None:
    async with here.serving(inside.echo, "6:0") as address:
        with pytest.raises(ExistsError):
            await here.driver.listen(address, echo)


async def test_a_path_that_is_taken(sb: Subject) -> None:
    address = RelayAddress.unix("/run/paddock/one.sock")
    listener = await sb.driver.listen(address, echo)
    with pytest.raises(ExistsError, match=r"'/run/paddock/one.sock' inside already"):
        await sb.driver.listen(address, echo)
    await listener.close()
    await (await sb.driver.listen(address, echo)).close()


async def test_nobody_listens(sb: Subject) -> None:
    listener = await sb.driver.listen(RelayAddress.loopback(), echo)
    (await sb.driver.connect(listener.address)).close()
    await listener.close()
    with pytest.raises(NotFoundError, match=f"Nothing listens at port {listener.address.port} inside") as caught:
        await sb.driver.connect(listener.address)
    assert "wait_for_port" in str(caught.value)
    with pytest.raises(NotFoundError):
        await sb.driver.connect(RelayAddress.unix("/run/paddock/none.sock"))


async def test_a_socket_never_meets_itself(here: Subject) -> None:
    """Its own port is chosen from the same numbers: the chance is one in some ten thousand, and there are many tries."""
    low = int((await here.sandbox.exec("cat /proc/sys/net/ipv4/ip_local_port_range")).stdout.split()[0])
    for port in range(low, low + 3000):
        with pytest.raises(NotFoundError):
            await here.driver.connect(RelayAddress.loopback(port))


async def test_places_where_nothing_can_be(here: Subject) -> None:
    with pytest.raises(NotFoundError, match="/run/paddock is there"):
        await here.driver.listen(RelayAddress.unix("/run/paddock/none/x.sock"), echo)
    with pytest.raises(InvalidPathError, match="107 bytes"):
        await here.driver.listen(RelayAddress.unix("/run/paddock/" + "x" * 120), echo)
    with pytest.raises(InvalidPathError, match="107 bytes"):
        await here.driver.connect(RelayAddress.unix("/run/paddock/" + "x" * 120))
    with pytest.raises((ReadOnlyError, OutsideError)):
        await here.driver.listen(RelayAddress.unix("/usr/x.sock"), echo)


async def test_a_file_is_no_socket(here: Subject) -> None:
    await (await here.driver.listen(RelayAddress.unix("/run/paddock/other"), echo)).close()
    await here.sandbox.exec("touch ${PADDOCK_SOCKETS:-/run/paddock}/file")
    with pytest.raises(NotFoundError):
        await here.driver.connect(RelayAddress.unix("/run/paddock/file"))
    with pytest.raises(ExistsError):
        await here.driver.listen(RelayAddress.unix("/run/paddock/file"), echo)


async def test_what_was_put_in_a_sockets_place_stays(here: Subject) -> None:
    listener = await here.driver.listen(RelayAddress.unix("/run/paddock/one.sock"), echo)
    path = await here.socket("one.sock")
    await here.sandbox.exec(f"rm {path}; echo mine > {path}")
    await listener.close()
    assert (await here.sandbox.exec(["cat", path])).stdout == "mine\n"


@pytest.mark.parametrize("port", [-1, 65536, True, "80"])
def test_what_is_no_port(port: int) -> None:
    with pytest.raises(ConfigError, match="is no port"):
        RelayAddress.loopback(port)
    assert str(RelayAddress.loopback(80)) == "port 80"


@pytest.mark.parametrize("path", ["relative", "", "@abstract", "/a/../b", "/a//b", "/a/"])
def test_what_is_no_path(path: str) -> None:
    with pytest.raises(ConfigError, match="is absolute"):
        RelayAddress.unix(path)
    assert RelayAddress.from_dict(RelayAddress.unix("/a").to_dict()) == RelayAddress(path="/a")


async def test_no_port_to_connect_to(here: Subject) -> None:
    with pytest.raises(ConfigError, match="0 is no port"):
        await here.driver.connect(RelayAddress.loopback(0))


async def test_a_server_whose_queue_is_full_is_waited_for(here: Subject) -> None:
    program = """
import socket, sys, os
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(0); print("ready", flush=True)
sys.stdin.readline()
while True: s.accept()[0].sendall(b"at last")
"""
    await (await here.driver.listen(RelayAddress.unix("/run/paddock/other"), echo)).close()
    path = await here.socket("slow.sock")
    async with await here.sandbox.start(["python3", "-c", program, path], stdin=True) as process:
        async for _ in process:
            break
        address = RelayAddress.unix("/run/paddock/slow.sock")
        first = await here.driver.connect(address)
        second = asyncio.create_task(here.driver.connect(address))
        third = asyncio.create_task(here.driver.connect(address))
        await asyncio.sleep(0.1)
        assert not third.done()
        await process.write("go\n")
        for connection in (first, await second, await third):
            assert await connection.read() == b"at last"
            connection.close()


async def test_what_was_closed_is_closed(backend: str) -> None:
    sandbox = await Sandbox.create(backend)
    there = Subject(sandbox)
    async with there.serving(inside.echo, 0) as address:
        connection = await there.driver.connect(address)
        connection.close()
        connection.close()
        connection.abort()
        with pytest.raises(ConnectionError):
            await connection.read()
        with pytest.raises(ConnectionError):
            await connection.write(b"x")
        with pytest.raises(ConnectionError):
            await connection.end()
        listener = await there.driver.listen(RelayAddress.loopback(), echo)
        await listener.close()
        await listener.close()
    await sandbox.close()
    for call in (there.driver.connect(address), there.driver.listen(address, echo)):
        with pytest.raises((ClosedError, SandboxError)):
            await call


async def test_a_handler_that_fails_is_told_and_harms_nobody(here: Subject) -> None:
    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    calls = 0

    async def fail_first(connection: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ValueError("the first is unlucky")
        await echo(connection)  # type: ignore[arg-type]

    listener = await here.driver.listen(RelayAddress.unix("/run/paddock/one.sock"), fail_first)
    path = await here.socket("one.sock")
    await here.sandbox.exec(here.words(inside.say, path, "x"))
    assert await here.ask(inside.say, path, "the second") == "the second"
    await listener.close()
    (complaint,) = complaints
    assert isinstance(complaint["exception"], ValueError)
