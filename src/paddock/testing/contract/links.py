"""Symbolic links: followed where they stay inside, refused where they do not."""

import pytest

from paddock.errors import NotFoundError, OutsideError, ReadOnlyError, SandboxError
from paddock.sandbox import Sandbox
from paddock.testing.contract.suite import Suite
from paddock.testing.plant import plant_link

LEADING_OUT = ["/etc/passwd", "/etc", "../../etc/passwd", "/proc/self/root/etc/passwd", "/workspaceX", "/", ".."]


class LinksContract(Suite):
    """Links that stay inside work for every call; links that lead out work for none."""

    @pytest.mark.parametrize("target", ["real/f", "/workspace/real/f", "./real/../real/f", "hop"])
    async def test_inside_is_followed(self, sb: Sandbox, target: str) -> None:
        await sb.write("real/f", "old")
        plant_link(sb, "hop", "real/f")
        plant_link(sb, "link", target)
        assert await sb.read("link") == "old"
        await sb.write("link", "new")
        assert await sb.read("real/f") == "new"
        assert (await sb.stat("link")).kind == "file"
        assert await sb.exists("link")
        assert {entry.name: entry.kind for entry in await sb.scan()}["link"] == "link"
        await sb.delete("link")
        assert await sb.read("real/f") == "new"

    @pytest.mark.parametrize("target", ["real", "/workspace/real", "../workspace/real"])
    async def test_directories_through_links(self, sb: Sandbox, target: str) -> None:
        await sb.write("real/f", "x")
        plant_link(sb, "link", target)
        assert await sb.read("link/f") == "x"
        assert await sb.list("link") == ["f"]
        await sb.write("link/new/deep", "y")
        await sb.write_files({"link/more": "z"})
        assert await sb.list("real") == ["f", "more", "new"]
        await sb.move("link/f", "link/g")
        await sb.copy("link/g", "h")
        assert await sb.read("real/g") == await sb.read("h") == "x"
        assert await sb.glob("link/*") == ["/workspace/link/g", "/workspace/link/more", "/workspace/link/new"]
        await sb.delete("link/g")
        assert await sb.list("real") == ["more", "new"]

    async def test_from_mount_to_mount(self, sb: Sandbox) -> None:
        await sb.write("/cache/f", "x")
        plant_link(sb, "link", "/cache")
        assert await sb.read("link/f") == "x"
        await sb.write("link/g", "y")
        assert await sb.read("/cache/g") == "y"
        assert await sb.canonical("link/new/deep") == "/cache/new/deep"
        assert await sb.canonical("./f/../plain") == "/workspace/plain"

    @pytest.mark.parametrize("target", LEADING_OUT)
    async def test_leading_out_is_refused(self, sb: Sandbox, target: str) -> None:
        plant_link(sb, "link", target)
        await sb.write("f", "x")
        for path in ("link/x", "link/new/deep"):
            refusing = (sb.read(path), sb.write(path, ""), sb.mkdir(path), sb.delete(path), sb.list(path))
            for refused in (*refusing, sb.canonical(path)):
                with pytest.raises(OutsideError):
                    await refused
            for refused in (sb.move("f", path), sb.copy("f", path), sb.write_files({"ok": "", path: ""})):
                with pytest.raises(OutsideError):
                    await refused
        if target not in ("/", ".."):
            for call in (sb.read, sb.stat, sb.list):
                with pytest.raises(OutsideError):
                    await call("link")
            with pytest.raises(OutsideError):
                await sb.write("link", "")
            assert not await sb.exists("link")
        assert await sb.list() == ["f", "link"]
        await sb.delete("link")

    async def test_dangling(self, sb: Sandbox) -> None:
        plant_link(sb, "link", "missing/f")
        with pytest.raises(NotFoundError):
            await sb.read("link")
        assert not await sb.exists("link")
        await sb.write("link", "x")
        assert await sb.read("missing/f") == "x"

    async def test_loops(self, sb: Sandbox) -> None:
        plant_link(sb, "a", "b")
        plant_link(sb, "b", "a")
        plant_link(sb, "self", "self/self")
        for path in ("a", "a/x", "self"):
            for refused in (sb.read(path), sb.write(path, ""), sb.list(path), sb.stat(path)):
                with pytest.raises(SandboxError):
                    await refused

    async def test_up_from_a_linked_directory(self, sb: Sandbox) -> None:
        await sb.write("deep/er/f", "inner")
        await sb.write("deep/f", "middle")
        plant_link(sb, "into", "deep/er")
        plant_link(sb, "up", "into/../f")
        assert await sb.read("up") == "middle"

    async def test_delete_never_follows(self, sb: Sandbox) -> None:
        await sb.write("/cache/keep/f", "x")
        plant_link(sb, "/workspace/top", "/cache/keep")
        await sb.mkdir("d")
        plant_link(sb, "d/link", "/cache/keep")
        await sb.delete("d", recursive=True)
        await sb.delete("top", recursive=True)
        assert await sb.read("/cache/keep/f") == "x"

    async def test_moving_a_link_moves_the_link(self, sb: Sandbox) -> None:
        await sb.write("f", "x")
        plant_link(sb, "a", "/workspace/f")
        plant_link(sb, "dangling", "nowhere")
        await sb.move("a", "b")
        await sb.move("b", "/cache/c")
        await sb.move("dangling", "/cache/d")
        assert {entry.name: entry.target for entry in await sb.scan("/cache")} == {"c": "/workspace/f", "d": "nowhere"}
        assert await sb.read("/cache/c") == "x"
        assert await sb.list() == ["f"]

    async def test_glob_and_grep_do_not_follow(self, sb: Sandbox) -> None:
        await sb.write("/cache/f.txt", "needle")
        plant_link(sb, "link", "/cache")
        plant_link(sb, "link.txt", "/cache/f.txt")
        assert await sb.glob("**/*.txt") == ["/workspace/link.txt"]
        assert await sb.grep("needle") == []

    async def test_views_are_not_left_by_links(self, sb: Sandbox) -> None:
        await sb.write("out/f", "secret")
        await sb.write("in/real", "x")
        plant_link(sb, "in/link", "../out/f")
        plant_link(sb, "in/up", "..")
        plant_link(sb, "in/ok", "real")
        view = sb.restrict("/workspace/in", read_only=False)
        assert await view.read("/workspace/in/ok") == "x"
        for path in ("/workspace/in/link", "/workspace/in/up/out/f"):
            with pytest.raises(OutsideError):
                await view.read(path)
            with pytest.raises(OutsideError):
                await view.write(path, "")
        assert await sb.read("out/f") == "secret"

    async def test_links_do_not_widen_a_mode(self, sb: Sandbox) -> None:
        await sb.write("ro/f", "x")
        await sb.mkdir("rw")
        plant_link(sb, "rw/link", "../ro/f")
        view = sb.restrict("/workspace/ro")
        both = sb.restrict("/workspace/rw", read_only=False)
        with pytest.raises(ReadOnlyError):
            await view.write("/workspace/ro/f", "")
        with pytest.raises(OutsideError):
            await both.write("/workspace/rw/link", "")
        assert await sb.read("ro/f") == "x"
