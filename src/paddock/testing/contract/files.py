"""Reading and writing."""

import asyncio
import os
import threading

import pytest

from paddock.driver import BackendSpec, Capabilities
from paddock.errors import (
    ConfigError,
    ExistsError,
    InvalidPathError,
    NotDirectoryError,
    NotEmptyError,
    NotFileError,
    NotFoundError,
    NotTextError,
    PermissionDeniedError,
    QuotaExceededError,
)
from paddock.sandbox import Sandbox
from paddock.testing.contract.suite import Suite
from paddock.types import Limits


class FilesContract(Suite):
    """Single files, and small sets of them."""

    async def test_write_and_read(self, sb: Sandbox) -> None:
        await sb.write("a/b/c.txt", "grüße\n")
        assert await sb.read("/workspace/a/b/c.txt") == "grüße\n"
        await sb.write("a/b/c.txt", b"\0\xff")
        assert await sb.read_bytes("a/b/c.txt") == b"\0\xff"
        await sb.write("empty", "")
        assert await sb.read("empty") == ""
        assert await sb.list("a/b") == ["c.txt"]

    async def test_every_place_can_be_written(self, sb: Sandbox) -> None:
        for mount in sb.mounts:
            await sb.write(f"{mount.target}/f", mount.target)
            assert await sb.read(f"{mount.target}/f") == mount.target

    async def test_ranges(self, sb: Sandbox) -> None:
        await sb.write("f", b"0123456789")
        assert await sb.read_bytes("f", offset=3, limit=4) == b"3456"
        assert await sb.read_bytes("f", offset=8) == b"89"
        assert await sb.read_bytes("f", limit=2) == b"01"
        assert await sb.read_bytes("f", offset=99) == b""
        for wrong in ({"offset": -1}, {"limit": -1}):
            with pytest.raises(ConfigError):
                await sb.read_bytes("f", **wrong)

    async def test_not_text(self, sb: Sandbox) -> None:
        await sb.write("f", b"\xff\xfe")
        with pytest.raises(NotTextError):
            await sb.read("f")
        for content in (5, None, "\ud800"):
            with pytest.raises(ConfigError):
                await sb.write("f", content)  # type: ignore[arg-type]
        with pytest.raises(ConfigError):
            await sb.write_files(["f"])  # type: ignore[arg-type]
        with pytest.raises(InvalidPathError):
            await sb.read(5)  # type: ignore[arg-type]

    async def test_large(self, sb: Sandbox) -> None:
        data = bytes(range(256)) * (50 << 12)
        await sb.write("large", data)
        assert await sb.read_bytes("large") == data
        assert (await sb.stat("large")).size == 50 << 20

    async def test_missing(self, sb: Sandbox) -> None:
        for call in (sb.read, sb.read_bytes, sb.stat, sb.list, sb.scan, sb.delete):
            with pytest.raises(NotFoundError) as caught:
                await call("no/such")
            assert caught.value.path == "/workspace/no/such"
        assert not await sb.exists("no/such")
        with pytest.raises(NotFoundError):
            await sb.move("no", "other")
        with pytest.raises(NotFoundError):
            await sb.copy("no", "other")

    async def test_wrong_kind(self, sb: Sandbox) -> None:
        await sb.write("f", "x")
        await sb.mkdir("d")
        for path in ("d", "/workspace"):
            with pytest.raises(NotFileError):
                await sb.read(path)
            with pytest.raises(NotFileError):
                await sb.write(path, "")
        for call in (sb.list, sb.scan):
            with pytest.raises(NotDirectoryError):
                await call("f")
        with pytest.raises(NotDirectoryError):
            await sb.read("f/g")
        with pytest.raises(NotDirectoryError):
            await sb.write("f/g", "")
        with pytest.raises(ExistsError):
            await sb.mkdir("f")
        assert not await sb.exists("f/g")

    async def test_modes(self, sb: Sandbox) -> None:
        await sb.write("d/f", "")
        assert (await sb.stat("d/f")).mode == 0o644
        assert (await sb.stat("d")).mode == 0o755
        before = os.umask(0o077)
        try:
            await sb.write_files({"late/f": ""})
        finally:
            os.umask(before)
        assert ((await sb.stat("late/f")).mode, (await sb.stat("late")).mode) == (0o644, 0o755)
        await sb.write("d/f", "", mode=0o700)
        await sb.write("d/f", "new")
        assert (await sb.stat("d/f")).mode == 0o700
        for wrong in (0o4755, -1, True):
            with pytest.raises(ConfigError):
                await sb.write("d/f", "", mode=wrong)

    async def test_stat(self, sb: Sandbox) -> None:
        await sb.write("d/f", "12345")
        found = await sb.stat("d/f")
        assert (found.name, found.path, found.size, found.kind, found.is_dir) == (
            "f",
            "/workspace/d/f",
            5,
            "file",
            False,
        )
        assert found.mod_time > 0
        assert (await sb.stat("d")).is_dir
        assert [entry.path for entry in await sb.scan("d")] == ["/workspace/d/f"]

    async def test_list(self, sb: Sandbox) -> None:
        for name in ("b", "a", "C", "é"):
            await sb.write(f"d/{name}", "")
        assert await sb.list("d") == ["C", "a", "b", "é"]
        await sb.mkdir("empty")
        assert await sb.list("empty") == []
        assert {"cache", "tmp", "workspace"} <= set(await sb.list("/"))
        assert await sb.list("/home") == ["agent"]
        assert (await sb.stat("/")).is_dir

    async def test_mkdir(self, sb: Sandbox) -> None:
        await sb.mkdir("a/b/c")
        await sb.mkdir("a/b/c")
        await sb.mkdir("/")
        assert (await sb.stat("a/b/c")).is_dir

    async def test_delete(self, sb: Sandbox) -> None:
        await sb.write("d/e/f", "")
        await sb.mkdir("empty")
        with pytest.raises(NotEmptyError):
            await sb.delete("d")
        with pytest.raises(NotFileError):
            await sb.delete("empty")
        await sb.delete("d/e/f")
        await sb.delete("d", recursive=True)
        await sb.delete("empty", recursive=True)
        assert await sb.list() == []
        with pytest.raises(NotFoundError):
            await sb.delete("d", recursive=True)
        with pytest.raises(PermissionDeniedError):
            await sb.delete("/workspace", recursive=True)
        with pytest.raises(PermissionError):
            await sb.delete("/", recursive=True)

    async def test_move(self, sb: Sandbox) -> None:
        await sb.write("a/f", "1")
        await sb.move("a", "b/c")
        assert await sb.read("b/c/f") == "1"
        await sb.write("g", "2")
        with pytest.raises(ExistsError):
            await sb.move("g", "b/c/f")
        await sb.move("g", "b/c/f", overwrite=True)
        assert await sb.read("b/c/f") == "2"
        assert await sb.list() == ["b"]
        await sb.move("b", "/cache/moved")
        assert await sb.read("/cache/moved/c/f") == "2"
        assert await sb.list() == []
        for source, target in (("/workspace", "/cache/x"), ("/cache/moved", "/workspace")):
            with pytest.raises((PermissionDeniedError, ExistsError)):
                await sb.move(source, target)

    async def test_copy(self, sb: Sandbox) -> None:
        await sb.write("a/f", "1", mode=0o755)
        await sb.copy("a", "b")
        await sb.copy("a/f", "/cache/new/f")
        assert await sb.read("b/f") == await sb.read("/cache/new/f") == await sb.read("a/f") == "1"
        assert (await sb.stat("b/f")).mode == 0o755
        with pytest.raises(ExistsError):
            await sb.copy("a", "b")
        with pytest.raises(ExistsError):
            await sb.copy("a/f", "b/f")
        await sb.write("a/f", "2")
        await sb.copy("a/f", "b/f", overwrite=True)
        assert await sb.read("b/f") == "2"
        with pytest.raises(ConfigError):
            await sb.copy("a", "a/inner")
        assert await sb.list() == ["a", "b"]

    async def test_write_files(self, sb: Sandbox) -> None:
        await sb.write_files({})
        await sb.write("old", "1", mode=0o600)
        await sb.write_files({"old": "2", "new/deep/f": b"3", "/cache/f": "4"})
        assert [await sb.read(path) for path in ("old", "new/deep/f", "/cache/f")] == ["2", "3", "4"]
        assert (await sb.stat("old")).mode == 0o600
        assert await sb.list() == ["new", "old"]

    async def test_write_files_all_or_nothing(self, sb: Sandbox) -> None:
        await sb.write("keep", "old")
        await sb.mkdir("directory")
        for bad, error in (("directory", NotFileError), ("keep/below", NotDirectoryError)):
            with pytest.raises(error) as caught:
                await sb.write_files({"keep": "new", "made/f": "x", "/cache/f": "x", bad: "x"})
            assert caught.value.path == f"/workspace/{bad}"
            assert await sb.read("keep") == "old"
            assert await sb.list() == ["directory", "keep"]
            assert await sb.list("/cache") == []
        with pytest.raises(PermissionError):
            await sb.write_files({"keep": "new", "/etc/f": "x"})
        with pytest.raises(ConfigError):
            await sb.write_files({"f": "1", "./f": "2"})
        with pytest.raises(NotFileError):
            await sb.write_files({"f": "1", "f/g": "2"})
        assert await sb.read("keep") == "old"
        assert await sb.list() == ["directory", "keep"]

    async def test_many_files_at_once(self, sb: Sandbox) -> None:
        files = {f"d{n % 7}/f{n}": str(n) for n in range(500)}
        await sb.write_files(files)
        assert len(await sb.glob("**/f*")) == 500
        assert await sb.read("d3/f3") == "3"

    async def test_ten_workers(self, sb: Sandbox) -> None:
        async def work(worker: int) -> None:
            for turn in range(100):
                await sb.write(f"w{worker}/f", f"{worker}-{turn}")
                await sb.write("shared", f"{worker}" * 1000)
                assert await sb.read(f"w{worker}/f") == f"{worker}-{turn}"
                assert len(set(await sb.read("shared"))) == 1

        await asyncio.gather(*(work(n) for n in range(10)))
        assert len(await sb.list()) == 11

    async def test_ten_threads(self, sb: Sandbox) -> None:
        files, failures = sb._files, []

        def work(worker: int) -> None:
            try:
                for turn in range(100):
                    files.write("/workspace/shared", f"{worker}".encode() * 1000)
                    files.write(f"/workspace/w{worker}/f", f"{turn}".encode())
                    with files.open("/workspace/shared") as reader:
                        assert len(set(reader.read(1000))) == 1
            except BaseException as error:  # noqa: BLE001 - shown by the test
                failures.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        assert not failures

    async def test_disk_limit(self, backend: str | BackendSpec, can: Capabilities) -> None:
        if "disk" not in can.limits:
            return  # refused at create, which LifeContract looks at
        async with Sandbox.create(backend, limits=Limits(disk=10_000)) as sb:
            assert sb.isolation.limits["disk"]
            await sb.write("f", b"x" * 8_000)
            with pytest.raises(QuotaExceededError):
                await sb.write("g", b"x" * 8_000)
            with pytest.raises(QuotaExceededError):
                await sb.write_files({"g": b"x" * 1_000, "h": b"x" * 8_000})
            assert await sb.list() == ["f"]
            await sb.delete("f")
            await sb.write("g", b"x" * 8_000)

    async def test_a_directory_of_100_000(self, sb: Sandbox) -> None:
        files = {f"many/{n:06}": b"" for n in range(100_000)}
        await sb.write_files(files)
        names = await sb.list("many")
        assert (len(names), names[0], names[-1]) == (100_000, "000000", "099999")
        assert len(await sb.glob("many/*99")) == 1_000
        await sb.delete("many", recursive=True)
        assert await sb.list() == []
