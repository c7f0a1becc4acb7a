"""File calls of the host's, in a workspace that somebody inside has prepared for them."""

import asyncio
import os
import stat
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import pytest_asyncio

from attack import swapper
from attack.attempts import ATTEMPTS, SECRET, Attempt, outside_of, picture, put_right, workspace_of
from paddock import NotFileError, OutsideError, Sandbox, SandboxError, TooLargeError
from security import inside
from security.suite import Backend, Suite, ask

RACE_SECONDS = 10.0 if os.environ.get("PADDOCK_SOAK") else 0.3

NAMES = [
    b"a\nb",
    b"\x1b[2J",
    "\u202egpj.exe".encode(),
    b"\xff\xfe",
    b"-rf",
    b"--",
    b"a b",
    b" ",
    b"$(id)",
    b"\x7f",
    b"~",
    b"...",
]


@asynccontextmanager
async def swapping_inside(sb: Sandbox) -> AsyncIterator[None]:
    """`d` and `f` are swapped with links that lead out, by a command in the sandbox."""
    program = Path(swapper.__file__).read_text(encoding="utf-8")
    process = await sb.start(["python3", "-I", "-S", "-c", program, "d", "d-link", "f", "f-link"])
    async for chunk in process:
        assert chunk.data == b"ready\n"
        break
    try:
        yield
    finally:
        await process.kill()


class FilesSecurity(Suite):
    """Every file call stays inside and comes back."""

    @pytest_asyncio.fixture
    async def shared(self, backend: Backend, tmp_path: Path) -> AsyncIterator[Sandbox]:
        """A sandbox over a directory of the host."""
        (tmp_path / "workspace").mkdir()
        async with asyncio.timeout(100), Sandbox.create(backend, workspace=tmp_path / "workspace") as sandbox:
            yield sandbox

    async def test_links_that_lead_out(self, shared: Sandbox, tmp_path: Path) -> None:
        sb = shared
        links = ["passwd", "root", "cwd", "loop", "up", "zero"]
        await ask(sb, inside.plant, "/workspace", links)
        for link in links:
            paths = [link, f"{link}/etc/passwd"]
            for path in paths:
                for refused in (sb.read(path), sb.write(path, "x"), sb.list(path), sb.copy(path, "copy")):
                    with pytest.raises(SandboxError):
                        await refused
            with pytest.raises(SandboxError):
                await sb.download(link, tmp_path / "out")
        with pytest.raises(OutsideError):
            await sb.read("passwd")
        await sb.exec("echo fine > f; ln -s f inner; ln -s /workspace/f absolute", check=True)
        assert [await sb.read(name) for name in ("f", "inner", "absolute")] == ["fine\n"] * 3
        for link in links:
            await sb.delete(link)
        assert Path("/etc/passwd").exists()

    async def test_special_files(self, shared: Sandbox, tmp_path: Path) -> None:
        sb = shared
        await ask(sb, inside.plant, "/workspace", ["fifo", "socket"])
        for name in ("fifo", "socket"):
            for refused in (
                sb.read(name),
                sb.read_bytes(name, limit=5),
                sb.write(name, "x"),
                sb.copy(name, "copy"),
                sb.download(name, tmp_path / "out"),
                sb.download("/workspace", tmp_path / "out"),
                sb.grep("x", name),
            ):
                with pytest.raises(NotFileError):
                    await refused
            assert (await sb.stat(name)).kind == "other"
        assert await sb.grep("x") == []
        for name in ("fifo", "socket"):
            await sb.delete(name)

    async def test_a_sparse_terabyte(self, shared: Sandbox, tmp_path: Path) -> None:
        sb = shared
        await ask(sb, inside.plant, "/workspace", ["sparse"])
        for refused in (sb.read("sparse"), sb.copy("sparse", "copy"), sb.download("sparse", tmp_path / "out")):
            with pytest.raises(TooLargeError):
                await refused
        assert await sb.read_bytes("sparse", offset=1 << 39, limit=3) == b"\0\0\0"

    async def test_a_file_that_grows(self, shared: Sandbox, tmp_path: Path) -> None:
        sb = shared
        process = await sb.start("head -c 300000000 /dev/zero > growing; sleep 100")
        while not await sb.exists("growing"):
            await asyncio.sleep(0.01)
        for _ in range(5):
            assert len(await sb.read_bytes("growing", limit=2_000_000)) <= 2_000_000
        written = await sb.download("growing", tmp_path / "copy")
        assert os.path.getsize(written) <= 300_000_000
        await process.kill()

    async def test_hard_links(self, shared: Sandbox, tmp_path: Path) -> None:
        """A file of the host that shares its content with one inside keeps it."""
        sb = shared
        (tmp_path / "precious").write_text("precious")
        os.link(tmp_path / "precious", tmp_path / "workspace/a")
        await sb.write("a", "new")
        await sb.exec("echo x > b; ln b c", check=True)
        await sb.write("b", "new")
        assert (tmp_path / "precious").read_text() == "precious"
        assert (await sb.read("c"), await sb.read("a")) == ("x\n", "new")

    async def test_deep_and_closed(self, sb: Sandbox) -> None:
        for levels, mode in ((700, 0o755), (700, 0), (1, 0)):
            await ask(sb, inside.dig, "/workspace/deep", levels, mode)
            for bounded in (sb.glob("**/x"), sb.copy("deep", "copy"), sb.grep("x")):
                with suppress(SandboxError):
                    await bounded
            await sb.delete("deep", recursive=True)
            assert await sb.list() in ([], ["copy"])
            await sb.exec("chmod -R u+rwx copy; rm -rf copy")
        assert (await sb.exec("ls /usr/bin | wc -l")).stdout != "0\n"

    async def test_deleting_through_links(self, shared: Sandbox, tmp_path: Path) -> None:
        (tmp_path / "precious/deep").mkdir(parents=True)
        await shared.exec(
            f"mkdir -p t/u; ln -s {tmp_path}/precious t/out; ln -s / t/u/root; ln -s ../.. t/u/up", check=True
        )
        await shared.delete("t", recursive=True)
        assert (tmp_path / "precious/deep").exists()
        assert await shared.list() == []

    async def test_names(self, shared: Sandbox, tmp_path: Path) -> None:
        sb = shared
        await sb.mkdir("names")
        assert await ask(sb, inside.name_files, "/workspace/names", [name.hex() for name in NAMES]) == len(NAMES)
        listed = await sb.list("names")
        assert sorted(os.fsencode(name) for name in listed) == sorted(NAMES)
        for name in listed:
            assert await sb.read(f"names/{name}") == ""
            await sb.write(f"names/{name}", "x")
            with pytest.raises(SandboxError) as caught:
                await sb.read(f"names/{name}/below")
            assert not any(character in str(caught.value) for character in "\n\x1b\u202e\x7f")
        assert len(await sb.grep("x", "names")) == len(NAMES)
        await sb.download("names", tmp_path / "out")
        assert sorted(os.listdir(os.fsencode(tmp_path / "out"))) == sorted(NAMES)
        for name in listed:
            await sb.delete(f"names/{name}")
        assert await sb.list("names") == []

    async def test_downloads_bring_no_rights(self, shared: Sandbox, tmp_path: Path) -> None:
        """The workspace may hold a set-uid file that was there before."""
        await shared.exec("echo x > tool; chmod 755 tool", check=True)
        (tmp_path / "workspace/tool").chmod(0o6755)
        await shared.download("tool", tmp_path / "out")
        await shared.copy("tool", "copy")
        for path in (tmp_path / "out", tmp_path / "workspace/copy"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o755

    @pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.__name__)
    async def test_races(self, backend: Backend, tmp_path: Path, attempt: Attempt) -> None:
        outside = outside_of(tmp_path)
        workspace_of(tmp_path)
        before = picture(outside)
        async with Sandbox.create(backend, workspace=tmp_path / "workspace") as sb:
            async with swapping_inside(sb):
                deadline = time.monotonic() + RACE_SECONDS
                while time.monotonic() < deadline:
                    with suppress(SandboxError):  # refused, or the file was gone at that moment
                        assert SECRET not in repr(await attempt(sb, tmp_path))
            assert picture(outside) == before
            put_right(tmp_path / "workspace")
            await attempt(sb, tmp_path)
