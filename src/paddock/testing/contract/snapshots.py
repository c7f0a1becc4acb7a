"""Copies of a workspace: taken, looked at, brought back, forked."""

import pytest

from paddock.driver import BackendSpec
from paddock.errors import ClosedError, ConfigError, ExistsError, NotFoundError, UnsupportedError
from paddock.sandbox import Sandbox
from paddock.testing.contract.suite import Suite


class SnapshotsContract(Suite):
    """`snapshot`, `snapshots`, `restore`, `diff`, `fork`."""

    async def test_back_to_what_it_was(self, sb: Sandbox) -> None:
        await sb.write_files({"a.txt": "one\n", "d/b.sh": "#!/bin/sh\n"})
        await sb.write("d/run", b"\0\xff", mode=0o755)
        await sb.mkdir("empty")
        before = await sb.snapshot()
        await sb.write_files({"a.txt": "two\n", "new/c": "x"})
        await sb.delete("d", recursive=True)
        await sb.delete("empty", recursive=True)
        await sb.restore(before)
        assert await sb.glob("**") == [
            "/workspace/a.txt",
            "/workspace/d",
            "/workspace/d/b.sh",
            "/workspace/d/run",
            "/workspace/empty",
        ]
        assert await sb.read("a.txt") == "one\n"
        assert await sb.read_bytes("d/run") == b"\0\xff"
        assert (await sb.stat("d/run")).mode == 0o755

    async def test_what_differs(self, sb: Sandbox) -> None:
        await sb.write_files({"a.txt": "one\ntwo\n", "gone": "x", "moved": "the same content\n"})
        first = await sb.snapshot("first")
        await sb.write("a.txt", "one\n2\n")
        await sb.delete("gone")
        await sb.move("moved", "elsewhere")
        second = await sb.snapshot("second")
        found = {change.path: change for change in await sb.diff(first, second)}
        assert {path: change.operation for path, change in found.items()} == {
            "/workspace/a.txt": "update",
            "/workspace/gone": "delete",
            "/workspace/elsewhere": "rename",
        }
        assert found["/workspace/elsewhere"].old_path == "/workspace/moved"
        assert (found["/workspace/a.txt"].diff or "").endswith("-two\n+2\n")
        assert await sb.diff("second") == []
        assert len(await sb.diff("first")) == 3

    async def test_names_and_ids(self, sb: Sandbox) -> None:
        one, two = await sb.snapshot("one"), await sb.snapshot()
        assert [snapshot.id for snapshot in await sb.snapshots()] == [one.id, two.id]
        with pytest.raises(ExistsError):
            await sb.snapshot("one")
        with pytest.raises(ConfigError):
            await sb.snapshot("a/b")
        for unknown in ("nothing", "sn-000000000000"):
            with pytest.raises(NotFoundError):
                await sb.restore(unknown)
        await sb.remove_snapshot(one)
        assert [snapshot.id for snapshot in await sb.snapshots()] == [two.id]
        await sb.snapshot("one")

    async def test_only_the_workspace(self, sb: Sandbox) -> None:
        await sb.write_files({"/workspace/f": "1", "/cache/f": "1", "/tmp/f": "1"})
        before = await sb.snapshot()
        await sb.write_files({"/workspace/f": "2", "/cache/f": "2", "/tmp/f": "2"})
        await sb.restore(before)
        assert [await sb.read(path) for path in ("/workspace/f", "/cache/f", "/tmp/f")] == ["1", "2", "2"]

    async def test_another_sandbox_can_have_it(self, sb: Sandbox, backend: str | BackendSpec) -> None:
        await sb.write("f", "kept")
        kept = await sb.snapshot("mine")
        await sb.close()
        async with Sandbox.create(backend) as other:
            assert await other.snapshots() == []
            assert kept in await other.snapshots(everywhere=True)
            with pytest.raises(NotFoundError):
                await other.restore("mine")
            await other.restore(kept.id)
            assert await other.read("f") == "kept"

    async def test_a_fork_is_independent(self, sb: Sandbox) -> None:
        await sb.write_files({"f": "both", "d/g": "both", "/cache/c": "mine"})
        await sb.set_workdir("d")
        async with sb.fork() as other:
            assert (other.backend, other.workdir, other.id != sb.id) == (sb.backend, "/workspace/d", True)
            assert (await other.read("/workspace/f"), await other.read("g")) == ("both", "both")
            await other.write("/workspace/f", "theirs")
            await sb.write("g", "mine")
            assert (await sb.read("/workspace/f"), await other.read("g")) == ("both", "both")
            assert await other.list("/cache") == []
        assert await sb.snapshots() == []
        assert await sb.read("/workspace/f") == "both"

    async def test_not_for_a_view_nor_after_the_end(self, sb: Sandbox) -> None:
        await sb.mkdir("d")
        view = sb.restrict("/workspace/d")
        with pytest.raises(UnsupportedError):
            await view.snapshot()
        with pytest.raises(UnsupportedError):
            await view.fork()
        kept = await sb.snapshot()
        await sb.close()
        for call in (sb.snapshot, sb.snapshots, lambda: sb.restore(kept), lambda: sb.diff(kept)):
            with pytest.raises(ClosedError):
                await call()
