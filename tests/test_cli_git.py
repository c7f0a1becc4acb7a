"""`paddock git`, and the gate of a sandbox: what is staged inside waits for a person, and goes exactly as it was shown."""

import json
import subprocess
from pathlib import Path

import pytest

from paddock import NotAuthorizedError, Sandbox, SandboxError
from paddock.consent import begun_by
from test_cli_review import paddock, talk

pygit2 = pytest.importorskip("pygit2")


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A bare repository with one file on main."""
    path = tmp_path / "origin.git"
    repository = pygit2.init_repository(str(path), bare=True)
    topic = repository.TreeBuilder()
    topic.insert("topic.md", repository.create_blob(b"# Topic\n\nold\n"), 0o100644)
    top = repository.TreeBuilder()
    top.insert("analyses", topic.write(), 0o040000)
    author = pygit2.Signature("A", "a@example.org")
    repository.create_commit("refs/heads/main", author, author, "First", top.write(), [])
    return path


def content(origin: Path, path: str = "analyses/topic.md", branch: str = "main") -> str:
    repository = pygit2.Repository(str(origin))
    commit = repository[repository.references[f"refs/heads/{branch}"].target]
    return str(repository[commit.tree[path].id].data.decode())


async def staged(origin: Path, text: str = "# Topic\n\nnew\n") -> str:
    async with Sandbox.create("memory") as sb:
        await sb.git.pull(origin, ["analyses/topic.md"])
        await sb.write("/workspace/analyses/topic.md", text)
        return (await sb.git.stage(["analyses/topic.md"], origin, "Newer")).id


async def test_pull_edit_stage_look_push(origin: Path) -> None:
    """T49: the preview shows exactly the edit, and pushing it puts exactly that on the branch."""
    async with Sandbox.create("memory") as sb:
        events = sb.events()
        pulled = await sb.git.pull(origin, ["analyses/topic.md"])
        assert pulled.pulled == ("analyses/topic.md",)
        await sb.write("/workspace/analyses/topic.md", "# Topic\n\nnew\n")
        preview = await sb.git.stage(["analyses/topic.md"], origin, "Newer")
        (file,) = preview.files
        assert file.operation == "update"
        assert (file.diff or "").splitlines()[2:] == ["@@ -1,3 +1,3 @@", " # Topic", " ", "-old", "+new"]
        assert content(origin) == "# Topic\n\nold\n"
        await sb.write("/workspace/analyses/topic.md", "edited later\n")
        result = await sb.git.push(preview.id)
        assert content(origin) == "# Topic\n\nnew\n"
        assert result.commit_sha == str(pygit2.Repository(str(origin)).branches["main"].target)
        assert await sb.git.staged() == []
    told = [(event.kind, event.operation) async for event in events if event.kind in ("git", "approval")]
    assert told == [("git", "pull"), ("git", "stage"), ("approval", "push"), ("git", "push")]


async def test_without_a_word_nothing_leaves(origin: Path) -> None:
    """T50, for a policy that says no and for a model."""
    async with Sandbox.create("memory", approve="deny-all") as sb:
        await sb.write("/workspace/x.md", "x\n")
        commit = await sb.git.stage(["x.md"], origin, "X")
        with pytest.raises(NotAuthorizedError):
            await sb.git.push(commit.id)
        assert [one.id for one in await sb.git.staged()] == [commit.id]
    async with Sandbox.create("memory", approve="approve-all") as sb:
        await sb.write("/workspace/x.md", "x\n")
        commit = await sb.git.stage(["x.md"], origin, "X")
        with pytest.raises(NotAuthorizedError), begun_by("model"):
            await sb.git.push(commit.id)
        await sb.git.discard(commit.id)
        assert await sb.git.staged() == []
    assert content(origin) == "# Topic\n\nold\n"


async def test_two_sandboxes_do_not_see_each_others(origin: Path, tmp_path: Path) -> None:
    id = await staged(origin)
    async with Sandbox.create("memory") as other:
        assert await other.git.staged() == []
        with pytest.raises(Exception, match=id):
            await other.git.push(id)
    (tmp_path / "work").mkdir()
    for expected in (0, 1):
        async with Sandbox.create("local", workspace=tmp_path / "work") as sb:
            assert len(await sb.git.staged()) == expected, "those of a directory are found again"
            await sb.write("y.md", "y\n")
            if not expected:
                await sb.git.stage(["y.md"], origin, "Y")


async def test_a_person_looks_and_pushes(origin: Path) -> None:
    id = await staged(origin)
    assert id in paddock("git", "staged").stdout
    refused = paddock("git", "push", id)
    assert (refused.returncode, "NOT_AUTHORIZED" in refused.stderr) == (125, True)
    code, shown = talk(["git", "push", id], ("[y/N]", "n"))
    assert code == 125
    assert "+new" in shown
    assert content(origin) == "# Topic\n\nold\n"
    code, shown = talk(["git", "push", id], ("[y/N]", "y"))
    assert code == 0, shown
    assert content(origin) == "# Topic\n\nnew\n"
    assert paddock("git", "staged", "--json").stdout == ""


async def test_a_script_pushes_what_was_shown(origin: Path) -> None:
    first, second = await staged(origin), await staged(origin, "# Topic\n\nother\n")
    word = paddock("git", "show", first).stdout.split("--approval ")[1].split()[0]
    assert paddock("git", "push", second, "--approval", word).returncode == 125
    word = paddock("git", "show", first).stdout.split("--approval ")[1].split()[0]
    done = paddock("git", "push", first, "--approval", word, "--json")
    assert json.loads(done.stdout)["branch"] == "main"
    word = paddock("git", "show", second).stdout.split("--approval ")[1].split()[0]
    moved = paddock("git", "push", second, "--approval", word)
    assert (moved.returncode, "CONFLICT" in moved.stderr) == (125, True)
    overlapping = paddock("git", "restage", second)
    assert "CONFLICT" in overlapping.stderr
    assert paddock("git", "discard", second).stdout == f"{second}\n"
    assert paddock("git", "show", second).returncode == 125


def test_pull_and_status_in_a_directory(origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert paddock("git", "pull", str(origin), "analyses").stdout == "pulled   analyses/topic.md\n"
    assert Path("analyses/topic.md").read_text() == "# Topic\n\nold\n"
    Path("analyses/topic.md").write_text("changed\n")
    assert "update" in paddock("git", "status").stdout
    assert paddock("git", "pull", str(origin), "analyses").stdout == "kept     analyses/topic.md\n"
    assert Path("analyses/topic.md").read_text() == "changed\n"
    nowhere = paddock("git", "pull", str(origin), ".", "--into", "nowhere")
    assert nowhere.stderr.startswith(
        "NOT_FOUND: The directory 'nowhere' cannot be used: No such file or directory. Make"
    )
    missing = paddock("git", "pull", str(origin), "nothing")
    assert (missing.returncode, missing.stdout) == (125, "missing  nothing\n")
    assert paddock("git", "pull", "--", "--upload-pack=evil", "x").returncode == 125


def test_a_commit_that_there_is_not() -> None:
    for words in (("show", "zz"), ("push", "zz"), ("push", "zz", "--approval", "x")):
        done = paddock("git", *words)
        assert done.returncode == 125
        assert "There is no staged commit 'zz'. `paddock git staged` lists them" in done.stderr


def test_help() -> None:
    for command in ("git", "review", "snapshots"):
        done = subprocess.run([*_program(), command, "--help"], capture_output=True, text=True, check=True, timeout=60)
        assert f"paddock {command}" in done.stdout


def _program() -> list[str]:
    from test_cli_review import PROGRAM

    return PROGRAM


async def test_a_password_in_a_url_is_in_no_event() -> None:
    async with Sandbox.create("memory") as sb:
        events = sb.events()
        with pytest.raises(SandboxError):
            await sb.git.pull("https://me:hunter2@example.org/x.git", ["a"])
    told = [event async for event in events if event.kind == "git"]
    assert [event.operation for event in told] == ["pull"]
    assert "hunter2" not in str(told)
