"""Things in a workspace that are not ordinary files: a clear error, nothing blocked, nothing followed."""

import asyncio
import os
import shutil
import socket
import stat
import tempfile
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio

from paddock import NotFileError, OutsideError, Sandbox, SandboxError, TooLargeError
from paddock.dirs.descriptor import DescriptorDir

SPECIAL = ["fifo", "socket", *(["device"] if os.geteuid() == 0 else [])]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    os.mkfifo(workspace / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(workspace / "socket"))
    if os.geteuid() == 0:
        os.mknod(workspace / "device", 0o666 | stat.S_IFCHR, os.makedev(1, 5))  # what /dev/zero is
    return workspace


@pytest_asyncio.fixture
async def sb(workspace: Path) -> AsyncIterator[Sandbox]:
    async with asyncio.timeout(60), Sandbox.create("local", workspace=workspace) as sandbox:
        yield sandbox


@pytest.mark.parametrize("name", SPECIAL)
async def test_special(sb: Sandbox, workspace: Path, tmp_path: Path, name: str) -> None:
    for refused in (
        sb.read(name),
        sb.read_bytes(name, limit=5),
        sb.write(name, "x"),
        sb.write_files({"fine": "x", name: "x"}),
        sb.copy(name, "copy"),
        sb.download(name, tmp_path / "out"),
        sb.download("/workspace", tmp_path / "out"),
        sb.grep("x", name),
    ):
        with pytest.raises(NotFileError):
            await refused
    assert not await sb.exists("fine")
    assert (await sb.stat(name)).kind == "other"
    assert name in await sb.list()
    assert await sb.grep("x") == []
    await sb.move(name, "moved")
    await sb.delete("moved")


async def test_proc_self_root(sb: Sandbox, workspace: Path) -> None:
    for target in ("/proc/self/root", "/proc/self/cwd", "/proc/self/fd/0", "/proc/1/root"):
        (workspace / "magic").symlink_to(target)
        for path in ("magic", "magic/etc/passwd"):
            with pytest.raises(OutsideError):
                await sb.read(path)
            with pytest.raises(OutsideError):
                await sb.write(path, "")
        (workspace / "magic").unlink()


async def test_hard_links_are_not_written_through(sb: Sandbox, workspace: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    precious.chmod(0o600)
    os.link(precious, workspace / "a")
    os.link(precious, workspace / "b")
    os.link(precious, workspace / "c")
    await sb.write("a", "new", mode=0o777)
    await sb.write_files({"b": "new"})
    (tmp_path / "plain").write_text("new")
    await sb.upload(tmp_path / "plain", "c")
    await sb.copy("a", "b", overwrite=True)
    assert precious.read_text() == "precious"
    assert stat.S_IMODE(precious.stat().st_mode) == 0o600
    assert precious.stat().st_nlink == 1


async def test_set_uid_bits_do_not_survive(sb: Sandbox, workspace: Path, tmp_path: Path) -> None:
    (workspace / "tool").write_text("x")
    (workspace / "tool").chmod(0o6755)
    await sb.copy("tool", "copy")
    await sb.download("tool", tmp_path / "out")
    await sb.write("tool", "new")
    for path in (workspace / "copy", tmp_path / "out", workspace / "tool"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o755


async def test_a_sparse_terabyte(sb: Sandbox, workspace: Path, tmp_path: Path) -> None:
    for place in (workspace, tmp_path):
        with (place / "sparse").open("wb") as file:
            file.truncate(1 << 40)
    for refused in (
        sb.read("sparse"),
        sb.read_bytes("sparse", offset=5),
        sb.download("sparse", tmp_path / "out"),
        sb.copy("sparse", "copy"),
        sb.upload(tmp_path / "sparse", "up"),
    ):
        with pytest.raises(TooLargeError):
            await refused
    assert await sb.read_bytes("sparse", offset=1 << 39, limit=3) == b"\0\0\0"
    assert sorted(os.listdir(tmp_path / "workspace")) == sorted([*SPECIAL, "sparse"])


async def test_a_file_that_grows(sb: Sandbox, workspace: Path, tmp_path: Path) -> None:
    path = workspace / "growing"
    path.write_bytes(b"x" * 1_000_000)
    stop = threading.Event()

    def grow() -> None:
        with path.open("ab") as file:
            while not stop.is_set() and file.tell() < 1 << 30:
                file.write(b"x" * 65_536)
                file.flush()

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        for _ in range(5):
            assert len(await sb.read_bytes("growing", limit=2_000_000)) <= 2_000_000
        written = await sb.download("growing", tmp_path / "copy")
        await sb.copy("growing", "copy")
    finally:
        stop.set()
        thread.join()
    assert os.path.getsize(written) <= path.stat().st_size


async def test_a_device_as_host_path(sb: Sandbox) -> None:
    with pytest.raises(NotFileError):
        await sb.upload("/dev/zero", "zero")


async def test_deeper_than_any_path(sb: Sandbox, workspace: Path) -> None:
    """700 levels of 20 letters are longer than any path can be: only removing them has to work."""
    here = os.open(workspace, os.O_RDONLY)
    name = "d" * 20
    for _ in range(700):
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    for bounded in (sb.glob("**/x"), sb.copy(name, "copy"), sb.grep("x")):
        with suppress(SandboxError):
            await bounded
    await sb.delete(name, recursive=True)
    assert sorted(await sb.list()) == sorted(SPECIAL)


@pytest.mark.parametrize("depth", [1, 70, 200])
async def test_directories_nobody_may_enter(sb: Sandbox, workspace: Path, depth: int) -> None:
    top = workspace / "locked"
    levels = [top, *(top.joinpath(*["x"] * n) for n in range(1, depth))]
    levels[-1].mkdir(parents=True)
    (levels[-1] / "f").write_text("")
    for level in reversed(levels):
        level.chmod(0)
    await sb.delete("locked", recursive=True)
    assert not await sb.exists("locked")


@pytest.mark.parametrize("depth", [1, 70, 200])
def test_an_ordinary_user_can_remove_them_too(tmp_path: Path, depth: int) -> None:
    """Root passes every mode, so this is done by a process that is not root."""
    base = Path(tempfile.mkdtemp())
    base.chmod(0o777)

    def work() -> None:
        top = base / "locked"
        levels = [top, *(top.joinpath(*["x"] * n) for n in range(1, depth))]
        levels[-1].mkdir(parents=True)
        (levels[-1] / "f").write_text("")
        for level in reversed(levels):
            level.chmod(0)
        DescriptorDir.at(str(base)).remove("locked", tree=True)

    try:
        assert _as_ordinary_user(work) == 0
        assert list(base.iterdir()) == []
    finally:
        shutil.rmtree(base)


def _as_ordinary_user(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            work()
            os._exit(0)
        except BaseException:  # noqa: BLE001 - shown, and told by the status
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


async def test_a_hostile_private_workspace_is_removed(tmp_path: Path) -> None:
    async with Sandbox.create("local") as sb:
        real = Path(sb.resolve("/workspace"))
        (real / "locked/in").mkdir(parents=True)
        (real / "locked/in").chmod(0)
        (real / "locked").chmod(0)
        (real / "out").symlink_to(tmp_path)
        os.mkfifo(real / "fifo")
        private = real.parent
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert not private.exists()
    assert tmp_path.exists()
