"""Sessions of the OpenAI Agents SDK."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest
from agents.sandbox.entries import Dir, File
from agents.sandbox.errors import (
    ExecTimeoutError,
    ExecTransportError,
    ExposedPortUnavailableError,
    InvalidManifestPathError,
    PtySessionNotFoundError,
    WorkspaceArchiveReadError,
    WorkspaceReadNotFoundError,
)
from agents.sandbox.manifest import Manifest
from agents.sandbox.session import SandboxSession
from agents.sandbox.snapshot import LocalSnapshotSpec
from agents.sandbox.workspace_paths import SandboxPathGrant

from engines.daemon import Engine
from paddock import Sandbox
from paddock.adapters.openai_agents import (
    PaddockSandboxClient,
    PaddockSandboxClientOptions,
    _need_packed,
    _Terminal,
)
from paddock.errors import ConfigError, NotFoundError, SandboxError


@pytest.fixture(params=["namespaces", "docker"])
def options(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> PaddockSandboxClientOptions:
    if request.param == "docker":
        engine: Engine = request.getfixturevalue("docker_engine")
        monkeypatch.setenv("DOCKER_HOST", f"unix://{engine.socket}")
        return PaddockSandboxClientOptions(backend="docker", image="python", exposed_ports=(8000,))
    return PaddockSandboxClientOptions(backend="namespaces", exposed_ports=(8000,))


@pytest.fixture
async def session(options: PaddockSandboxClientOptions) -> AsyncIterator[SandboxSession]:
    client = PaddockSandboxClient(options)
    manifest = Manifest(entries={"src": Dir(children={"a.py": File(content=b"print('hi')")}), "b": File(content=b"2")})
    async with await client.create(manifest=manifest) as session:
        yield session
    await client.delete(session)
    assert not await session.running()


async def test_a_session(session: SandboxSession) -> None:
    """Commands, files, patches, terminals and ports, in one sandbox: a container takes long to start."""
    assert await session.running()
    result = await session.exec("cat src/a.py; pwd; exit 3")
    assert (result.stdout, result.exit_code) == (b"print('hi')/workspace\n", 3)
    assert (await session.exec("printf", "%s", "a b", shell=False)).stdout == b"a b"
    with pytest.raises(ExecTimeoutError):
        await session.exec("sleep 60", timeout=0.2)
    with pytest.raises(ConfigError, match="one user"):
        await session.exec("true", user="root")
    with pytest.raises(ConfigError, match="one user"):
        await session.read(Path("b"), user="root")
    with pytest.raises(ConfigError, match="one user"):
        await session.write(Path("b"), io.BytesIO(b""), user="root")
    await _files(session)
    await _terminals(session)
    await _ports(session)


async def _files(session: SandboxSession) -> None:
    await session.write(Path("new/f.txt"), io.BytesIO(b"content"))
    assert (await session.read(Path("/workspace/new/f.txt"))).read() == b"content"
    assert await session.read_bounded(Path("new/f.txt"), max_bytes=3) == b"con"
    with pytest.raises(WorkspaceReadNotFoundError):
        await session.read(Path("nothing"))
    with pytest.raises(InvalidManifestPathError):
        await session.read(Path("/etc/passwd"))
    with pytest.raises(InvalidManifestPathError):
        await session.write(Path("../x"), io.BytesIO(b""))
    await session.write(Path("new/a b.txt"), io.BufferedReader(io.BytesIO(b"by a stream")))
    assert (await session.read(Path("./new//a b.txt"))).read() == b"by a stream"
    await session.rm("new/a b.txt")
    assert {Path(entry.path).name for entry in await session.ls("new")} == {"f.txt"}
    await session.mv("new/f.txt", "new/g.txt")
    diff = "@@\n-content\n+changed\n"
    await session.apply_patch({"type": "update_file", "path": "new/g.txt", "diff": diff})
    assert (await session.read(Path("new/g.txt"))).read().strip() == b"changed"
    await session.apply_patch({"type": "create_file", "path": "made/h.txt", "diff": "+one\n"})
    assert (await session.read(Path("made/h.txt"))).read().strip() == b"one"
    await session.rm("made", recursive=True)
    assert (await session.exec("ls")).stdout == b"b\nnew\nsrc\n"


async def _terminals(session: SandboxSession) -> None:
    assert session.supports_pty()
    update = await session.pty_exec_start("read name; echo hello $name; tty", tty=True, yield_time_s=0.25)
    assert update.process_id is not None
    while update.process_id is not None:
        update = await session.pty_write_stdin(session_id=update.process_id, chars="you\n", yield_time_s=5)
        output = update.output
    assert b"hello you" in output
    assert b"/dev/" in output
    assert update.exit_code == 0
    update = await session.pty_exec_start("echo out; echo err >&2; exit 4", yield_time_s=30)
    assert (update.process_id, update.exit_code, sorted(update.output.split())) == (None, 4, [b"err", b"out"])
    update = await session.pty_exec_start("head -c 4000000 /dev/zero | tr '\\0' x; echo; echo end", yield_time_s=30)
    note, _, kept = update.output.partition(b"\n")
    assert (note[:4], kept[-5:], len(kept) <= 1 << 20) == ("[…".encode(), b"\nend\n", True)
    assert int(note.split()[1]) + len(kept) == 4_000_005
    update = await session.pty_exec_start("sleep 1000", yield_time_s=0.25)
    assert update.process_id is not None
    with pytest.raises(RuntimeError, match="tty=True"):
        await session.pty_write_stdin(session_id=update.process_id, chars="x")
    await session.pty_terminate_all()
    with pytest.raises(PtySessionNotFoundError):
        await session.pty_write_stdin(session_id=update.process_id, chars="")
    assert (await session.exec("ps aux | grep '[s]leep 1000' || echo none")).stdout == b"none\n"


async def test_typing_into_what_has_ended() -> None:
    """How it ended is told, as if nothing had been typed."""
    async with await PaddockSandboxClient(PaddockSandboxClientOptions(backend="namespaces")).create() as session:
        update = await session.pty_exec_start("sleep 0.5; exit 3", tty=True, yield_time_s=0.25)
        assert update.process_id is not None
        await session._inner._terminals[update.process_id].ended.wait()  # type: ignore[attr-defined]
        update = await session.pty_write_stdin(session_id=update.process_id, chars="x\n", yield_time_s=5)
        assert (update.process_id, update.exit_code) == (None, 3)


async def test_no_more_terminals_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if many are started at once; and one whose caller gives up while another makes room is ended in the end."""
    monkeypatch.setattr("paddock.adapters.openai_agents.PTY_PROCESSES_MAX", 12)
    async with await PaddockSandboxClient(PaddockSandboxClientOptions(backend="namespaces")).create() as session:
        sandbox = session._inner.sandbox  # type: ignore[attr-defined]
        await asyncio.gather(*(session.pty_exec_start("sleep 1000", yield_time_s=0.25) for _ in range(30)))
        assert len(await sandbox.processes()) == 12
        ended, go_on = _Terminal.end, asyncio.Event()

        async def slowly(terminal: _Terminal) -> None:
            await go_on.wait()
            await ended(terminal)

        monkeypatch.setattr(_Terminal, "end", slowly)
        task = asyncio.create_task(session.pty_exec_start("sleep 1001", yield_time_s=0.25))
        while len(await sandbox.processes()) < 13:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        await session.pty_terminate_all()
        assert await sandbox.processes() == []


async def test_all_terminals_end_though_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is cancelled while the first of them ends has ended the others too."""
    async with await PaddockSandboxClient(PaddockSandboxClientOptions(backend="namespaces")).create() as session:
        sandbox = session._inner.sandbox  # type: ignore[attr-defined]
        await asyncio.gather(*(session.pty_exec_start("sleep 1000", yield_time_s=0.25) for _ in range(5)))
        ended, begun = _Terminal.end, asyncio.Event()

        async def told(terminal: _Terminal) -> None:
            begun.set()
            await asyncio.sleep(0.1)
            await ended(terminal)

        monkeypatch.setattr(_Terminal, "end", told)
        task = asyncio.create_task(session.pty_terminate_all())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await sandbox.processes() == []


async def _ports(session: SandboxSession) -> None:
    update = await session.pty_exec_start("python3 -m http.server 8000 --bind 127.0.0.1", yield_time_s=0.25)
    assert update.process_id is not None
    endpoint = await session.resolve_exposed_port(8000)
    while True:
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        writer.write(b"GET /b HTTP/1.0\r\n\r\n")
        answer = await reader.read()
        writer.close()
        if answer:
            break
        await asyncio.sleep(0.05)
    assert answer.endswith(b"2")
    with pytest.raises(ExposedPortUnavailableError, match="not configured"):
        await session.resolve_exposed_port(9)


@pytest.mark.parametrize("keep", ["tar", "snapshot"])
async def test_a_workspace_goes_on_elsewhere(keep: Literal["tar", "snapshot"], tmp_path: Path) -> None:
    options = PaddockSandboxClientOptions(backend="namespaces", keep=keep)
    client = PaddockSandboxClient(options)
    async with await client.create(snapshot=LocalSnapshotSpec(base_path=tmp_path / "kept")) as session:
        await session.exec("mkdir -p d && echo text > d/f && chmod 700 d/f && ln -s /usr/bin/env link && ln d/f hard")
    state = client.deserialize_session_state(json.loads(json.dumps(client.serialize_session_state(session.state))))
    (kept,) = (tmp_path / "kept").iterdir()
    assert kept.read_bytes().startswith(b"paddock-snapshot:") == (keep == "snapshot")
    async with await PaddockSandboxClient().resume(state) as again:
        result = await again.exec("cat d/f hard; stat -c %a d/f; readlink link")
        assert result.stdout == b"text\ntext\n700\n/usr/bin/env\n"
        assert again.state.sandbox_id != session._inner.state.sandbox_id  # type: ignore[attr-defined]


async def test_what_is_passing_is_left_out(tmp_path: Path) -> None:
    manifest = Manifest(entries={"kept": File(content=b"1"), "passing": File(content=b"2", ephemeral=True)})
    manifest.entries["[a]*"] = File(content=b"3", ephemeral=True)
    client = PaddockSandboxClient(PaddockSandboxClientOptions(backend="namespaces", keep="snapshot"))
    async with await client.create(snapshot=LocalSnapshotSpec(base_path=tmp_path), manifest=manifest) as session:
        assert (await session.exec("ls")).stdout == b"[a]*\nkept\npassing\n"
        async with await client.create() as other:
            with await session.persist_workspace() as archive:
                await other.hydrate_workspace(archive)
            assert (await other.exec("ls")).stdout == b"kept\n"


async def test_a_workspace_that_pretends_to_be_large() -> None:
    """Holes are not kept as zeros, and what really is too large is not kept at all."""
    options = PaddockSandboxClientOptions(backend="namespaces", max_archive=1 << 20)
    async with await PaddockSandboxClient(options).create() as session:
        await session.exec("truncate -s 10T holes; echo end >> holes; echo text > f")
        with await session.persist_workspace() as archive:
            assert len(archive.read()) < 1 << 20
            archive.seek(0)
            async with await PaddockSandboxClient(options).create() as other:
                await other.hydrate_workspace(archive)
                assert (await other.exec("tail -c 4 holes; cat f")).stdout == b"end\ntext\n"
        await session.exec("head -c 3000000 /dev/urandom > large")
        with pytest.raises(WorkspaceArchiveReadError) as caught:
            await session.persist_workspace()
        assert "within 1048576 bytes" in str(caught.value.context)


async def test_packing_takes_no_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ended with its time, and nothing of it goes on."""
    monkeypatch.setattr("paddock.adapters.openai_agents._PACK", "exec sleep 1000")
    monkeypatch.setattr("paddock.adapters.openai_agents._SECONDS_TO_KEEP", 0.2)
    async with await PaddockSandboxClient(PaddockSandboxClientOptions(backend="namespaces")).create() as session:
        with pytest.raises(WorkspaceArchiveReadError) as caught:
            await session.persist_workspace()
        assert "in 0.2 seconds" in str(caught.value.context)
        assert (await session.exec("pgrep -x sleep || echo none")).stdout == b"none\n"


async def test_an_archive_that_names_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sandbox's tar is not to say that its workspace is one of somebody else."""
    monkeypatch.setattr("paddock.adapters.openai_agents._PACK", "printf paddock-snapshot:another")
    async with await PaddockSandboxClient(PaddockSandboxClientOptions(backend="namespaces")).create() as session:
        with pytest.raises(WorkspaceArchiveReadError) as caught:
            await session.persist_workspace()
        assert "no archive" in str(caught.value.context)


async def test_a_workspace_in_which_something_works() -> None:
    """A file that grows while it is packed is there as far as it was; another failure is one."""
    async with await PaddockSandboxClient(PaddockSandboxClientOptions(backend="namespaces")).create() as session:
        await session.exec("head -c 9000000 /dev/zero > log; (while :; do echo more >> log; done > /dev/null 2>&1 &)")
        for _ in range(3):
            with await session.persist_workspace() as archive:
                assert archive.read(1)
    changed = b"tar: ./log: file changed as we read it\n"
    _need_packed(1, changed)
    for exit_code, said in ((2, changed), (1, b"tar: invalid option")):
        with pytest.raises(SandboxError, match="tar ended with status"):
            _need_packed(exit_code, said)


async def test_what_is_said_beside_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.adapters.openai_agents._PACK", "head -c 5000000 /dev/zero >&2; exit 3")
    seen: list[int] = []
    monkeypatch.setattr("paddock.adapters.openai_agents._need_packed", lambda exit_code, said: seen.append(len(said)))
    async with await PaddockSandboxClient(PaddockSandboxClientOptions(backend="namespaces")).create() as session:
        (await session.persist_workspace()).close()
    assert seen == [16 << 10]


async def test_a_sandbox_that_runs_on() -> None:
    client = PaddockSandboxClient(PaddockSandboxClientOptions(backend="namespaces", detached=True))
    async with await client.create() as session:
        await session.exec("echo 1 > f; (sleep 1000 &)")
    assert not await session.running()
    again = await client.resume(client.deserialize_session_state(client.serialize_session_state(session.state)))
    try:
        async with again:
            assert (await again.exec("cat f; pgrep -c sleep")).stdout == b"1\n1\n"
    finally:
        await client.delete(again)
    assert await Sandbox.find() == []
    async with await client.resume(again.state) as other:  # it is gone, and so is what was in it
        assert (await other.exec("ls")).stdout == b""
    await client.delete(other)


async def test_what_a_manifest_grants(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "f").write_text("of the host")
    grant = SandboxPathGrant(path="/data", host_path=str(data), read_only=True)
    client = PaddockSandboxClient(PaddockSandboxClientOptions(backend="namespaces"))
    async with await client.create(manifest=Manifest(root="/workspace/sub", extra_path_grants=(grant,))) as session:
        assert (await session.read(Path("/data/f"))).read() == b"of the host"
        assert (await session.exec("cat /data/f; pwd; touch /data/g")).stdout == b"of the host/workspace/sub\n"
        assert not (data / "g").exists()


async def test_nothing_is_left_of_what_could_not_start() -> None:
    client = PaddockSandboxClient(PaddockSandboxClientOptions(backend="namespaces", detached=True))
    session = await client.create(manifest=Manifest(root="/etc/elsewhere"))
    with pytest.raises(PermissionError):
        await session.start()
    assert await Sandbox.find() == []
    with pytest.raises(ExecTransportError, match="Start it first"):
        await session.exec("true")
    with pytest.raises(NotFoundError):
        await Sandbox.connect(str(session._inner.state.sandbox_id))  # type: ignore[attr-defined]


async def test_others_sessions() -> None:
    from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient

    client = UnixLocalSandboxClient()
    foreign = await client.create()
    with pytest.raises(TypeError, match="the client it came from"):
        await PaddockSandboxClient().delete(foreign)
    with pytest.raises(TypeError, match="the client it came from"):
        await PaddockSandboxClient().resume(foreign.state)
    await client.delete(foreign)
