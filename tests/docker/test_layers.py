"""Layers in containers: whoever mounts them, the host's directory stays as it was, and nothing stays mounted."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import pytest

import paddock
from docker import reviewer
from docker.test_ends import gone, left_in_state
from engines.daemon import Engine
from layers import fingerprint, layers_of, project, refused_overlays
from paddock import Sandbox, UnavailableError, places
from paddock.backends.docker import Docker, detached, place, spec
from paddock.backends.docker.engine import reached
from paddock.backends.namespaces.identity import Identity
from paddock.state import PrivateDirectory, state_directory
from security import as_user
from security.test_crash import mounts

USER = 65533


async def reviewed(spec: Docker, host: Path) -> str:
    """A little of everything in a layer; of which kind it is."""
    before = fingerprint(host)
    async with Sandbox.create(spec, image="python", workspace=host, review=True) as sb:
        kind = layers_of(sb)["/workspace"].kind
        assert f"changes go to {'an overlay' if kind == 'overlay' else 'a copy, because'}" in sb.isolation.files.by
        assert (
            await sb.exec("cat src/a.py; rm -r src; mkdir src; echo b > src/b; echo c >> README")
        ).stdout == "a = 1\n"
        assert await sb.read("README") == "read me\nc\n"
        assert await sb.list("src") == ["b"]
        await sb.write("src/c", "by the host")
        await sb.move("src/c", "d")
        assert (await sb.exec("cat d && rm d && ./run.sh")).stdout == "by the hostran\n"
        assert fingerprint(host) == before
    assert fingerprint(host) == before
    return kind


@pytest.mark.parametrize("owner", [0, 1000])
async def test_docker(backend: Docker, tmp_path: Path, owner: int) -> None:
    host = project(tmp_path / "host", owner)
    host.chmod(0o700)
    assert await reviewed(backend, host) == "overlay"


async def test_podman(podman_engine: Engine, tmp_path: Path) -> None:
    assert await reviewed(Docker(socket=podman_engine.socket), project(tmp_path / "host")) == "overlay"


async def test_gvisor(docker_engine: Engine, gvisor: str, tmp_path: Path) -> None:
    """Through its file server, which is root."""
    spec = Docker(socket=docker_engine.socket, runtime=gvisor)
    assert await reviewed(spec, project(tmp_path / "host")) == "overlay"


async def test_refused(backend: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused_overlays(monkeypatch)
    assert await reviewed(backend, project(tmp_path / "host")) == "copy"


async def test_an_engine_elsewhere(remote_engine: Engine, tmp_path: Path) -> None:
    host = project(tmp_path / "host")
    with pytest.raises(UnavailableError, match="does not see this host's directories"):
        await Sandbox.create(Docker(socket=remote_engine.socket), image="python", workspace=host, review=True)


@pytest.mark.parametrize("owner", [0, 1000])
async def test_an_engine_in_another_mount_namespace(apart_engine: Engine, tmp_path: Path, owner: int) -> None:
    """It does not see the overlay that root shows: there is a copy, which it sees, and the reason is told."""
    spec, host = Docker(socket=apart_engine.socket), project(tmp_path / "host", owner)
    assert await reviewed(spec, host) == "copy"
    async with Sandbox.create(spec, image="python", workspace=host, review=True) as sb:
        assert "because the container engine runs in another mount namespace" in sb.isolation.files.by
        await sb.exec("echo changed > README")
        assert [change.path for change in await sb.changes()] == ["/workspace/README"]


async def test_without_review_it_is_refused(apart_engine: Engine, tmp_path: Path) -> None:
    spec, host = Docker(socket=apart_engine.socket), project(tmp_path / "host")
    with pytest.raises(UnavailableError, match="another mount namespace"):
        await Sandbox.create(spec, image="python", workspace=host)
    async with Sandbox.create(spec, image="python") as sb:
        assert (await sb.exec("echo fine")).stdout == "fine\n"


async def test_detached(backend: Docker, tmp_path: Path) -> None:
    host = project(tmp_path / "host")
    before = fingerprint(host)
    made = await Sandbox.create(backend, image="python", workspace=host, review=True, detached=True)
    try:
        await made.write("README", "changed")
        expected = layers_of(made)
        await made.close()
        async with await Sandbox.connect(made.id) as sb:
            assert layers_of(sb) == expected
            assert await sb.read("README") == "changed"
    finally:
        await Sandbox.remove(made.id)
    assert fingerprint(host) == before
    assert not os.path.exists(expected["/workspace"].upper)


def test_a_layer_that_was_shown_is_swept(tmp_path: Path) -> None:
    """One who is killed while a container starts leaves a mount, and a sweep takes away just that."""
    host = project(tmp_path / "host")
    before = fingerprint(host)
    state_directory()
    private = PrivateDirectory("sb-000000000000")
    made = private.make("layer")
    for name in ("upper", "work"):
        (made / name).mkdir()
        os.chown(made / name, 12345, 12345)
    left = place.Place("sb-000000000000", Identity(12345, 12345, ours=False))
    fd = os.open(host, os.O_PATH)
    try:
        shown = left.show(fd, str(made))
        left.mount()
    finally:
        os.close(fd)
    assert Path(shown, "src/a.py").stat().st_uid == 12345
    Path(shown, "src/a.py").write_text("above")
    assert [path.name for path in left.path.iterdir()] == [os.path.basename(shown)]
    private.let_go()
    places.sweep()
    assert not left.path.exists()
    assert (made / "upper/src/a.py").read_text() == "above"
    assert str(left.path) not in Path("/proc/self/mountinfo").read_text()
    assert fingerprint(host) == before


async def test_a_killed_host(docker_engine: Engine, backend: Docker, tmp_path: Path) -> None:
    """Its container ends, the overlay with it, and the next sandbox takes away the files."""
    known = mounts()
    source = str(Path(paddock.__file__).parent.parent)
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, reviewer.__file__, str(docker_engine.socket), str(tmp_path), "die"],
        env={**os.environ, "PYTHONPATH": source},
    )
    assert await process.wait() == -signal.SIGKILL
    assert await gone(docker_engine)
    spec._swept.clear()
    async with Sandbox.create(backend):
        pass
    assert left_in_state() == []
    assert mounts() == known
    assert [path.name for path in (tmp_path / "killed").iterdir()] == ["gone"]


async def test_a_volume_that_was_left_is_swept(docker_engine: Engine, backend: Docker) -> None:
    labels = {detached.SANDBOX: "sb-000000000001"}
    async with reached(str(backend.socket)) as engine:
        from paddock.state import own_name

        for name, state in (("paddock-left", own_name()), ("paddock-others", "another")):
            await engine.volumes.create({"Name": name, "Labels": {**labels, detached.STATE: state}})
        await detached.sweep(engine)
        told = await engine.volumes.list()
        assert [one["Name"] for one in told["Volumes"]] == ["paddock-others"]
        await (await engine.volumes.get("paddock-others")).delete()


@pytest.fixture
def home() -> Iterator[Path]:
    path = Path(mkdtemp(prefix="scratch-", dir="/tmp"))
    (path / "run").mkdir()
    for made in (path, path / "run"):
        os.chown(made, USER, USER)
    yield path
    shutil.rmtree(path)


@contextmanager
def ordinary(engine: Engine, home: Path) -> Iterator[Callable[..., "subprocess.CompletedProcess[str]"]]:
    """Runs the reviewer as somebody who may use an engine, but mount nothing."""
    checkout, socket = Path(__file__).parents[2], Path(engine.socket)
    source = str(Path(paddock.__file__).parent.parent)
    shown = {os.path.realpath(path) for path in (checkout, source, sys.prefix, sys.base_prefix, socket.parent)}
    reachable = home / "engine"
    program = [sys.executable, reviewer.__file__, str(reachable), str(home)]
    own = {"HOME": home, "TMPDIR": home, "XDG_RUNTIME_DIR": home / "run", "PYTHONPATH": source}

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, as_user.__file__, str(USER), *sorted(shown), "--", *program, *words],
            cwd=checkout,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONDONTWRITEBYTECODE": "1",
                "PADDOCK_IMAGE": "python",
                **{name: str(value) for name, value in own.items()},
            },
            capture_output=True,
            text=True,
        )

    os.link(socket, reachable)
    mode = socket.stat().st_mode
    socket.chmod(0o666)
    try:
        yield run
    finally:
        socket.chmod(mode)


def test_an_ordinary_user(docker_engine: Engine, home: Path) -> None:
    """The engine mounts a volume, and what it cannot mount is copied."""
    with ordinary(docker_engine, home) as run:
        killed = run("die")
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert [name for name in docker_engine.api.held() if "paddock-sb-" in name]
        deadline = time.monotonic() + 30
        while docker_engine.api.json("GET", "/containers/json", all="1") and time.monotonic() < deadline:
            time.sleep(0.05)
        done = run()
    assert done.returncode == 0, done.stderr
    assert docker_engine.api.held() == []
    found = json.loads(done.stdout)
    for name, kind in {"plain": "overlay", "with, comma": "copy"}.items():
        assert found[name]["kind"] == kind
        assert (found[name]["said"], found[name]["read"]) == ("belowabove\n", "above\n")
        assert found[name]["ours"]
        assert found[f"{name}, then"] == {"f": "below", "gone": "x"}
    assert found["plain"]["upper"] == ["by-the-host", "d", "f", "gone"]
    assert found["with, comma"]["upper"] == ["by-the-host", "d", "f"]
    assert found["left"] == []


def test_a_file_system_that_the_engine_does_not_see(apart_engine: Engine, home: Path) -> None:
    """An engine would mount a volume over the empty directory below it: then there is a copy of what was meant."""
    (home / "plain").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"uid={USER},gid={USER}", "hidden", home / "plain"], check=True)
    os.chown(home / "plain", USER, USER)
    try:
        with ordinary(apart_engine, home) as run:
            done = run()
    finally:
        subprocess.run(["umount", home / "plain"], check=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["plain"]["kind"], found["plain"]["said"]) == ("copy", "belowabove\n")
    assert "another mount namespace" in found["plain"]["by"]
    assert found["plain, then"] == {"f": "below", "gone": "x"}
