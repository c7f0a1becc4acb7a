"""The gate over the files of real sandboxes."""

from pathlib import Path

import pytest

from git.repos import make, needs_git, show
from paddock import Sandbox
from paddock.errors import GitError, ReadOnlyError
from paddock.git import Files, Git, GitContext

pytestmark = needs_git


@pytest.mark.parametrize("backend", ["memory", "local"])
async def test_a_sandbox_is_files(tmp_path: Path, backend: str) -> None:
    repo = make(tmp_path / "origin.git", {"analyses/topic.md": "one\ntwo\n", "run.sh": "#!/bin/sh\n"}, bare=True)
    async with Sandbox.create(backend) as sb:
        files: Files = sb
        gate = Git(files, context=GitContext(sandbox=sb.id))
        assert (await gate.pull(repo, ["."])).pulled == ("analyses/topic.md", "run.sh")
        await sb.write("analyses/topic.md", "one\n2\n")
        await sb.write("run.sh", "#!/bin/sh\n", mode=0o755)
        await sb.mkdir("/workspace/.git/hooks")
        await sb.write("/workspace/.git/config", "[core]\n")
        staged = await gate.stage(["/workspace"], repo, "Numbers")
        assert [file.summary for file in staged.files] == [
            "M analyses/topic.md (+1 -1)",
            "M run.sh (+0 -0) executable",
        ]
        await gate.push(staged.id)
        with pytest.raises(GitError):
            await gate.stage(["/workspace/.git/config"], repo, "x")
    assert show(repo, "analyses/topic.md") == b"one\n2\n"


async def test_a_repository_that_commands_can_change_is_not_read(tmp_path: Path) -> None:
    """It is whatever the sandbox makes of it, at every moment."""
    project = make(tmp_path / "project", {"a.md": "a\n"})
    (tmp_path / "cache").mkdir()
    async with Sandbox.create("local", workspace=project, cache=tmp_path / "cache") as sb:
        inner = make(project / "inner", {"b.md": "b\n"})
        for repo in (inner, make(tmp_path / "cache/other.git", {"b.md": "b\n"}, bare=True)):
            with pytest.raises(GitError, match="can write"):
                await sb.git.pull(repo, ["."])
            with pytest.raises(GitError, match="can write"):
                await sb.git.stage(["a.md"], repo, "x", "side")
        await sb.write("a.md", "changed\n")
        staged = await sb.git.stage(["a.md"], project, "x", "side")
        await sb.git.push(staged.id)
    assert show(project, "a.md", "side") == b"changed\n"


async def test_a_workspace_that_cannot_be_written(tmp_path: Path) -> None:
    repo = make(tmp_path / "origin.git", {"a.md": "a\n"}, bare=True)
    async with Sandbox.create("memory") as sb:
        view = sb.restrict("/workspace", read_only=True)
        with pytest.raises(ReadOnlyError):
            await Git(view).pull(repo, ["a.md"])
        await Git(sb).pull(repo, ["a.md"])
        assert await sb.read("a.md") == "a\n"
