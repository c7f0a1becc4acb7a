"""Zones, mounts and modes: which host directory a path means."""

from pathlib import Path

import pytest

from paddock.driver import BackendSpec, Capabilities
from paddock.errors import (
    ConfigError,
    NotFoundError,
    OutsideError,
    PermissionDeniedError,
    ReadOnlyError,
    TooLargeError,
    UnsupportedError,
)
from paddock.sandbox import Sandbox
from paddock.testing.contract.suite import Suite, needs
from paddock.testing.plant import plant_link
from paddock.types import Mount


class MountsContract(Suite):
    """Directories of the host at fixed paths; backends that show none refuse every one of these."""

    @needs("host_mounts")
    async def test_sandboxed(self, backend: str | BackendSpec, can: Capabilities, tmp_path: Path) -> None:
        root = tmp_path / ".sandbox"
        async with Sandbox.create(backend, root=root) as sb:
            await sb.write("/workspace/report.md", "text")
            await sb.write("/cache/doc.pdf", b"bytes")
            assert {mount.target: mount.source for mount in sb.mounts}["/workspace"] == str(root / "workspace")
        assert (root / "workspace/report.md").read_text() == "text"
        assert (root / "cache/doc.pdf").read_bytes() == b"bytes"
        assert root.stat().st_mode & 0o777 == 0o700

    @needs("host_mounts")
    async def test_sandboxed_by_default_name(
        self, backend: str | BackendSpec, can: Capabilities, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        async with Sandbox.create(backend, mode="sandboxed") as sb:
            await sb.write("f", "x")
        assert (tmp_path / ".sandbox/workspace/f").read_text() == "x"

    @needs("host_mounts")
    async def test_direct(self, backend: str | BackendSpec, can: Capabilities, tmp_path: Path) -> None:
        (tmp_path / "reports").mkdir()
        (tmp_path / "reports/topic.md").write_text("old")
        async with Sandbox.create(backend, workspace=tmp_path / "reports", cache=tmp_path / "downloads") as sb:
            await sb.write("/cache/paper.pdf", b"%PDF")
            text = await sb.read("/workspace/topic.md")
            await sb.write("/workspace/topic.md", text + " and new")
        assert (tmp_path / "reports/topic.md").read_text() == "old and new"
        assert (tmp_path / "downloads/paper.pdf").read_bytes() == b"%PDF"

    @needs("host_mounts")
    async def test_workspace_alone_has_no_cache(
        self, backend: str | BackendSpec, can: Capabilities, tmp_path: Path
    ) -> None:
        async with Sandbox.create(backend, workspace=tmp_path / "w") as sb:
            await sb.write("f", "x")
            with pytest.raises(OutsideError, match="cache="):
                await sb.write("/cache/f", "")
            assert "cache" not in await sb.list("/")
        assert (tmp_path / "w/f").read_text() == "x"

    @needs("host_mounts")
    async def test_private_leaves_nothing(self, backend: str | BackendSpec, can: Capabilities, tmp_path: Path) -> None:
        async with Sandbox.create(backend, workspace=tmp_path / "w") as sb:
            await sb.write("/tmp/f", "x")
            await sb.write("/home/agent/f", "x")
        left = [p for p in (tmp_path / "state").rglob("*") if p.is_file() and "audit" not in p.name]
        assert left == []

    @needs("host_mounts")
    async def test_more_mounts(self, backend: str | BackendSpec, can: Capabilities, tmp_path: Path) -> None:
        for name in ("data", "inner", "out"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "f").write_text(name)
        mounts = [
            Mount(tmp_path / "data", "/data"),
            Mount(tmp_path / "inner", "/data/inner"),
            Mount(tmp_path / "out", "/out", "rw"),
        ]
        async with Sandbox.create(backend, mounts=mounts) as sb:
            assert await sb.read("/data/f") == "data"
            assert await sb.read("/data/inner/f") == "inner"
            assert await sb.list("/data") == ["f", "inner"]
            assert {"data", "out"} <= set(await sb.list("/"))
            assert await sb.glob("/data/**/f") == ["/data/f", "/data/inner/f"]
            for refused in (
                sb.write("/data/f", ""),
                sb.delete("/data/f"),
                sb.mkdir("/data/d"),
                sb.move("/data/f", "f"),
            ):
                with pytest.raises(ReadOnlyError) as caught:
                    await refused
                assert "/workspace" in caught.value.hint
            await sb.copy("/data/f", "/out/g")
        assert (tmp_path / "out/g").read_text() == "data"
        assert (tmp_path / "data/f").read_text() == "data"

    @needs("host_mounts")
    async def test_a_mount_with_rules(self, backend: str | BackendSpec, can: Capabilities, tmp_path: Path) -> None:
        source = tmp_path / "notes"
        source.mkdir()
        (source / "secret.key").write_text("k")
        (source / "big.md").write_text("x" * 2_000)
        rules = Mount(source, "/notes", "rw", suffixes=(".md", ".TXT"), max_file_bytes="1k")
        async with Sandbox.create(backend, mounts=[rules]) as sb:
            await sb.write("/notes/a.md", "fine")
            await sb.write("/notes/b.txt", "fine")
            for refused in (
                sb.read("/notes/secret.key"),
                sb.write("/notes/x.sh", ""),
                sb.write_files({"/notes/x.sh": ""}),
                sb.move("/notes/a.md", "/notes/a.sh"),
                sb.copy("/notes/secret.key", "/workspace/k"),
            ):
                with pytest.raises(PermissionDeniedError) as denied:
                    await refused
                assert ".md" in denied.value.hint
            for too_large in (sb.read("/notes/big.md"), sb.write("/notes/new.md", "x" * 1_025)):
                with pytest.raises(TooLargeError) as large:
                    await too_large
                assert "1024" in large.value.hint
            plant_link(sb, "/notes/link.md", "secret.key")
            with pytest.raises(PermissionDeniedError):
                await sb.read("/notes/link.md")
            assert {match.path for match in await sb.grep("k", "/notes")} == set()

    @needs("host_mounts")
    async def test_git_directory_is_protected(
        self, backend: str | BackendSpec, can: Capabilities, tmp_path: Path
    ) -> None:
        (tmp_path / "project/.git/hooks").mkdir(parents=True)
        (tmp_path / "project/.git/config").write_text("[core]")
        async with Sandbox.create(backend, workspace=tmp_path / "project") as sb:
            assert await sb.read(".git/config") == "[core]"
            await sb.write("f", "x")
            plant_link(sb, "innocent", ".git/hooks")
            for refused in (
                sb.write(".git/config", ""),
                sb.write(".git/hooks/pre-commit", ""),
                sb.write("innocent/pre-commit", ""),
                sb.write_files({"innocent/pre-commit": ""}),
                sb.delete(".git", recursive=True),
                sb.move(".git", "git"),
                sb.mkdir(".git/x"),
                sb.copy("f", ".git/f"),
                sb.move("f", ".git/config", overwrite=True),
                sb.upload(tmp_path / "state", ".git"),
                sb.write(".GIT/config", ""),
            ):
                with pytest.raises(ReadOnlyError):
                    await refused
            await sb.write(".gitignore", "fine")
        assert [p.name for p in (tmp_path / "project/.git/hooks").iterdir()] == []
        async with Sandbox.create(backend, workspace=tmp_path / "empty") as sb:
            await sb.write(".git/config", "a repository of its own")

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"root": "r", "workspace": "w"}, "contradict"),
            ({"root": "r", "cache": "c"}, "contradict"),
            ({"mode": "sandboxed", "workspace": "w"}, "contradict"),
            ({"mode": "direct"}, "workspace="),
            ({"mode": "direct", "root": "r"}, "workspace="),
            ({"workspace": "w", "cache": "w"}, "overlap"),
            ({"workspace": "w", "cache": "w/cache"}, "overlap"),
            ({"workspace": "w", "mounts": [Mount("w", "/data")]}, "no directory 'w'|overlap"),
            ({"mounts": [Mount("missing", "/data")]}, "no directory 'missing'"),
            ({"mounts": [Mount("/etc/passwd", "/data")]}, "only directories"),
            ({"mounts": [Mount(".", "/data"), Mount("/etc", "/data")]}, "target"),
            ({"mounts": [Mount(".", "/workspace/data")]}, "writable"),
            ({"mounts": [Mount(".", "/workspace")]}, "target"),
            ({"mounts": [Mount(".", "/home")]}, "hide"),
        ],
    )
    async def test_contradictions(
        self,
        backend: str | BackendSpec,
        can: Capabilities,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        options: dict[str, object],
        words: str,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(
            ConfigError if can.host_mounts else UnsupportedError, match=words if can.host_mounts else "."
        ):
            await Sandbox.create(backend, **options)  # type: ignore[arg-type]
        assert [p for p in tmp_path.iterdir() if p.name != "state"] == []

    @needs("host_mounts")
    async def test_a_create_that_fails_leaves_no_directory(
        self, backend: str | BackendSpec, can: Capabilities, tmp_path: Path
    ) -> None:
        with pytest.raises(NotFoundError):
            await Sandbox.create(backend, workspace=tmp_path / "new/w", workdir="/workspace/missing")
        assert not (tmp_path / "new").exists()

    async def test_private_mounts(self, backend: str | BackendSpec) -> None:
        mounts = [Mount(None, target, "rw") for target in ("/home-agent", "/a-b", "/a/b")]
        async with Sandbox.create(backend, mounts=mounts) as sb:
            await sb.write("/a/b/f", "x")
            assert await sb.list("/a-b") == []

    @needs("host_mounts")
    async def test_the_state_directory_stays_out(
        self, backend: str | BackendSpec, can: Capabilities, tmp_path: Path
    ) -> None:
        with pytest.raises(ConfigError, match="PADDOCK_STATE"):
            await Sandbox.create(backend, workspace=tmp_path)
        async with Sandbox.create(backend, workspace=tmp_path / "beside") as sb:
            await sb.write("f", "x")

    @needs("resolve")
    async def test_resolve(self, backend: str | BackendSpec, can: Capabilities, tmp_path: Path) -> None:
        async with Sandbox.create(backend) as sb:
            await sb.write("d/f", "x")
            assert Path(sb.resolve("d/f")).read_text() == "x"
            assert Path(sb.resolve("d/new")).parent.is_dir()
            plant_link(sb, "inside", "d/f")
            plant_link(sb, "outside", "/etc/passwd")
            assert sb.resolve("inside") == sb.resolve("d/f")
            for path in ("outside", "outside/x", "/etc/passwd", "../../etc"):
                with pytest.raises(OutsideError):
                    sb.resolve(path)
