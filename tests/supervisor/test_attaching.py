"""Finding a command again: by its pid in a sandbox, and in the protocol with what it printed last."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock import NotFoundError, Sandbox
from paddock.backends.local import Local
from paddock.wire.fields import Fields
from paddock.wire.frames import Reply, Request, SpawnFlag
from supervisor.host import Host, exit_code


async def test_processes(mode: Local) -> None:
    async with Sandbox.create(mode) as sb:
        assert await sb.processes() == []
        one = await sb.start(["sleep", "60"])
        other = await sb.start("echo begun; read word; echo $word", stdin=True)
        found = {info.pid: info.command for info in await sb.processes()}
        assert found == {one.pid: ("sleep", "60"), other.pid: ("echo begun; read word; echo $word",)}
        again = await sb.process(other.pid)
        await again.write("x\n")
        assert (await other.wait()).stdout == (await again.wait()).stdout == "begun\nx\n"
        assert [info.pid for info in await sb.processes()] == [one.pid]
        for pid in (other.pid, 1, 0, 1 << 31):
            with pytest.raises(NotFoundError):
                await sb.process(pid)
        await (await sb.process(one.pid)).kill()
        assert one.exit_code == 137


async def test_very_many_processes(way: Local) -> None:
    async with Sandbox.create(way) as sb:
        started = [await sb.start(["sh", "-c", "sleep 60; true", *["x" * 500] * 3]) for _ in range(150)]
        assert {info.pid for info in await sb.processes()} == {process.pid for process in started}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with Host(directory=tmp_path) as host:
        yield host


def test_attach_brings_what_was_kept(host: Host) -> None:
    first = host.spawn(
        ["/bin/sh", "-c", "echo 0123456789; read word; echo $word; exit 4"], flags=SpawnFlag.STDIN, keep=6
    )
    pid = host.pid(first)
    assert host.printed(first, 11) == b"0123456789\n"
    second = host.attach(pid)
    assert host.pid(second) == pid
    assert host.printed(second, 6) == b"56789\n"
    host.send(Request.INPUT, second, b"on\n")
    assert host.printed(second, 3) == b"on\n"
    assert exit_code(host.wait(Reply.ENDED, second)) == 4
    assert host.quiet(Reply.OUTPUT, first, 0.05)


def test_attach_begins_a_window_of_its_own(host: Host) -> None:
    first = host.spawn(["/bin/cat", "/dev/zero"], window=1000, keep=100)
    pid = host.pid(first)
    assert len(host.printed(first, 1000)) == 1000
    assert host.quiet(Reply.OUTPUT, first, 0.1)
    second = host.attach(pid, 50)
    assert len(host.printed(second, 150)) == 150
    assert host.quiet(Reply.OUTPUT, second, 0.1)
    host.send(Request.WINDOW, second, struct.pack("<I", 7))
    assert len(host.printed(second, 7)) == 7
    host.kill(second)


def test_attach_to_nothing(host: Host) -> None:
    ended = host.spawn(["/bin/true"])
    pid = host.pid(ended)
    host.wait(Reply.ENDED, ended)
    for number in (pid, 1, 0):
        id = host.attach(number)
        with pytest.raises(ProcessLookupError):
            host.wait(Reply.STARTED, id)


def test_input_that_still_waits(host: Host) -> None:
    """The window of input is what it was: who attaches is told of it as it is taken."""
    first = host.spawn(["/bin/sh", "-c", "read word; cat | wc -c"], flags=SpawnFlag.STDIN)
    pid = host.pid(first)
    host.send(Request.INPUT, first, b"x" * 250_000)
    second = host.attach(pid)
    host.pid(second)
    granted = 0
    host.send(Request.INPUT, second, b"\n")
    while granted < 1:
        granted += Fields(host.wait(Reply.WINDOW, second).payload).u32()
    host.send(Request.INPUT, second)
    host.wait(Reply.ENDED, second)
