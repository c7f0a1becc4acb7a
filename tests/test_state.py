"""The state directory: private, and swept of what a crash left."""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import descriptors
from paddock import ConfigError, Sandbox, SandboxError, UnavailableError
from paddock.backends.supervised import roots
from paddock.finishing import to_the_end
from paddock.sandbox import create
from paddock.state import (
    PrivateDirectory,
    _lock_of,
    forget,
    private,
    record_path,
    state_directory,
    sweep,
    sweep_one,
)
from paddock.wire.channel import root_payload


def test_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_STATE", str(tmp_path / "s"))
    assert state_directory() == tmp_path / "s"
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o700
    monkeypatch.delenv("PADDOCK_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert state_directory() == tmp_path / "xdg/paddock"
    monkeypatch.setenv("XDG_STATE_HOME", "relative is ignored")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert state_directory() == tmp_path / "home/.local/state/paddock"
    monkeypatch.setenv("PADDOCK_STATE", "relative")
    with pytest.raises(ConfigError, match="PADDOCK_STATE"):
        state_directory()


def test_private(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    assert private(tmp_path / "open").stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match="PADDOCK_STATE"):
        private(tmp_path / "file/below")
    if os.geteuid() == 0:
        (tmp_path / "theirs").mkdir()
        os.chown(tmp_path / "theirs", 12345, 12345)
        with pytest.raises(UnavailableError, match="somebody else"):
            private(tmp_path / "theirs")


def test_sweep_leaves_the_living(tmp_path: Path) -> None:
    assert sweep() == 0
    mine = PrivateDirectory("sb-mine")
    (mine.make("workspace") / "f").write_text("x")
    assert sweep() == 0
    mine.remove()
    mine.remove()
    assert list((tmp_path / "state/sandboxes").iterdir()) == []


CRASH = """
import asyncio, os, signal
from paddock import Sandbox
async def main():
    sb = await Sandbox.create("local")
    await sb.write("f", "x")
    print(sb.resolve("f"), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


async def test_a_crash_is_swept_by_the_next_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crashed = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", CRASH], stdout=subprocess.PIPE, text=True, check=False
    )
    assert crashed.returncode == -signal.SIGKILL
    left = Path(crashed.stdout.strip())
    assert left.read_text() == "x"
    monkeypatch.setattr(create, "_swept", {})
    async with Sandbox.create("local") as sb:
        await sb.write("f", "alive")
        assert not left.exists()
        assert sweep() == 0
        assert await sb.read("f") == "alive"
    assert list((tmp_path / "state/sandboxes").iterdir()) == []


def test_a_child_leaves_what_is_its_parents(tmp_path: Path) -> None:
    mine = PrivateDirectory("sb-mine")
    child = os.fork()
    if child == 0:
        mine.remove()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert mine.path.exists()
    assert sweep() == 0
    mine.remove()
    assert not mine.path.exists()


async def test_a_launch_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roots, "root_payload", lambda path: root_payload(path + "/missing"))
    with pytest.raises(UnavailableError, match="No such file"):
        await Sandbox.create("local")
    assert list((tmp_path / "state/sandboxes").iterdir()) == []


async def test_a_cancelled_create_leaves_nothing(tmp_path: Path) -> None:
    async def make() -> None:
        await Sandbox.create("local")
        raise AssertionError("it was cancelled")

    task = asyncio.ensure_future(make())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not list((tmp_path / "state").glob("sandboxes/*"))


@pytest.mark.parametrize("backend", ["local", "namespaces"])
async def test_however_often_create_is_cancelled_nothing_is_left(backend: str, tmp_path: Path) -> None:
    async def make() -> None:
        async with Sandbox.create(backend):
            await asyncio.sleep(10)

    async with Sandbox.create(backend):
        pass
    before = descriptors.count()
    for step in range(30):
        task = asyncio.ensure_future(make())
        for pause in (step * 0.0005, 0.0005, 0.0005):
            await asyncio.sleep(pause)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with asyncio.timeout(20):
        while list((tmp_path / "state/sandboxes").iterdir()):
            await asyncio.sleep(0.01)  # one that was made in time is closed in the background
    assert await descriptors.soon_back_to(before)


async def test_what_has_to_be_finished_is() -> None:
    done = []

    async def work() -> None:
        await asyncio.sleep(0.05)
        done.append("work")
        raise ValueError("not what counts")

    task = asyncio.ensure_future(to_the_end(work()))
    for _ in range(3):
        await asyncio.sleep(0.005)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["work"]
    with pytest.raises(ValueError, match="not what counts"):
        await to_the_end(work())


@pytest.mark.parametrize("rounds", [5, pytest.param(100, marks=pytest.mark.soak)])
async def test_nothing_leaks(tmp_path: Path, rounds: int) -> None:
    async def once() -> None:
        async with Sandbox.create("local") as sb:
            await sb.write_files({f"d{n}/f": "x" for n in range(200)})
            async with sb.watch() as watch:
                await sb.write("g", "x")
                await anext(watch)
            await sb.copy("d1", "e")
            await sb.grep("(x|y)")
            view = sb.restrict("/")
            await view.list("/")

    await once()
    before = descriptors.count()
    for _ in range(rounds):
        await once()
    assert await descriptors.soon_back_to(before)
    assert list((tmp_path / "state/sandboxes").iterdir()) == []


# Swept from time to time, and although others ask


def _left(sandbox: str) -> Path:
    """A private directory whose owner is gone."""
    directory = PrivateDirectory(sandbox)
    (directory.make("workspace") / "f").write_text("x")
    directory.let_go()
    return directory.path


async def test_a_long_lived_process_sweeps_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Sandbox.create("local"):
        left = _left("sb-left")
        async with Sandbox.create("local"):
            assert left.exists()
        monkeypatch.setattr(create, "_SECONDS_BETWEEN_SWEEPS", 0.0)
        async with Sandbox.create("local"), asyncio.timeout(20):
            while left.exists():
                await asyncio.sleep(0.01)


def test_what_is_empty_goes_before_its_owner(tmp_path: Path) -> None:
    """And others who hold it can put nothing into it."""
    mine = PrivateDirectory("sb-mine")
    held = os.open(mine.make("workspace"), os.O_RDONLY | os.O_DIRECTORY)
    assert mine.clear_empty()
    assert mine.clear_empty()
    with pytest.raises(FileNotFoundError):
        os.open("f", os.O_WRONLY | os.O_CREAT, dir_fd=held)
    assert [path.name for path in (tmp_path / "state/sandboxes").iterdir()] == ["sb-mine.lock"]
    assert mine.remove_empty()
    assert list((tmp_path / "state/sandboxes").iterdir()) == []
    for fd in (held, *mine.held):
        os.close(fd)


def test_what_is_not_empty_stays_until_then(tmp_path: Path) -> None:
    mine = PrivateDirectory("sb-mine")
    mine.make("cache")
    (mine.make("workspace") / "f").write_text("x")
    assert not mine.clear_empty()
    assert not mine.remove_empty()
    assert (mine.path / "workspace/f").read_text() == "x"
    mine.remove()
    assert list((tmp_path / "state/sandboxes").iterdir()) == []
    for fd in mine.held:
        os.close(fd)


@contextmanager
def _asking(sandbox: str, seconds: float) -> Iterator[None]:
    """Somebody looks whether its owner lives, and takes this long."""
    fd = os.open(_lock_of(sandbox), os.O_RDWR | os.O_CLOEXEC)
    fcntl.flock(fd, fcntl.LOCK_SH)
    timer = threading.Timer(seconds, os.close, [fd])
    timer.start()
    try:
        yield
    finally:
        timer.join()


def test_who_asks_does_not_keep_one_from_being_swept() -> None:
    left = _left("sb-left")
    with _asking("sb-left", 0.3):
        assert not sweep_one("sb-left", 0.05)
        assert sweep() == 0
        assert left.exists()
        assert sweep_one("sb-left", 20)
    assert not left.exists()
    assert sweep_one("sb-left")


async def test_what_rm_leaves_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sb = await Sandbox.create("namespaces", detached=True)
    await sb.close()
    with monkeypatch.context() as patched:
        patched.setattr("paddock.state.remove_tree", _refuse)
        with pytest.raises(SandboxError, match="could not be removed"):
            await Sandbox.remove(sb.id)
    assert sweep() == 1
    assert list((tmp_path / "state/sandboxes").glob("sb-*")) == []


def _refuse(*_: object) -> None:
    raise PermissionError(1, "not now")


def test_what_an_engine_was_to_keep(tmp_path: Path) -> None:
    """It may live as long as there is a record of it; who was killed before that has made nothing there."""
    for number, recorded in enumerate((True, False)):
        made = PrivateDirectory(f"sb-{number:012x}")
        made.note_elsewhere()
        if recorded:
            record_path(made.path.name).write_text("{}")
        made.let_go()
    assert sweep() == 1
    assert sorted(path.name for path in (state_directory() / "sandboxes").iterdir() if path.name[0] != ".") == [
        *("sb-000000000000", "sb-000000000000.json", "sb-000000000000.lock")
    ]
    assert forget("sb-000000000000")
    assert sweep() == 0
