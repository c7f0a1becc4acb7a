"""However it ends, and whoever ends it: nothing is left, and nobody waits for ever."""

import asyncio
import os
import random
import signal
from contextlib import suppress

import pytest

import descriptors
import detached
from paddock import Namespaces, Sandbox, SandboxDiedError
from paddock.backends.local import Local
from paddock.driver import BackendSpec, Connection, RelayingDriver
from paddock.types.ports import RelayAddress
from relays import inside
from relays.conftest import HERE, Subject, echo, first_line, read_all, until

BRIDGE = RelayAddress.unix("/run/paddock/bridge.sock")
SOAK = bool(os.environ.get("PADDOCK_SOAK"))


def tasks() -> set[asyncio.Task[object]]:
    return asyncio.all_tasks() - {asyncio.current_task()}


async def test_a_peer_that_dies(sb: Subject) -> None:
    heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def hear(connection: Connection) -> None:
        heard.set_result(await read_all(connection))

    listener = await sb.driver.listen(RelayAddress.loopback(), hear)
    result = await sb.sandbox.exec(sb.words(inside.killed, listener.address.port))
    assert result.exit_code == 128 + signal.SIGKILL
    assert await asyncio.wait_for(heard, 30) == b"my last words"
    await listener.close()


async def test_a_server_that_dies(here: Subject) -> None:
    async with here.serving(inside.deaf, 0) as address:
        waiting = await here.driver.connect(address)
        writing = await here.driver.connect(address)
        pushing = asyncio.create_task(writing.write(bytes(64 << 20)))
        reading = asyncio.create_task(waiting.read())
        await asyncio.sleep(0.2)
        assert not pushing.done()
    with pytest.raises(ConnectionError):
        await asyncio.wait_for(pushing, 30)
    with suppress(ConnectionError):
        assert await asyncio.wait_for(reading, 30) == b""
    waiting.close()
    writing.close()


async def test_one_that_was_cut_off_hears_so(here: Subject) -> None:
    """A connection that was closed ends; one that was aborted breaks."""

    async def cut(connection: Connection) -> None:
        await connection.write(b"x")
        (connection.abort if await connection.read(1) == b"a" else connection.close)()

    listener = await here.driver.listen(RelayAddress.loopback(), cut)
    program = """
import socket, sys
for word in (b"a", b"c"):
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    s.recv(1)
    s.sendall(word)
    try:
        print(s.recv(1))
    except ConnectionResetError:
        print("reset")
"""
    told = await here.sandbox.exec(["python3", "-c", program, str(listener.address.port)])
    assert told.stdout == "reset\nb''\n"
    await listener.close()


async def test_the_end_of_a_sandbox_is_that_of_all(everywhere: BackendSpec) -> None:
    before, others = descriptors.count(), tasks()
    ended: list[str] = []

    async def stay(connection: Connection) -> None:
        try:
            await connection.write(b"hello")
            while await connection.read():
                pass
        except BaseException as error:
            ended.append(type(error).__name__)
            raise

    sandbox = await Sandbox.create(everywhere)
    there = Subject(sandbox)
    port = await there.driver.listen(RelayAddress.loopback(), stay)
    path = await there.driver.listen(BRIDGE, stay)
    for place in (port.address.port, await there.socket("bridge.sock")):
        assert await first_line(await there.start(inside.hold, place, 10)) == "10"
    server = await first_line(await there.start(inside.deaf, 0))
    connections = [await there.driver.connect(RelayAddress.loopback(int(server))) for _ in range(5)]
    reading = [asyncio.create_task(connection.read()) for connection in connections]
    await until(lambda: port.serving + path.serving == 20)  # type: ignore[attr-defined]
    await sandbox.close()
    assert ended == ["CancelledError"] * 20
    for task in reading:
        with pytest.raises(ConnectionError):
            await task
    await until(lambda: not tasks() - others)
    if everywhere in HERE.values():
        assert await descriptors.soon_back_to(before + 2)


async def test_a_sandbox_that_is_killed() -> None:
    sandbox = await Sandbox.create(Local())
    there = Subject(sandbox)
    ended = asyncio.Event()

    async def stay(connection: Connection) -> None:
        try:
            await connection.read()
        finally:
            ended.set()

    listener = await there.driver.listen(RelayAddress.loopback(), stay)
    assert await first_line(await there.start(inside.hold, listener.address.port, 1)) == "1"
    connection = await there.driver.connect(listener.address)
    reading = asyncio.create_task(connection.read())
    await asyncio.sleep(0.05)
    pid = there.driver._end.__self__.supervisor.process.pid  # type: ignore[attr-defined]
    with pytest.raises(SandboxDiedError):
        await sandbox.exec(f"kill -9 {pid}; sleep 10")
    with pytest.raises(ConnectionError):
        await asyncio.wait_for(reading, 30)
    await asyncio.wait_for(ended.wait(), 30)
    with pytest.raises(SandboxDiedError):
        await there.driver.connect(listener.address)
    await listener.close()
    await sandbox.close()


async def test_given_up_at_any_moment(backend: BackendSpec) -> None:
    """Listening, connecting, reading and writing, each cancelled after a while that is none, or longer."""
    source = random.Random(7)
    async with Sandbox.create(backend) as sandbox:
        there = Subject(sandbox)
        async with there.serving(inside.echo, 0) as address:
            before, others = descriptors.count(), tasks()

            async def everything() -> None:
                listener = await there.driver.listen(RelayAddress.loopback(), echo)
                connection = await there.driver.connect(listener.address)
                try:
                    await connection.write(b"x" * 100_000)
                    while await connection.read():
                        pass
                finally:
                    connection.close()
                    await listener.close()

            async def only_connect() -> None:
                (await there.driver.connect(address)).close()

            for number in range(400 if SOAK else 120):
                task = asyncio.create_task((everything, only_connect)[number % 2]())
                for _ in range(source.randrange(12)):
                    await asyncio.sleep(0)
                await asyncio.sleep(source.choice((0, 0, 0.001, 0.003)))
                task.cancel()
                await asyncio.wait([task])
            connection = await there.driver.connect(address)
            await connection.write(b"still fine")
            assert await connection.read() == b"still fine"
            connection.close()
            await until(lambda: not there.driver._relays._connections)  # type: ignore[attr-defined]
            for left in list(there.driver._relays._listeners):  # type: ignore[attr-defined]
                await left.close()  # one whose `close` was given up
            await until(lambda: not tasks() - others)
            assert await descriptors.soon_back_to(before)


async def test_a_listener_that_is_closed_by_its_handler(here: Subject) -> None:
    done = asyncio.Event()

    async def last(connection: Connection) -> None:
        await connection.read()
        await connection.write(b"bye")
        await listener.close()
        done.set()

    listener = await here.driver.listen(BRIDGE, last)
    assert await here.ask(inside.say, await here.socket("bridge.sock"), "") == "bye"
    await asyncio.wait_for(done.wait(), 10)


async def test_a_handler_that_will_not_stop(here: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.backends.supervised.relays._SECONDS_TO_STOP", 0.2)
    free = asyncio.Event()

    async def stubborn(connection: Connection) -> None:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue

    listener = await here.driver.listen(RelayAddress.loopback(), stubborn)
    assert await first_line(await here.start(inside.hold, listener.address.port, 1)) == "1"
    await until(lambda: listener.serving == 1)  # type: ignore[attr-defined]
    await asyncio.wait_for(listener.close(), 10)
    free.set()
    await until(lambda: listener.serving == 0)  # type: ignore[attr-defined]


async def test_a_forked_child_leaves_its_parents_connections_alone(here: Subject) -> None:
    listener = await here.driver.listen(RelayAddress.loopback(), echo)
    connection = await here.driver.connect(listener.address)
    await connection.write(b"before")
    assert await connection.read() == b"before"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            connection.close()
            here.driver.connect(listener.address).send(None)
        except BaseException as error:  # noqa: BLE001 - a child that only says how it went
            code = 0 if type(error).__name__ == "ClosedError" else 2
        try:
            here.driver.close().send(None)
        except StopIteration:
            os._exit(code)
        finally:
            os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    await connection.write(b"after")
    assert await connection.read() == b"after"
    assert await here.ask(inside.say, listener.address.port, "and new ones") == "and new ones"
    connection.close()
    await listener.close()


async def test_a_child_that_holds_it_does_not_keep_it_open(here: Subject) -> None:
    async with here.serving(inside.echo, 0) as address:
        connection = await here.driver.connect(address)
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
        try:
            program = f"""
import os, time
until = time.monotonic() + 30
while time.monotonic() < until:
    lines = [line.split() for line in open("/proc/net/tcp").readlines()[1:]]
    if not any(words[1].endswith(":{address.port:04X}") and words[3] == "01" for words in lines):
        raise SystemExit(0)
    time.sleep(0.01)
raise SystemExit(1)
"""
            connection.close()
            assert (await here.sandbox.exec(["python3", "-c", program])).exit_code == 0
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


async def test_a_detached_sandbox_whose_host_comes_again() -> None:
    """What a connection served ends with it, and another makes it again; while one is there, nobody takes its place."""
    sandbox = await Sandbox.create(Namespaces(), detached=True)
    try:
        there = Subject(sandbox)
        await there.driver.listen(BRIDGE, echo)
        held = await there.driver.listen(RelayAddress.loopback(), echo)
        assert await there.ask(inside.say, "/run/paddock/bridge.sock", "the first") == "the first"
        holding = await there.start(inside.hold, held.address.port, 3)
        assert await first_line(holding) == "3"
        await sandbox.close()
        again = await Sandbox.connect(sandbox.id)
        here = Subject(again)
        assert await here.ask(inside.reach, "/run/paddock/bridge.sock") == "FileNotFoundError\n"
        assert await here.ask(inside.reach, held.address.port) == "ConnectionRefusedError\n"
        listener = await here.driver.listen(BRIDGE, echo)
        assert await here.ask(inside.say, "/run/paddock/bridge.sock", "the second") == "the second"
        third = await Sandbox.connect(sandbox.id)
        other = Subject(third)
        own = await other.driver.listen(RelayAddress.loopback(), echo)
        assert await here.ask(inside.say, own.address.port, "both") == "both"
        await third.close()
        assert await here.ask(inside.say, "/run/paddock/bridge.sock", "still") == "still"
        await listener.close()
        await again.close()
    finally:
        await Sandbox.remove(sandbox.id)


async def test_a_detached_sandbox_whose_host_was_killed() -> None:
    code = """
from paddock.types.ports import RelayAddress
sb = await Sandbox.create("namespaces", detached=True)
async def stay(connection):
    await asyncio.sleep(1000)
await sb._core.launched.driver.listen(RelayAddress.unix("/run/paddock/bridge.sock"), stay)
print(sb.id, flush=True)
await asyncio.sleep(1000)
"""
    with detached.program(code) as host:
        id_ = detached.first_line(host)
        host.kill()
        host.wait()
        assert host.stdout is not None
    try:
        async with await Sandbox.connect(id_) as sandbox:
            there = Subject(sandbox)

            async def free() -> bool:
                return await there.ask(inside.reach, "/run/paddock/bridge.sock") == "FileNotFoundError\n"

            await until(free)
            await there.driver.listen(BRIDGE, echo)
            assert await there.ask(inside.say, "/run/paddock/bridge.sock", "again") == "again"
    finally:
        await Sandbox.remove(id_)


async def test_what_is_to_be_done_before_it_is_closed(backend: BackendSpec) -> None:
    done: list[str] = []

    def action(name: str) -> object:
        async def act() -> None:
            done.append(name)

        return act

    async with Sandbox.create(backend) as sandbox:
        driver = sandbox._core.launched.driver
        assert isinstance(driver, RelayingDriver)
        driver.on_close(action("first"))  # type: ignore[arg-type]
        undo = driver.on_close(action("undone"))  # type: ignore[arg-type]
        driver.on_close(action("last"))  # type: ignore[arg-type]
        undo()
        undo()
        assert done == []
    assert done == ["first", "last"]


async def test_what_fails_then_is_told_and_the_rest_is_done(backend: BackendSpec) -> None:
    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["exception"]))
    done: list[str] = []

    async def fail() -> None:
        raise ValueError("not today")

    async def act() -> None:
        done.append("done")

    async with Sandbox.create(backend) as sandbox:
        there = Subject(sandbox)
        there.driver.on_close(fail)
        there.driver.on_close(act)
        await there.driver.listen(RelayAddress.loopback(), echo)
    assert done == ["done"]
    (complaint,) = complaints
    assert isinstance(complaint, ValueError)
