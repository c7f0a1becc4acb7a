"""Work on a host directory that is not written to before somebody says so."""

import os
from pathlib import Path

import pytest

from paddock.driver import BackendSpec, Capabilities
from paddock.errors import ConfigError, ConflictError, NotAuthorizedError, NotFoundError, UnsupportedError
from paddock.sandbox import Sandbox
from paddock.testing.contract.suite import Suite, needs


def project(top: Path) -> Path:
    """A small one."""
    path = top / "project"
    (path / "src").mkdir(parents=True)
    (path / "src/app.py").write_text("def main():\n    return 1\n")
    (path / "src/old.py").write_text("# not needed\n")
    (path / "README.md").write_text("# A project\n")
    (path / "run.sh").write_text("#!/bin/sh\n")
    return path


def seen(top: Path) -> dict[str, tuple[int, str]]:
    """Everything in a directory of the host."""
    found = {}
    for directory, names, files in os.walk(top):
        for name in (*names, *files):
            path = Path(directory, name)
            text = str(path.readlink()) if path.is_symlink() else path.read_text() if path.is_file() else ""
            found[str(path.relative_to(top))] = (path.lstat().st_mode, text)
    return found


class ReviewContract(Suite):
    """`review=True`, `changes`, `apply`, `discard`, `keep`."""

    @needs("review")
    async def test_the_host_is_not_written_to(
        self, backend: str | BackendSpec, can: Capabilities, tmp_path: Path
    ) -> None:
        path = project(tmp_path)
        before = seen(path)
        async with Sandbox.create(backend, workspace=path, review=True) as sb:
            await sb.write("src/app.py", "def main():\n    return 2\n")
            await sb.write("src/new.py", "x = 1\n")
            await sb.delete("src/old.py")
            await sb.delete("README.md")
            await sb.exec("mkdir -p a/b && echo deep > a/b/c && chmod 755 run.sh && ln -s src link")
            changes = {change.path: change for change in await sb.changes()}
            assert {path: change.operation for path, change in changes.items() if change.kind != "directory"} == {
                "/workspace/README.md": "delete",
                "/workspace/a/b/c": "create",
                "/workspace/link": "link",
                "/workspace/run.sh": "mode",
                "/workspace/src/app.py": "update",
                "/workspace/src/new.py": "create",
                "/workspace/src/old.py": "delete",
            }
            assert (changes["/workspace/src/app.py"].diff or "").endswith(
                " def main():\n-    return 1\n+    return 2\n"
            )
            assert seen(path) == before
        assert seen(path) == before

    @needs("review")
    async def test_all_of_it_is_applied(self, backend: str | BackendSpec, can: Capabilities, tmp_path: Path) -> None:
        path = project(tmp_path)
        async with Sandbox.create(backend, workspace=path, review=True) as sb:
            await sb.exec("echo '# more' >> README.md; rm -r src; mkdir lib; printf x > lib/y; chmod 750 lib/y")
            await (await sb.changes()).apply()
            assert len(await sb.changes()) == 0
            await sb.write("README.md", "again\n")
            await (await sb.changes()).apply()
        assert sorted(seen(path)) == ["README.md", "lib", "lib/y", "run.sh"]
        assert (path / "README.md").read_text() == "again\n"
        assert (path / "lib/y").stat().st_mode & 0o777 == 0o750
        assert {entry.stat().st_uid for entry in path.rglob("*")} == {path.stat().st_uid}

    @needs("review")
    async def test_some_of_it_is_applied(self, backend: str | BackendSpec, can: Capabilities, tmp_path: Path) -> None:
        path = project(tmp_path)
        async with Sandbox.create(backend, workspace=path, review=True) as sb:
            await sb.write_files({"src/app.py": "new\n", "src/more/x": "x", "README.md": "other\n"})
            changes = await sb.changes()
            with pytest.raises(NotFoundError):
                await changes.apply(["/workspace/run.sh"])
            await changes.apply(["/workspace/src"])
            assert [change.path for change in await sb.changes()] == ["/workspace/README.md"]
        assert (path / "src/app.py").read_text() == "new\n"
        assert (path / "src/more/x").read_text() == "x"
        assert (path / "README.md").read_text() == "# A project\n"

    @needs("review")
    async def test_only_what_was_shown_is_applied(
        self, backend: str | BackendSpec, can: Capabilities, tmp_path: Path
    ) -> None:
        path = project(tmp_path)
        before = seen(path)
        async with Sandbox.create(backend, workspace=path, review=True) as sb:
            await sb.write("README.md", "harmless\n")
            changes = await sb.changes()
            await sb.write("README.md", "evil\n")
            with pytest.raises(ConflictError, match="README"):
                await changes.apply()
            assert seen(path) == before
            await (await sb.changes()).apply()
        assert (path / "README.md").read_text() == "evil\n"

    @needs("review")
    async def test_a_file_that_moved_meanwhile(
        self, backend: str | BackendSpec, can: Capabilities, tmp_path: Path
    ) -> None:
        path = project(tmp_path)
        async with Sandbox.create(backend, workspace=path, review=True) as sb:
            await sb.write_files({"README.md": "theirs\n", "run.sh": "theirs\n"})
            (path / "README.md").write_text("mine\n")
            changes = await sb.changes()
            assert [change.path for change in changes.conflicts] == ["/workspace/README.md"]
            with pytest.raises(ConflictError, match="README"):
                await changes.apply()
            assert (path / "run.sh").read_text() == "#!/bin/sh\n"
            await changes.apply(["/workspace/run.sh"])
            await changes.apply(["/workspace/README.md"], overwrite=True)
        assert [(path / name).read_text() for name in ("README.md", "run.sh")] == ["theirs\n", "theirs\n"]

    @needs("review")
    async def test_discarding(self, backend: str | BackendSpec, can: Capabilities, tmp_path: Path) -> None:
        path = project(tmp_path)
        before = seen(path)
        async with Sandbox.create(backend, workspace=path, review=True) as sb:
            await sb.exec("rm -r src; echo x > new; echo y >> README.md; chmod 700 run.sh")
            changes = await sb.changes()
            await changes.discard()
            assert len(await sb.changes()) == 0
            assert await sb.list() == ["README.md", "run.sh", "src"]
            assert await sb.read("src/app.py") == "def main():\n    return 1\n"
            with pytest.raises(ConflictError):
                await changes.apply()
        assert seen(path) == before

    @needs("review")
    async def test_nobody_agrees(self, backend: str | BackendSpec, can: Capabilities, tmp_path: Path) -> None:
        path = project(tmp_path)
        before = seen(path)
        async with Sandbox.create(backend, workspace=path, review=True, approve="deny-all") as sb:
            await sb.write("README.md", "new\n")
            with pytest.raises(NotAuthorizedError):
                await (await sb.changes()).apply()
        assert seen(path) == before

    @needs("review")
    async def test_a_fork_lies_over_the_same_directory(
        self, backend: str | BackendSpec, can: Capabilities, tmp_path: Path
    ) -> None:
        path = project(tmp_path)
        async with Sandbox.create(backend, workspace=path, review=True) as sb:
            await sb.exec("echo x > new; rm run.sh")
            async with sb.fork() as other:
                assert [change.path for change in await other.changes()] == ["/workspace/new", "/workspace/run.sh"]
                await other.write("README.md", "only there\n")
                assert len(await sb.changes()) == 2
            assert await sb.read("README.md") == "# A project\n"

    @needs("review")
    async def test_without_a_directory(self, backend: str | BackendSpec, can: Capabilities, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="review=True"):
            await Sandbox.create(backend, review=True)
        with pytest.raises(ConfigError, match="not there"):
            await Sandbox.create(backend, review=True, workspace=tmp_path / "missing")
        assert not (tmp_path / "missing").exists()
        async with Sandbox.create(backend, review=True, workspace=project(tmp_path)) as sb:
            assert len(await sb.changes()) == 0
            with pytest.raises(UnsupportedError):
                sb.resolve("README.md")

    async def test_not_asked_for(self, sb: Sandbox) -> None:
        with pytest.raises(UnsupportedError) as caught:
            await sb.changes()
        assert caught.value.capability == "review"
