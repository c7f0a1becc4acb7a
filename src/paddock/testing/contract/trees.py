"""Whole trees in and out."""

import os
from pathlib import Path

import pytest

from paddock.errors import ConfigError, NotFileError, NotFoundError, OutsideError, SandboxError
from paddock.sandbox import Sandbox
from paddock.testing.contract.suite import Suite
from paddock.testing.plant import plant_link


class TreesContract(Suite):
    """`upload`, `download` and links in what they carry."""

    async def test_a_file(self, sb: Sandbox, tmp_path: Path) -> None:
        (tmp_path / "f").write_bytes(b"\0data")
        (tmp_path / "f").chmod(0o750)
        await sb.upload(tmp_path / "f", "new/g")
        assert await sb.read_bytes("new/g") == b"\0data"
        assert (await sb.stat("new/g")).mode == 0o750
        await sb.upload(tmp_path / "f", "new")
        assert await sb.list("new") == ["f", "g"]
        written = await sb.download("new/g", tmp_path / "out/h")
        assert written == str(tmp_path / "out/h")
        assert Path(written).read_bytes() == b"\0data"
        assert await sb.download("new/g", tmp_path / "out") == str(tmp_path / "out/g")

    async def test_a_tree(self, sb: Sandbox, tmp_path: Path) -> None:
        source = tmp_path / "src"
        (source / "a/b").mkdir(parents=True)
        (source / "empty").mkdir()
        (source / "a/b/run.sh").write_text("#!/bin/sh")
        (source / "a/b/run.sh").chmod(0o755)
        (source / "top").write_text("new")
        await sb.write_files({"dst/top": "old", "dst/extra": "stays"})
        await sb.upload(source, "dst")
        assert await sb.read("dst/top") == "new"
        assert await sb.read("dst/extra") == "stays"
        assert (await sb.stat("dst/a/b/run.sh")).mode == 0o755
        assert await sb.list("dst/empty") == []
        out = await sb.download("dst", tmp_path / "out")
        assert sorted(os.listdir(out)) == ["a", "empty", "extra", "top"]
        assert (Path(out) / "a/b/run.sh").stat().st_mode & 0o777 == 0o755

    async def test_a_whole_workspace(self, sb: Sandbox, tmp_path: Path) -> None:
        await sb.write("d/f", "x")
        await sb.download("/workspace", tmp_path / "out")
        await sb.upload(tmp_path / "out", "/cache")
        assert await sb.read("/cache/d/f") == "x"

    async def test_links_that_stay_inside(self, sb: Sandbox, tmp_path: Path) -> None:
        source = tmp_path / "src"
        (source / "d").mkdir(parents=True)
        (source / "f").write_text("x")
        (source / "d/relative").symlink_to("../f")
        (source / "d/absolute").symlink_to(source / "f")
        (source / "dangling").symlink_to("nothing/here")
        await sb.upload(source, "dst")
        assert await sb.read("dst/d/relative") == await sb.read("dst/d/absolute") == "x"
        assert {e.name: e.target for e in await sb.scan("dst/d")} == {"relative": "../f", "absolute": "../f"}
        out = Path(await sb.download("dst", tmp_path / "out"))
        assert (out / "d/relative").is_symlink()
        assert (out / "d/relative").read_text() == "x"
        await sb.upload(source, "dst")

    @pytest.mark.parametrize("target", ["/etc/passwd", "../..", "../../etc/passwd", "d/up/../../x", "/workspace/f"])
    async def test_links_that_lead_out(self, sb: Sandbox, tmp_path: Path, target: str) -> None:
        await sb.write_files({"src/f": "x", "src/d/f": "y"})
        plant_link(sb, "src/zlink", target)
        with pytest.raises(OutsideError) as caught:
            await sb.download("src", tmp_path / "out")
        assert caught.value.path == "/workspace/src/zlink"
        assert not (tmp_path / "out").exists()
        host = tmp_path / "host"
        host.mkdir()
        (host / "f").write_text("x")
        (host / "zlink").symlink_to(target)
        with pytest.raises(OutsideError):
            await sb.upload(host, "dst")
        assert not await sb.exists("dst")

    async def test_download_does_not_follow_links_of_the_host(self, sb: Sandbox, tmp_path: Path) -> None:
        await sb.write("src/d/f", "evil")
        (tmp_path / "precious").mkdir()
        (tmp_path / "out").mkdir()
        (tmp_path / "out/d").symlink_to(tmp_path / "precious")
        with pytest.raises(SandboxError):
            await sb.download("src", tmp_path / "out")
        assert list((tmp_path / "precious").iterdir()) == []

    async def test_what_is_not_there(self, sb: Sandbox, tmp_path: Path) -> None:
        with pytest.raises(NotFoundError):
            await sb.upload(tmp_path / "missing", "x")
        with pytest.raises(NotFoundError):
            await sb.download("missing", tmp_path / "x")
        (tmp_path / "file").write_text("")
        await sb.write("f", "")
        with pytest.raises(ConfigError):
            await sb.download("f", tmp_path / "file/below")
        with pytest.raises(OutsideError):
            await sb.upload(tmp_path / "file", "/etc/x")
        with pytest.raises(OutsideError):
            await sb.download("/etc", tmp_path / "etc")
        assert not (tmp_path / "etc").exists()

    async def test_special_files_are_refused(self, sb: Sandbox, tmp_path: Path) -> None:
        (tmp_path / "src").mkdir()
        os.mkfifo(tmp_path / "src/fifo")
        for path in ("src", "src/fifo"):
            with pytest.raises(NotFileError):
                await sb.upload(tmp_path / path, "dst")
        assert not await sb.exists("dst")

    async def test_copy_keeps_links(self, sb: Sandbox) -> None:
        await sb.write("a/f", "x")
        plant_link(sb, "a/link", "f")
        plant_link(sb, "a/out", "/etc/passwd")
        await sb.copy("a", "b")
        assert await sb.read("b/link") == "x"
        with pytest.raises(OutsideError):
            await sb.read("b/out")
