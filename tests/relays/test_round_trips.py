"""Bytes go both ways, unchanged, many at once, and each way has an end of its own."""

import asyncio
import hashlib
import random

import pytest

from paddock import Sandbox
from paddock.driver import Connection, RelayingDriver
from paddock.types.ports import RelayAddress
from relays import inside
from relays.conftest import Subject, echo, read_all

BRIDGE = RelayAddress.unix("/run/paddock/bridge.sock")


async def test_a_port_inside_leads_to_a_handler(sb: Subject) -> None:
    assert isinstance(sb.driver, RelayingDriver)
    listener = await sb.driver.listen(RelayAddress.loopback(), echo)
    assert listener.address.port > 0
    assert await sb.ask(inside.say, listener.address.port, "by IPv4") == "by IPv4"
    if await sb.ask(inside.reach, f"6:{listener.address.port}") == "reached\n":
        assert await sb.ask(inside.say, f"6:{listener.address.port}", "by IPv6") == "by IPv6"
    await listener.close()
    assert await sb.ask(inside.reach, listener.address.port) == "ConnectionRefusedError\n"


async def test_a_socket_inside_leads_to_a_handler(sb: Subject) -> None:
    listener = await sb.driver.listen(BRIDGE, echo)
    path = await sb.socket("bridge.sock")
    assert await sb.ask(inside.say, path, "by a path") == "by a path"
    await listener.close()
    assert await sb.ask(inside.reach, path) == "FileNotFoundError\n"
    again = await sb.driver.listen(BRIDGE, echo)
    assert await sb.ask(inside.say, path, "again") == "again"
    await again.close()


async def test_the_host_connects_to_a_port(sb: Subject) -> None:
    async with sb.serving(inside.echo, 0) as address:
        connection = await sb.driver.connect(address)
        await connection.write(b"hello")
        assert await connection.read() == b"hello"
        await connection.write(b", and more")
        await connection.end()
        assert await read_all(connection) == b", and more"
        connection.close()


async def test_a_server_that_knows_only_ipv6(here: Subject) -> None:
    async with here.serving(inside.echo, "6:0") as address:
        connection = await here.driver.connect(address)
        await connection.write(b"six")
        assert await connection.read() == b"six"
        connection.close()


async def test_the_host_connects_to_a_socket(sb: Subject) -> None:
    await (await sb.driver.listen(BRIDGE, echo)).close()  # on `local` the directory is made when it is first used
    async with sb.serving(inside.echo, await sb.socket("own.sock")):
        connection = await sb.driver.connect(RelayAddress.unix("/run/paddock/own.sock"))
        await connection.write(b"hello")
        assert await connection.read() == b"hello"
        connection.close()


async def test_a_socket_in_a_mount() -> None:
    async with Sandbox.create("namespaces") as sandbox:
        there = Subject(sandbox)
        listener = await there.driver.listen(RelayAddress.unix("/workspace/own.sock"), echo)
        assert await sandbox.exists("own.sock")
        assert await there.ask(inside.say, "/workspace/own.sock", "in here") == "in here"
        await listener.close()
        assert not await sandbox.exists("own.sock")


@pytest.mark.parametrize("size", [2 << 20])
async def test_many_at_once_from_inside(here: Subject, size: int) -> None:
    listener = await here.driver.listen(RelayAddress.loopback(), echo)
    assert await here.ask(inside.many, listener.address.port, 200, size) == "200\n"
    await listener.close()


async def test_many_at_once_through_a_socket(sb: Subject) -> None:
    listener = await sb.driver.listen(BRIDGE, echo)
    assert await sb.ask(inside.many, await sb.socket("bridge.sock"), 50, 200_000) == "50\n"
    await listener.close()


async def test_many_at_once_from_the_host(here: Subject) -> None:
    async with here.serving(inside.echo, 0) as address:

        async def one(number: int) -> bool:
            source, sent, got = random.Random(number), hashlib.sha256(), hashlib.sha256()
            connection = await here.driver.connect(address)

            async def send() -> None:
                for _ in range(40):
                    piece = source.randbytes(source.randrange(1, 50_000))
                    sent.update(piece)
                    await connection.write(piece)
                await connection.end()

            sending = asyncio.create_task(send())
            while data := await connection.read(source.randrange(1, 100_000)):
                got.update(data)
            await sending
            connection.close()
            return sent.digest() == got.digest()

        assert all(await asyncio.gather(*map(one, range(200))))


async def test_each_way_has_an_end_of_its_own(here: Subject) -> None:
    """The handler ends first, and hears on; the other has ended first in the tests above."""
    heard = asyncio.get_running_loop().create_future()

    async def last_words(connection: Connection) -> None:
        await connection.write(b"this is all")
        await connection.end()
        heard.set_result(await read_all(connection))
        with pytest.raises(ConnectionError):
            await connection.write(b"x")

    listener = await here.driver.listen(RelayAddress.loopback(), last_words)
    program = f"""
import socket
s = socket.create_connection(("127.0.0.1", {listener.address.port}))
said = b""
while data := s.recv(1000):
    said += data
s.sendall(b"I heard " + said)
s.close()
"""
    assert (await here.sandbox.exec(["python3", "-c", program])).exit_code == 0
    assert await asyncio.wait_for(heard, 30) == b"I heard this is all"
    await listener.close()


async def test_what_was_written_arrives_though_the_connection_is_closed(here: Subject) -> None:
    async def generous(connection: Connection) -> None:
        await connection.write(b"x" * 3_000_000)

    listener = await here.driver.listen(BRIDGE, generous)
    assert len(await here.ask(inside.say, await here.socket("bridge.sock"), "")) == 3_000_000
    await listener.close()


async def test_a_read_that_is_given_up_loses_nothing(here: Subject) -> None:
    async with here.serving(inside.echo, 0) as address:
        connection = await here.driver.connect(address)
        expected, got = b"", b""
        for number in range(100):
            piece = b"%d," % number
            expected += piece
            await connection.write(piece)
            try:
                async with asyncio.timeout(random.Random(number).random() / 1000):
                    got += await connection.read()
            except TimeoutError:
                pass
        await connection.end()
        assert got + await read_all(connection) == expected
        connection.close()


async def test_two_who_read_are_told(here: Subject) -> None:
    async with here.serving(inside.echo, 0) as address:
        connection = await here.driver.connect(address)
        first = asyncio.create_task(connection.read())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="another task reads"):
            await connection.read()
        await connection.write(b"for the first")
        assert await first == b"for the first"
        connection.close()


async def test_those_who_write_take_turns(here: Subject) -> None:
    async with here.serving(inside.echo, 0) as address:
        connection = await here.driver.connect(address)
        reading = asyncio.create_task(read_all(connection))
        await asyncio.gather(*(connection.write(bytes([number]) * 400_000) for number in range(8)))
        await connection.end()
        got = await reading
        assert [got[at] for at in range(0, len(got), 400_000)] == list(range(8))
        assert got == b"".join(bytes([number]) * 400_000 for number in range(8))
        connection.close()
