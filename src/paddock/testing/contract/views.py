"""`restrict`: a view reaches less than what it was made from, and never more."""

import asyncio
from pathlib import Path

import pytest

from paddock.driver import BackendSpec, Capabilities
from paddock.errors import ConfigError, OutsideError, ReadOnlyError, UnsupportedError
from paddock.sandbox import Sandbox
from paddock.testing.contract.suite import Suite, needs
from paddock.types import Mount


class ViewsContract(Suite):
    """Views of views, read-only and not."""

    async def test_read_only_by_default(self, sb: Sandbox) -> None:
        await sb.write("d/f", "x")
        view = sb.restrict("/workspace/d")
        assert await view.read("/workspace/d/f") == "x"
        for refused in (
            view.write("/workspace/d/f", ""),
            view.delete("/workspace/d/f"),
            view.mkdir("/workspace/d/e"),
            view.move("/workspace/d/f", "/workspace/d/g"),
            view.copy("/workspace/d/f", "/workspace/d/g"),
            view.write_files({"/workspace/d/g": ""}),
        ):
            with pytest.raises(ReadOnlyError):
                await refused
        assert await sb.list("d") == ["f"]

    async def test_only_what_was_named(self, sb: Sandbox) -> None:
        await sb.write_files({"d/f": "1", "e/f": "2", "/cache/f": "3"})
        view = sb.restrict("d", "/cache", read_only=False)
        await view.write("/workspace/d/g", "new")
        assert await sb.read("d/g") == "new"
        assert await view.list("/") == ["cache", "workspace"]
        assert await view.list("/workspace") == ["d"]
        assert (await view.stat("/workspace")).is_dir
        assert [mount.target for mount in view.mounts] == ["/workspace/d", "/cache"]
        for path in ("/workspace/e/f", "/workspace/d/../e/f", "/cache/../workspace/e/f", "/tmp/f", "/workspace/dd"):
            with pytest.raises(OutsideError):
                await view.read(path)
            with pytest.raises(OutsideError):
                await view.write(path, "")
            assert not await view.exists(path)
        with pytest.raises(OutsideError):
            await view.write("/workspace/f", "")
        assert await view.glob("/workspace/**/f") == ["/workspace/d/f"]
        assert [match.path for match in await view.grep("1|2", "/")] == ["/workspace/d/f"]

    @needs("host_mounts")
    async def test_read_only_mounts_are_left_out_too(
        self, backend: str | BackendSpec, can: Capabilities, tmp_path: Path
    ) -> None:
        (tmp_path / "data").mkdir()
        (tmp_path / "data/f").write_text("x")
        async with Sandbox.create(backend, mounts=[Mount(tmp_path / "data", "/data")]) as sb:
            view = sb.restrict("/workspace")
            for refused in (view.read("/data/f"), view.list("/data"), view.stat("/data/f"), view.write("/data/f", "")):
                with pytest.raises(OutsideError):
                    await refused
            assert not await view.exists("/data/f")
            assert await view.list("/") == ["workspace"]
            assert await sb.restrict("/data").read("/data/f") == "x"

    async def test_narrower_only(self, sb: Sandbox) -> None:
        await sb.write_files({"a/b/f": "x", "c/f": "y"})
        writable = sb.restrict("/workspace/a", read_only=False)
        inner = writable.restrict("/workspace/a/b")
        assert await inner.read("/workspace/a/b/f") == "x"
        for wider in ("/workspace/c", "/cache", "/etc"):
            with pytest.raises(OutsideError):
                writable.restrict(wider)
        with pytest.raises(ReadOnlyError):
            inner.restrict("/workspace/a/b", read_only=False)
        with pytest.raises(ReadOnlyError):
            inner.restrict("/", read_only=False)
        all_of_it = writable.restrict("/", read_only=False)
        await all_of_it.write("/workspace/a/new", "fine")
        with pytest.raises(ConfigError):
            sb.restrict()

    async def test_everything_read_only(self, sb: Sandbox) -> None:
        await sb.write("f", "x")
        view = sb.restrict("/")
        assert await view.list("/") == await sb.list("/")
        assert await view.read("f") == "x"
        with pytest.raises(ReadOnlyError):
            await view.write("f", "")

    async def test_a_view_hears_only_itself(self, sb: Sandbox) -> None:
        view = sb.restrict("/workspace")
        own, whole = view.events(), sb.events()
        await sb.write("/cache/secret", "x")
        await view.restrict("/workspace").list("/workspace")
        await view.close()
        await sb.close()
        assert [event.operation async for event in own] == ["restrict", "list"]
        assert [event.operation async for event in whole] == ["write", "restrict", "list", "close"]

    async def test_closing_a_view_closes_only_it(self, sb: Sandbox) -> None:
        view = sb.restrict("/workspace")
        inner = view.restrict("/workspace")
        watch = inner.watch("/workspace")
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0.05)
        await view.close()
        with pytest.raises(StopAsyncIteration):
            await waiting
        for closed in (view, inner):
            with pytest.raises(Exception, match="closed"):
                await closed.list("/workspace")
        assert await sb.list() == []

    @needs("view_commands")
    async def test_commands_on_a_view(self, backend: str | BackendSpec, can: Capabilities) -> None:
        async with Sandbox.create(backend) as sb:
            await sb.write_files({"in/f": "yes", "out/f": "no"})
            view = sb.restrict("/workspace/in", read_only=False)
            result = await view.exec(["cat", "f"], cwd="/workspace/in")
            assert (result.exit_code, result.stdout) == (0, "yes")
            assert (await view.exec(["cat", "/workspace/out/f"], cwd="/workspace/in")).exit_code != 0
            read_only = sb.restrict("/workspace/in")
            assert (await read_only.exec(["touch", "new"], cwd="/workspace/in")).exit_code != 0
            with pytest.raises(OutsideError):
                await view.exec(["pwd"], cwd="/cache")
            for refused in (view.processes(), view.process(1)):
                with pytest.raises(UnsupportedError):
                    await refused
