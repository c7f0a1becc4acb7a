"""The engines that other tests stand on: they answer, they run, they end, and nothing of them is left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from engines import daemon, images, keeper
from engines.api import ApiError
from engines.daemon import Engine

ENGINES = ("docker_engine", "podman_engine", "remote_engine")
MODULES = (
    "array, asyncio, ctypes, errno, fcntl, json, mmap, resource, select, socket, ssl, struct, subprocess, threading"
)
FOREVER = """
import time
from engines import daemon
with daemon.docker() as engine:
    print(engine.directory, flush=True)
    time.sleep(1000)
"""
MAKERS = {"docker": ("dockerd", "busybox"), "podman": ("podman", "busybox"), "remote": ("dockerd", "busybox")}


def made(name: str) -> AbstractContextManager[Engine]:
    """One for this test alone."""
    if reason := daemon.missing(*MAKERS[name]):
        pytest.skip(reason)
    if name == "podman":
        return daemon.podman()
    return daemon.docker([Path("/tmp")] if name == "remote" else [])


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    one: Engine = request.getfixturevalue(request.param)
    return one


def until(condition: Callable[[], object], seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def traces(directory: Path) -> list[str]:
    """Of an engine: its directory's name is in everything that it has."""
    found = [str(path) for path in (directory, *keeper.cgroups(directory.name)) if path.exists()]
    found += [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(directory) in line]
    found += [line for line in Path("/proc/net/unix").read_text().splitlines() if str(directory) in line]
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_text().replace("\0", " ")
        except OSError:
            continue
        found += [f"{path}: {words}"] if str(directory) in words else []
    return found


def test_it_answers(engine: Engine) -> None:
    assert engine.api.ping()
    assert len(str(engine.socket)) < 50
    assert engine.url == f"unix://{engine.socket}"


def test_it_runs_something(engine: Engine) -> None:
    assert engine.api.run("busybox", "echo", "hello") == "hello\n"
    assert engine.api.run("bare", "/busybox", "echo", "hello") == "hello\n"
    with pytest.raises(ApiError):
        engine.api.run("bare", "sh", "-c", "echo hello")


def test_python_is_whole(engine: Engine) -> None:
    program = f"import {MODULES}; print(ctypes.CDLL(None).getpid())"
    assert engine.api.run("python", "python3", "-I", "-S", "-c", program) == "1\n"
    assert engine.api.run("python", "sh", "-c", "echo one two | awk '{print $2}' | tr a-z A-Z; id -u") == "TWO\n0\n"


def test_every_tool_can_run(docker_engine: Engine) -> None:
    """None of them wants a library that was left out."""
    script = "for each in /usr/bin/*; do ldd $each 2>&1 | grep 'not found' && echo $each; done; true"
    if not Path("/usr/bin/ldd").exists():
        pytest.skip("ldd is not installed")
    told = docker_engine.api.run("python", "bash", "-c", script, Binds=["/usr/bin/ldd:/usr/local/bin/ldd:ro"])
    assert told == ""


def test_the_host_is_seen_by_those_on_it(tmp_path: Path, docker_engine: Engine, podman_engine: Engine) -> None:
    (tmp_path / "f").write_text("of the host")
    for engine in (docker_engine, podman_engine):
        assert engine.api.run("busybox", "cat", "/m/f", Binds=[f"{tmp_path}:/m"]) == "of the host"


def test_the_host_is_not_seen_from_elsewhere(tmp_path: Path, remote_engine: Engine) -> None:
    (tmp_path / "f").write_text("of the host")
    for path in (tmp_path, Path(__file__).parent):
        mount = {"Type": "bind", "Source": str(path), "Target": "/n"}
        with pytest.raises(ApiError, match="does not exist"):
            remote_engine.api.run("busybox", "ls", "/n", Mounts=[mount])
    assert remote_engine.api.run("busybox", "ls", "-A", "/m", Binds=[f"{tmp_path}:/m"]) == ""


def test_gvisor(docker_engine: Engine, gvisor: str) -> None:
    assert "Starting gVisor" in docker_engine.api.run("busybox", "dmesg", Runtime=gvisor)
    assert os.uname().release not in docker_engine.api.run("busybox", "uname", "-r", Runtime=gvisor)
    assert docker_engine.api.run("busybox", "uname", "-r") == f"{os.uname().release}\n"


@pytest.mark.parametrize("name", MAKERS)
def test_nothing_is_left(name: str, tmp_path: Path) -> None:
    """Of one that is ended while a container runs, another has ended, and a volume is used."""
    images.make("busybox", tmp_path / "busybox.tar")
    with made(name) as engine:
        images.load(engine.api, "busybox", tmp_path / "busybox.tar")
        host = {"NetworkMode": "none", "Binds": ["volume:/v"]}
        for words in (["sleep", "1000"], ["true"]):
            config = {"Image": "busybox", "Cmd": words, "HostConfig": host}
            container = engine.api.json("POST", "/containers/create", config)["Id"]
            engine.api.call("POST", f"/containers/{container}/start")
        assert len(engine.api.held()) == 3
        assert len(traces(engine.directory)) > 3
        sockets = set(Path("/run/containerd/s").glob("*")) if name != "podman" else set()
    assert traces(engine.directory) == []
    assert not any(path.exists() for path in keeper.cgroups(f"libpod_parent/libpod-{container}"))
    assert until(lambda: {path for path in sockets if path.exists()} <= _in_use(sockets))


def _in_use(sockets: set[Path]) -> set[Path]:
    """Those of engines that still run, which may be anybody's."""
    listening = Path("/proc/net/unix").read_text()
    return {path for path in sockets if str(path) in listening}


def test_nothing_is_left_when_the_tests_are_killed(tmp_path: Path) -> None:
    if reason := daemon.missing(*MAKERS["docker"]):
        pytest.skip(reason)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen([sys.executable, "-c", FOREVER], stdout=subprocess.PIPE, text=True, env=env)
    assert process.stdout is not None
    directory = Path(process.stdout.readline().strip())
    assert traces(directory) != []
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert until(lambda: traces(directory) == []), traces(directory)


def test_why_it_did_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := daemon.missing(*MAKERS["docker"]):
        pytest.skip(reason)
    monkeypatch.setattr(daemon, "_on_overlay", lambda directory: True)
    monkeypatch.setattr(daemon, "_runtimes", lambda: {"runsc": 3})
    before = set(Path("/tmp").glob("engine-*"))
    with pytest.raises(RuntimeError, match=r"(?s)docker did not start.*unable to configure.*"), daemon.docker():
        pytest.fail("it has started")
    assert set(Path("/tmp").glob("engine-*")) <= before


@pytest.mark.parametrize(
    ("user", "programs", "words"),
    [(0, ["sh"], None), (0, ["no-such-program"], "not installed: no-such-program"), (1000, ["sh"], "needs root")],
)
def test_what_is_missing(monkeypatch: pytest.MonkeyPatch, user: int, programs: list[str], words: str | None) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(daemon.subprocess, "run", lambda *args, **options: subprocess.CompletedProcess([], 0))  # type: ignore[attr-defined]
    reason = daemon.missing(*programs)
    assert words in reason if words and reason else reason is None
