"""Commands that mean harm: what they can do to a relay, to its host and to others is nothing."""

import asyncio
from contextlib import suppress

import pytest

import descriptors
from paddock import Namespaces, Sandbox
from paddock.driver import BackendSpec, Connection
from paddock.types.ports import RelayAddress
from relays import inside
from relays.conftest import Subject, echo, first_line, until

BRIDGE = RelayAddress.unix("/run/paddock/bridge.sock")


async def hear(connection: Connection) -> None:
    """Hear all, and say how much that was."""
    size = 0
    while data := await connection.read():
        size += len(data)
    await connection.write(b"%09d" % size)


async def test_descriptors_that_are_sent_along_are_closed(here: Subject) -> None:
    """None gets to the host's process or stays in the supervisor. The bytes that they travelled with arrive."""
    listener = await here.driver.listen(BRIDGE, hear)
    before = descriptors.count()
    assert await here.ask(inside.rights, await here.socket("bridge.sock"), 50) == "9 0\n"
    assert await descriptors.soon_back_to(before)
    await listener.close()


async def test_descriptors_for_one_who_does_not_read(here: Subject) -> None:
    """They are under way as long as the connection is, and closed with it."""
    got: list[Connection] = []
    stay = asyncio.Event()

    async def never(connection: Connection) -> None:
        got.append(connection)
        await stay.wait()

    listener = await here.driver.listen(BRIDGE, never)
    before = descriptors.count()
    asking = asyncio.create_task(here.ask(inside.rights, await here.socket("bridge.sock"), 20))
    await until(lambda: len(got) == 1)
    await asyncio.sleep(0.1)
    assert descriptors.count() <= before + 8  # the connection, and the command's own
    got[0].abort()
    stay.set()
    with suppress(AssertionError):  # it may have heard that it was cut off
        assert (await asking).endswith(" 0\n")
    assert await descriptors.soon_back_to(before)
    await listener.close()


async def test_garbage(sb: Subject) -> None:
    """A handler gets bytes, and nothing that they say is heard by anybody else."""
    listener = await sb.driver.listen(RelayAddress.loopback(), hear)
    await asyncio.gather(*(sb.ask(inside.garbage, listener.address.port, seed) for seed in range(3)))
    assert (await sb.sandbox.exec("echo alive")).stdout == "alive\n"
    assert await sb.ask(inside.say, listener.address.port, "12345") == "000000005"
    await listener.close()


async def test_a_place_that_leads_elsewhere(here: Subject) -> None:
    """A link where a socket should be leads to nothing that the command itself could not reach."""
    listener = await here.driver.listen(BRIDGE, echo)
    path = await here.socket("bridge.sock")
    await here.sandbox.exec(f"ln -s {path} {path}.link; ln -s /nowhere {path}.lost")
    connection = await here.driver.connect(RelayAddress.unix("/run/paddock/bridge.sock.link"))
    await connection.write(b"a link")
    assert await connection.read() == b"a link"
    connection.close()
    with pytest.raises(FileNotFoundError):
        await here.driver.connect(RelayAddress.unix("/run/paddock/bridge.sock.lost"))
    with pytest.raises(FileExistsError):
        await here.driver.listen(RelayAddress.unix("/run/paddock/bridge.sock.lost"), echo)
    await listener.close()


async def test_another_sandboxs_listener_cannot_be_reached() -> None:
    async with Sandbox.create(Namespaces()) as one, Sandbox.create(Namespaces()) as other:
        mine, theirs = Subject(one), Subject(other)
        listener = await mine.driver.listen(RelayAddress.loopback(), echo)
        await mine.driver.listen(BRIDGE, echo)
        for place, word in ((listener.address.port, "ConnectionRefusedError"), (BRIDGE.path, "FileNotFoundError")):
            assert await mine.ask(inside.reach, place) == "reached\n"
            assert await theirs.ask(inside.reach, place) == f"{word}\n"
        with pytest.raises(FileNotFoundError):
            await theirs.driver.connect(listener.address)
        own = await theirs.driver.listen(listener.address, echo)  # the same number is another port there
        assert own.address == listener.address


async def test_the_hosts_ports_cannot_be_reached() -> None:
    """Neither by commands nor by asking the supervisor: its loopback is the sandbox's."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with Sandbox.create(Namespaces()) as sandbox, Sandbox.create("local") as open_one:
        there, here = Subject(sandbox), Subject(open_one)
        assert await there.ask(inside.reach, port) == "ConnectionRefusedError\n"
        with pytest.raises(FileNotFoundError):
            await there.driver.connect(RelayAddress.loopback(port))
        (await here.driver.connect(RelayAddress.loopback(port))).close()  # `local` has the host's
        assert await here.ask(inside.reach, port) == "reached\n"
    server.close()


async def test_a_listener_is_on_the_loopback_alone(everywhere: BackendSpec) -> None:
    async with Sandbox.create(everywhere) as sandbox:
        there = Subject(sandbox)
        listener = await there.driver.listen(RelayAddress.loopback(), echo)
        program = f"""
for name, own in (("tcp", "0100007F"), ("tcp6", "00000000000000000000000001000000")):
    try:
        lines = open(f"/proc/net/{{name}}").readlines()[1:]
    except FileNotFoundError:
        continue
    found = [line.split()[1] for line in lines if line.split()[3] == "0A"]
    assert all(where == own + ":{listener.address.port:04X}" for where in found
               if where.endswith(":{listener.address.port:04X}")), found
    print(name, sum(where.endswith(":{listener.address.port:04X}") for where in found))
"""
        told = await sandbox.exec(["python3", "-c", program])
        assert told.exit_code == 0, told.stderr
        assert "tcp 1" in told.stdout
        await listener.close()


async def test_commands_inherit_nothing_of_a_relay(here: Subject) -> None:
    listener = await here.driver.listen(BRIDGE, echo)
    path = await here.socket("bridge.sock")
    holding = await here.start(inside.hold, path, 5)
    assert await first_line(holding) == "5"
    held = await here.driver.connect(BRIDGE)
    assert (await here.sandbox.exec("ls /proc/self/fd")).stdout.split() == ["0", "1", "2", "3"]
    held.close()
    await holding.kill()
    await listener.close()


async def test_a_command_that_outlives_what_it_was_connected_to(here: Subject) -> None:
    """Its connection ends when the listener is closed, and it is not harmed otherwise."""
    listener = await here.driver.listen(RelayAddress.loopback(), echo)
    holding = await here.start(inside.hold, listener.address.port, 20)
    assert await first_line(holding) == "20"
    await listener.close()
    assert holding.exit_code is None
    await holding.close_stdin()
    assert (await holding.wait()).exit_code == 0
