"""Sandboxes that outlive whoever made them, and sandboxes that end by themselves."""

import asyncio
import os
import signal
import stat
from collections.abc import Iterator
from functools import partial

import pytest

import descriptors
import detached
from paddock import (
    ClosedError,
    ConfigError,
    ConflictError,
    ExistsError,
    Local,
    Memory,
    Namespaces,
    NotFoundError,
    Sandbox,
    SandboxDiedError,
    SandboxInfo,
    UnavailableError,
    UnsupportedError,
    records,
    state,
    sync,
)
from paddock.backends.namespaces import detached as backend
from paddock.backends.namespaces.sources import open_source
from paddock.backends.namespaces.start import children
from paddock.driver import BackendSpec, DetachableSpec

HERE = "namespaces"


@pytest.fixture(autouse=True)
def nothing_of_them_is_left() -> Iterator[None]:
    sync.Sandbox.find()  # whose loop stays
    os.close(open_source(os.getcwd(), "/workspace"))  # whose handle of the root stays, whichever test is the first
    before = descriptors.count()
    yield
    detached.remove_all()
    assert detached.left() == []
    assert descriptors.back_to(before)


# Made here, used there

MAKE = """
sb = await Sandbox.create("namespaces", name="web", detached=True, labels={"team": "blue"}, env={"WHO": "me"},
                          workdir="/cache")
await sb.write("f.txt", "from the maker")
process = await sb.start("echo $WHO begins; read line; echo got $line; exec sleep 1000", stdin=True)
print(sb.id, process.pid, flush=True)
"""


async def used(id: str, pid: int) -> None:
    assert [info.name for info in await Sandbox.find()] == ["web"]
    async with Sandbox.connect("web") as sb:
        assert (sb.id, sb.name, sb.labels, sb.workdir, sb.backend) == (id, "web", {"team": "blue"}, "/cache", HERE)
        assert await sb.read("f.txt") == "from the maker"
        assert (await sb.exec("cat f.txt; echo; echo $WHO; stat -c %U f.txt")).stdout == "from the maker\nme\nagent\n"
        assert sb.isolation.files
        assert [info.pid for info in await sb.processes()] == [pid]
        process = await sb.process(pid)
        await process.write("a line\n")
        said = ""
        async for chunk in process:
            said += chunk.text
            if "got" in said:
                break
        assert said == "me begins\ngot a line\n"
        await sb.write("g.txt", "from the user")
        assert (await sb.exec("cat g.txt; stat -c ' %U' g.txt")).stdout == "from the user agent\n"


async def test_the_maker_ends() -> None:
    id, pid = detached.ran(MAKE).split()
    await used(id, int(pid))
    async with Sandbox.connect(id) as sb:
        assert await sb.read("g.txt") == "from the user"
        assert len(await sb.processes()) == 1


async def test_the_maker_is_killed() -> None:
    maker = detached.program(MAKE + "await asyncio.sleep(1000)")
    id, pid = detached.first_line(maker).split()
    maker.kill()
    maker.communicate()
    await used(id, int(pid))


async def test_ctrl_c_and_the_end_of_the_terminal_are_not_for_it() -> None:
    maker = detached.program(MAKE + "await asyncio.sleep(1000)")
    id, _ = detached.first_line(maker).split()
    supervisor = detached.record(id).held["pid"]
    assert os.getsid(supervisor) not in (os.getsid(0), os.getsid(maker.pid))
    bubblewrap = int(_stat(supervisor)[1])
    assert os.getsid(bubblewrap) not in (os.getsid(0), os.getsid(maker.pid))
    maker.kill()
    maker.communicate()


def _stat(pid: int) -> list[str]:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()


async def test_two_at_once() -> None:
    async with Sandbox.create(HERE, name="two", detached=True) as one, Sandbox.connect("two") as other:
        await one.write("f", "1")
        assert await other.read("f") == "1"
        results = await asyncio.gather(*(sb.exec("cat f") for sb in (one, other) * 10))
        assert {result.stdout for result in results} == {"1"}
        process = await one.start("exec sleep 1000")
        assert [info.pid for info in await other.processes()] == [process.pid]
        code = 'async with Sandbox.connect("two") as sb: print(await sb.read("f"), len(await sb.processes()))'
        assert detached.ran(code) == "1 1\n"
        await process.kill()


async def test_what_closing_leaves() -> None:
    async with Sandbox.create(HERE, name="leave", detached=True) as sb:
        running = asyncio.ensure_future(sb.exec("sleep 1000"))
        stays = await sb.start("exec sleep 1001")

        async def both_run() -> bool:
            return len(await sb.processes()) == 2

        await detached.until(both_run, "the commands do not run")
    await asyncio.wait([running])
    with pytest.raises(ClosedError):
        await sb.read("f")
    async with Sandbox.connect("leave") as again:

        async def one_is_left() -> bool:  # the other is ended when its channel is, which nobody waits for
            if [info.pid for info in await again.processes()] != [stays.pid]:
                return False
            return "1000" not in (await again.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).stdout

        await detached.until(one_is_left, "what was waited for goes on")


async def test_what_a_command_printed_is_kept() -> None:
    async with Sandbox.create(HERE, name="said", detached=True) as sb:
        process = await sb.start("echo once; echo twice >&2; exec sleep 1000")
    async with Sandbox.connect("said") as sb:
        again = await sb.process(process.pid)
        said: dict[str, bytes] = {}
        async for chunk in again:
            said[chunk.stream] = said.get(chunk.stream, b"") + chunk.data
            if len(said) == 2:
                break
        assert said == {"stdout": b"once\n", "stderr": b"twice\n"}
        await again.signal(signal.SIGTERM)
        assert (await again.wait()).exit_code == 128 + signal.SIGTERM


async def test_one_that_is_left_to_itself() -> None:
    """Whoever started it does not hear how it ended; whoever asks for it does, also over the same connection."""
    async with Sandbox.create(HERE, name="left", detached=True) as sb:
        process = await sb.start("echo said; exit 7", leave=True)
        assert process.exit_code is None
        for use in (process.wait, process.kill):
            with pytest.raises(ConflictError, match="left to itself"):
                await use()
        result = await (await sb.process(process.pid)).wait()
        assert (result.exit_code, result.stdout) == (7, "said\n")
        stays = await sb.start("exec sleep 1000", leave=True)
        assert [info.pid for info in await sb.processes()] == [stays.pid]
        assert (await sb.start(["no-such-program"], leave=True)).exit_code == 127
    async with Sandbox.create("local") as sb:
        with pytest.raises(ConfigError, match="leave="):
            await sb.start("true", leave=True)


async def test_how_a_command_ended_is_kept() -> None:
    """Of the last eight that ended while they were nobody's. Each is told of once; one that was heard of is not kept."""
    async with Sandbox.create(HERE, name="ended", detached=True) as sb:
        started = {code: await sb.start(_waits(code)) for code in range(10)}
        started[33] = await sb.start(_waits(33), pty=True)
        heard = await sb.start("exit 5")
        assert (await heard.wait()).exit_code == 5
    pids = {code: process.pid for code, process in started.items()}
    async with Sandbox.connect("ended") as sb:
        assert {info.exit_code for info in await sb.processes()} == {None}
        for code in (9, 8, 7, 6, 5, 4, 3, 2, 1, 33, 0):  # the one that was started first ends last
            await sb.write(f"go-{code}", "")
            await detached.until(partial(_has_ended, sb, pids[code]), "a command does not end")
        found = [(info.pid, info.exit_code) for info in await sb.processes()]
        assert found == [(pids[code], code) for code in (0, 33, 1, 2, 3, 4, 5, 6)]
        again = await sb.process(pids[0])
        result = await again.wait()
        assert (result.exit_code, result.stdout) == (0, "0\n")
        assert (await (await sb.process(pids[33])).wait()).stdout == "33\r\n"
        with pytest.raises(NotFoundError):
            await sb.process(again.pid)
        await again.kill()
        assert not await sb._core.in_use()


def _waits(code: int) -> str:
    return f"while [ ! -e go-{code} ]; do sleep 0.05; done; echo {code}; exit {code}"


async def _has_ended(sb: Sandbox, pid: int) -> bool:
    return any(info.pid == pid and info.exit_code is not None for info in await sb.processes())


async def test_the_parents_connection_is_not_the_childs_to_close() -> None:
    async with Sandbox.create(HERE, detached=True) as sb:
        child = os.fork()
        if not child:
            try:
                sb._core.launched.driver.close().send(None)
            except StopIteration:
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (await sb.exec("echo still here")).stdout == "still here\n"


# Finding


async def test_find() -> None:
    assert await Sandbox.find() == []
    for number, labels in enumerate(({"team": "blue", "x": "1"}, {"team": "red"}, {})):
        await (await Sandbox.create(HERE, name=f"n{number}", detached=True, labels=labels, lifetime=600)).close()
    async with Sandbox.create(HERE, name="n3"):
        assert [info.name for info in await Sandbox.find()] == ["n0", "n1", "n2"]  # and no other
    assert [info.name for info in await Sandbox.find(labels={"team": "blue"})] == ["n0"]
    assert await Sandbox.find(labels={"team": "blue", "x": "2"}) == []
    for wrong in ("team", {"team": 1}, 5):
        with pytest.raises(ConfigError, match="mapping of text to text"):
            await Sandbox.find(labels=wrong)  # type: ignore[arg-type]
    (info,) = await Sandbox.find(labels={"team": "red"})
    assert (info.backend, info.labels, info.idle_timeout, info.lifetime) == (HERE, {"team": "red"}, None, 600)
    assert SandboxInfo.from_dict(info.to_dict()) == info


async def test_what_is_not_there() -> None:
    for call in (Sandbox.connect("nobody"), Sandbox.remove("nobody")):
        with pytest.raises(NotFoundError, match="paddock ps"):
            await call
    with pytest.raises(TypeError, match="connect"):
        Sandbox.connect("nobody").__enter__()
    with pytest.raises(AttributeError, match=r"await Sandbox\.connect"):
        Sandbox.connect("nobody").read  # noqa: B018


async def test_the_record_is_for_its_owner() -> None:
    async with Sandbox.create(HERE, detached=True, env={"TOKEN": "s3cret"}) as sb:
        path = state.record_path(sb.id)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "s3cret" in path.read_text()
        found = detached.record(sb.id)
        assert stat.S_IMODE(os.stat(found.held["socket"]).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(os.path.dirname(found.held["socket"])).st_mode) == 0o700
        path.with_name("sb-000000000000.json").write_text("{}")
        path.with_name("sb-111111111111.json").write_text("not even JSON")
        assert [info.id for info in await Sandbox.find()] == [sb.id]
        for name in ("sb-000000000000", "sb-111111111111"):
            state.record_path(name).unlink()


# Names


async def test_a_name_is_given_once() -> None:
    await (await Sandbox.create(HERE, name="mine", detached=True)).close()
    with pytest.raises(ExistsError, match="paddock rm mine"):
        await Sandbox.create(HERE, name="mine", detached=True)
    assert len(await Sandbox.find()) == 1
    async with Sandbox.create(HERE, name="mine"):
        pass  # which others cannot find, and so need not tell from it
    await Sandbox.remove("mine")
    await (await Sandbox.create(HERE, name="mine", detached=True)).close()
    with pytest.raises(ConfigError, match="id"):
        await Sandbox.create(HERE, name="sb-0123456789ab", detached=True)


RACE = """
async def one():
    try:
        sb = await Sandbox.create("namespaces", name="wanted", detached=True)
    except ExistsError:
        return None
    await sb.close()
    return sb.id
print(*filter(None, await asyncio.gather(*(one() for _ in range(8)))))
"""


async def test_many_want_the_same_name() -> None:
    racers = [detached.program(RACE) for _ in range(4)]
    outputs = [racer.communicate(timeout=detached.SECONDS) for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 4, outputs
    winners = "".join(output for output, _ in outputs).split()
    assert [info.id for info in await Sandbox.find()] == winners
    assert len(winners) == 1


# The end


async def test_remove() -> None:
    async with Sandbox.create(HERE, name="gone", detached=True) as sb:
        await sb.write("f", "x")
        process = await sb.start("sleep 1000 & sleep 1001")
        found = detached.record("gone")
        assert len(detached.traces(found)) >= 4
        detached.ran('await Sandbox.remove("gone")')
        await detached.no_traces(found)
        with pytest.raises(SandboxDiedError):
            await sb.exec("true")
        with pytest.raises(SandboxDiedError):
            await process.wait()
        for call in (Sandbox.connect("gone"), Sandbox.connect(sb.id), Sandbox.remove("gone")):
            with pytest.raises(NotFoundError):
                await call


async def test_files_of_one_that_was_removed() -> None:
    """Nothing is read from what is left, nothing is lost in it, and no snapshot is kept of nothing."""
    async with Sandbox.create(HERE, name="gone", detached=True) as sb, Sandbox.connect("gone") as other:
        await other.write("f", "x")
        view = other.restrict("/workspace")
        assert await view.read("f") == "x"
        await Sandbox.remove("gone")
        with pytest.raises(SandboxDiedError):
            await other.exec("true")
        for call in (
            lambda: other.read("f"),
            lambda: other.write("/tmp/f", "1"),
            lambda: other.exists("f"),
            other.list,
            lambda: other.glob("*"),
            lambda: view.read("f"),
            lambda: other.snapshot("dead"),
            other.fork,
        ):
            with pytest.raises(SandboxDiedError):
                await call()
    async with Sandbox.create(HERE) as sb:
        assert await sb.snapshots(everywhere=True) == []


async def test_its_maker_has_no_dead_children() -> None:
    await (await Sandbox.create(HERE, name="child", detached=True)).close()
    await Sandbox.remove("child")
    assert [pid for pid in children(os.getpid()) if detached.is_dead(f"/proc/{pid}")] == []


async def test_host_directories_stay(tmp_path: "os.PathLike[str]") -> None:
    workspace = os.path.join(tmp_path, "w")
    os.mkdir(workspace)
    async with Sandbox.create(HERE, name="host", detached=True, workspace=workspace) as sb:
        await sb.write("f", "x")
    async with Sandbox.connect("host") as sb:
        assert sb.resolve("f") == os.path.join(workspace, "f")
    await Sandbox.remove("host")
    assert os.listdir(workspace) == ["f"]


async def test_a_supervisor_that_is_killed() -> None:
    async with Sandbox.create(HERE, name="killed", detached=True) as sb:
        await sb.start("sleep 1000 & sleep 1001")
        found = detached.record("killed")
        os.kill(found.held["pid"], signal.SIGKILL)
        await detached.ended("killed")
        await detached.no_traces(found)
        with pytest.raises(SandboxDiedError):
            await sb.exec("true")
    with pytest.raises(NotFoundError):
        await Sandbox.connect("killed")


async def test_what_a_killed_one_left_goes_with_the_next_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    sb = await Sandbox.create(HERE, name="swept", detached=True)
    await sb.close()
    found = detached.record("swept")
    os.kill(found.held["pid"], signal.SIGKILL)

    async def is_dead() -> bool:
        return not state.is_held(sb.id)

    await detached.until(is_dead, "the supervisor lives on")
    assert detached.traces(found) != []
    detached.ran('async with Sandbox.create("namespaces"): pass')
    await detached.no_traces(found)


async def test_a_supervisor_that_does_not_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    await (await Sandbox.create(HERE, name="stuck", detached=True)).close()
    found = detached.record("stuck")
    os.kill(found.held["pid"], signal.SIGSTOP)
    monkeypatch.setattr(backend, "_SECONDS_TO_END", 2.0)
    await Sandbox.remove("stuck")
    await detached.no_traces(found)


@pytest.mark.parametrize("how", ["the working directory", "cancelled", "the supervisor"])
async def test_one_that_cannot_be_made_leaves_nothing(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == "the working directory":
        with pytest.raises(NotFoundError):
            await Sandbox.create(HERE, name="half", detached=True, workdir="/workspace/none")
    elif how == "cancelled":
        for seconds in (0.0, 0.002, 0.005, 0.01, 0.02):
            task = asyncio.ensure_future(_made("half"))
            await asyncio.sleep(seconds)
            task.cancel()
            done = (await asyncio.gather(task, return_exceptions=True))[0]
            if isinstance(done, Sandbox):
                await done.close()
                await Sandbox.remove("half")
    else:
        monkeypatch.setenv("PADDOCK_SUPERVISOR", "/bin/false")
        with pytest.raises(UnavailableError):
            await Sandbox.create(HERE, name="half", detached=True)
        monkeypatch.delenv("PADDOCK_SUPERVISOR")
    assert detached.left() == []
    await (await Sandbox.create(HERE, name="half", detached=True)).close()


async def _made(name: str) -> Sandbox:
    return await Sandbox.create(HERE, name=name, detached=True)


KILLED = """
print("go", flush=True)
await Sandbox.create("namespaces", name="maybe", detached=True)
print("made", flush=True)
await asyncio.sleep(1000)
"""


@pytest.mark.parametrize("milliseconds", [0, 5, 10, 20, 30, 45, 60, 100])
async def test_a_maker_that_is_killed_leaves_nothing_or_what_can_be_found(
    milliseconds: int, tmp_path: "os.PathLike[str]"
) -> None:
    maker = detached.program(KILLED)
    assert detached.first_line(maker) == "go"
    await asyncio.sleep(milliseconds / 1000)
    maker.kill()
    was_made = "made" in maker.communicate()[0]
    found = await Sandbox.find()
    assert [info.name for info in found] in ([["maybe"]] if was_made else [["maybe"], []])
    for info in found:
        async with Sandbox.connect(info.id) as sb:
            assert (await sb.exec("echo fine")).stdout == "fine\n"
        await Sandbox.remove(info.id)
    detached.ran('async with Sandbox.create("namespaces"): pass')

    async def are_gone() -> bool:
        return detached.seeing(os.fspath(tmp_path)) == []

    await detached.until(are_gone, "processes are left")


async def test_connecting_to_one_that_is_being_removed() -> None:
    async def tried() -> str:
        try:
            async with Sandbox.connect("going") as sb:
                await sb.exec("true")
        except (NotFoundError, SandboxDiedError) as error:
            return type(error).__name__
        return "used"

    for _ in range(5):
        await (await Sandbox.create(HERE, name="going", detached=True)).close()
        outcomes = await asyncio.gather(Sandbox.remove("going"), *(tried() for _ in range(8)))
        assert set(outcomes[1:]) <= {"used", "NotFoundError", "SandboxDiedError"}


async def test_a_socket_that_somebody_removed() -> None:
    await (await Sandbox.create(HERE, name="cut", detached=True)).close()
    os.unlink(detached.record("cut").held["socket"])
    with pytest.raises(UnavailableError, match="can still be removed"):
        await Sandbox.connect("cut")
    await Sandbox.remove("cut")


async def test_more_connections_than_it_takes() -> None:
    await (await Sandbox.create(HERE, name="full", detached=True)).close()
    connected = [await Sandbox.connect("full") for _ in range(64)]
    with pytest.raises(UnavailableError, match="Close other connections"):
        await Sandbox.connect("full")
    await connected.pop().close()
    await (await Sandbox.connect("full")).close()
    for sb in connected:
        await sb.close()


# Ending by itself


async def test_idle() -> None:
    sb = await Sandbox.create(HERE, name="idle", detached=True, idle_timeout=0.5)
    found = detached.record("idle")
    await sb.close()
    await detached.ended("idle")
    await detached.no_traces(found)


async def test_a_command_or_a_connection_keeps_it() -> None:
    async with Sandbox.create(HERE, name="busy", detached=True, idle_timeout=1) as sb:
        await asyncio.sleep(2.5)
        process = await sb.start("exec sleep 1000")
    await asyncio.sleep(2.5)
    async with Sandbox.connect("busy") as sb:
        await (await sb.process(process.pid)).kill()
    await detached.ended("busy")


async def test_lifetime() -> None:
    async with Sandbox.create(HERE, name="short", detached=True, lifetime=1) as sb:
        await sb.start("exec sleep 1000")
        found = detached.record("short")
        await detached.ended("short")
        await detached.no_traces(found)

        async def is_told() -> bool:
            return sb._gate.closed

        await detached.until(is_told, "it can still be used")
        with pytest.raises(ClosedError, match="lifetime"):
            await sb.exists("f")


async def test_one_that_is_not_detached_ends_when_idle() -> None:
    sb = await Sandbox.create(HERE, idle_timeout=1)
    for _ in range(4):
        await asyncio.sleep(0.3)
        await sb.exists("f")
    assert (await sb.exec("sleep 1.5; echo done")).stdout == "done\n"
    process = await sb.start("exec sleep 1.5")
    assert (await process.wait()).exit_code == 0
    view = sb.restrict("/workspace")

    async def is_told() -> bool:
        return sb._gate.closed

    await detached.until(is_told, "it is still open")
    for each in (sb, view):
        with pytest.raises(ClosedError, match="idle_timeout"):
            await each.read("f")
    with pytest.raises(ClosedError, match="idle_timeout"):
        sb.events()
    await sb.close()


async def test_one_that_is_not_detached_has_a_lifetime() -> None:
    sb = await Sandbox.create(HERE, lifetime=0.5)
    killed = await sb.exec("kill -9 $$")
    ended = await sb.start("kill -9 $$")
    await ended.wait()
    running = await sb.start("exec sleep 1000")
    for result in (await sb.exec("exec sleep 1000"), await running.wait()):
        assert (result.exit_code, result.limit) == (128 + signal.SIGKILL, "lifetime")
        assert 0.1 < result.duration < 30
    for result in (killed, await ended.wait()):
        assert (result.exit_code, result.limit) == (128 + signal.SIGKILL, None), "it was somebody else"
    with pytest.raises(ClosedError, match=r"lifetime of 0\.5 seconds"):
        await sb.read("f")
    await sb.close()


# The others


@pytest.mark.parametrize("spec", [Memory(), Local()], ids=lambda spec: spec.name)
async def test_backends_that_cannot(spec: BackendSpec) -> None:
    assert not isinstance(spec, DetachableSpec)
    assert isinstance(Namespaces(), DetachableSpec)
    with pytest.raises(UnsupportedError, match="detached"):
        await Sandbox.create(spec, detached=True)
    for times in ({"idle_timeout": 1.0}, {"lifetime": 1.0}):
        with pytest.raises(UnsupportedError, match="end by itself"):
            await Sandbox.create(spec, **times)  # type: ignore[arg-type]


def test_blocking() -> None:
    with sync.Sandbox.create(HERE, name="blocking", detached=True) as sb:
        sb.write("f", "x")
    with sync.Sandbox.connect("blocking") as sb:
        assert sb.read("f") == "x"
    assert [info.name for info in sync.Sandbox.find()] == ["blocking"]
    sync.Sandbox.remove("blocking")
    assert records.living() == []
