"""From a branch into a workspace and back: local repositories, every way in which things can stand."""

import asyncio
import os
import stat
import sys
from pathlib import Path

import pytest

from git.conftest import Desk
from git.repos import commit, commit_to, everything, git, head, make, names, needs_git, show
from paddock.consent import offer
from paddock.errors import (
    ConflictError,
    GitError,
    NotAuthorizedError,
    NotFoundError,
    OutsideError,
    TooLargeError,
    UnavailableError,
    UnsupportedError,
)
from paddock.git import Git, GitContext, HostFiles, places
from paddock.types.consent import ApprovalRequest
from paddock.types.git import PushResult, StagedCommit

pytestmark = needs_git

TOPIC = "# Topic\n\none\ntwo\nthree\n"


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    return make(tmp_path / "origin.git", {"analyses/topic.md": TOPIC, "README.md": "read me\n"}, bare=True)


async def test_pull_edit_stage_push(desk: Desk, bare: Path) -> None:
    """T49, as written."""
    result = await desk.git.pull(str(bare), ["analyses/topic.md"])
    assert (result.pulled, result.conflicts, result.missing) == (("analyses/topic.md",), (), ())
    assert desk.read("analyses/topic.md") == TOPIC
    assert not (desk.place / "README.md").exists()

    desk.put("analyses/topic.md", TOPIC.replace("two", "2"))
    preview = await desk.git.stage(["/workspace/analyses/topic.md"], str(bare), "Write two as a number")
    (file,) = preview.files
    assert file.operation == "update"
    assert file.diff == (
        "--- analyses/topic.md\n+++ analyses/topic.md\n@@ -1,5 +1,5 @@\n # Topic\n \n one\n-two\n+2\n three\n"
    )
    assert file.summary == "M analyses/topic.md (+1 -1)"
    before = head(bare)
    assert [commit.id for commit in await desk.git.staged()] == [preview.id]

    desk.put("analyses/topic.md", "edited later, and not part of it\n")
    pushed = await desk.git.push(preview.id)
    assert pushed.commit_sha == head(bare) != before
    assert pushed.url == str(bare)
    assert await desk.git.staged() == []
    assert show(bare, "analyses/topic.md") == TOPIC.replace("two", "2").encode()
    assert show(bare, "README.md") == b"read me\n"
    assert git(bare, "rev-list", "--count", "main") == "2"
    assert (
        git(bare, "log", "-1", "--format=%an <%ae>|%cn|%B")
        == "Paddock <paddock@localhost>|Paddock|Write two as a number"
    )
    git(bare, "fsck", "--strict")
    with pytest.raises(GitError, match="no staged commit"):
        await desk.git.push(preview.id)


async def test_discard_leaves_the_remote_alone(desk: Desk, bare: Path) -> None:
    before = everything(bare)
    desk.put("a.md", "a\n")
    staged = await desk.git.stage(["a.md"], bare, "a")
    await desk.git.discard(staged.id)
    assert await desk.git.staged() == []
    assert everything(bare) == before
    with pytest.raises(GitError):
        await desk.git.discard(staged.id)


async def test_nobody_approves_and_nothing_leaves(desk: Desk, bare: Path) -> None:
    """T50, as written."""
    desk.put("a.md", "a\n")
    staged = await desk.git.stage(["a.md"], bare, "a")
    before = everything(bare)
    for policy in ("deny-all", lambda _: False):
        with pytest.raises(NotAuthorizedError):
            await desk.gate(policy).push(staged.id)
    assert everything(bare) == before
    assert [commit.id for commit in await desk.git.staged()] == [staged.id]
    asked: list[ApprovalRequest] = []

    def agree(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    await desk.gate(agree).push(staged.id)
    assert asked[0].action == "push"
    assert asked[0].subject == f"{bare} main"
    assert asked[0].digest == staged.digest
    assert "A a.md (+1 -0)" in asked[0].summary
    assert show(bare, "a.md") == b"a\n"


async def test_operations_are_against_the_branch(desk: Desk, bare: Path) -> None:
    await desk.git.pull(bare, ["."])
    desk.put("new.txt", "new\n")
    desk.put("README.md", "changed\n")
    (desk.place / "analyses/topic.md").unlink()
    staged = await desk.git.stage(["new.txt", "README.md", "analyses/topic.md"], bare, "three kinds")
    assert [file.summary for file in staged.files] == [
        "M README.md (+1 -1)",
        "D analyses/topic.md (+0 -5)",
        "A new.txt (+1 -0)",
    ]
    await desk.git.push(staged.id)
    assert names(bare) == ["README.md", "new.txt"]


async def test_directories(desk: Desk, bare: Path) -> None:
    await desk.git.pull(bare, ["analyses"])
    desk.put("analyses/deep/er.md", "deep\n")
    desk.put(".git/config", "[core]\n")
    (desk.place / "analyses/topic.md").unlink()
    (desk.place / "analyses/link").symlink_to("/etc/passwd")
    staged = await desk.git.stage(["."], bare, "all")
    assert [file.summary for file in staged.files] == ["A analyses/deep/er.md (+1 -0)", "D analyses/topic.md (+0 -5)"]
    assert staged.skipped == ("analyses/link",)
    await desk.git.push(staged.id)
    assert names(bare) == ["README.md", "analyses/deep/er.md"], "what was never pulled is not deleted"
    (desk.place / "analyses/deep/er.md").unlink()
    (desk.place / "analyses/deep").rmdir()
    staged = await desk.git.stage(["analyses/deep"], bare, "a directory that is gone")
    assert [file.summary for file in staged.files] == ["D analyses/deep/er.md (+0 -1)"]


async def test_a_file_where_a_directory_was(desk: Desk, bare: Path) -> None:
    desk.put("analyses", "now a file\n")
    desk.put("README.md/inner", "now a directory\n")
    staged = await desk.git.stage(["analyses", "README.md/inner"], bare, "swap")
    assert [file.summary.split(" (")[0] for file in staged.files] == [
        "D README.md",
        "A README.md/inner",
        "A analyses",
        "D analyses/topic.md",
    ]
    await desk.git.push(staged.id)
    assert names(bare) == ["README.md/inner", "analyses"]
    git(bare, "fsck", "--strict")


async def test_nothing_to_stage(desk: Desk, bare: Path) -> None:
    await desk.git.pull(bare, ["README.md"])
    with pytest.raises(GitError, match="Nothing to stage"):
        await desk.git.stage(["README.md"], bare, "none")
    desk.put("other.md", "x\n")
    staged = await desk.git.stage(["README.md", "other.md"], bare, "one of two")
    assert staged.unchanged == ("README.md",)
    assert [file.path for file in staged.files] == ["other.md"]
    with pytest.raises(NotFoundError):
        await desk.git.stage(["nowhere.md"], bare, "x")
    with pytest.raises(OutsideError):
        await desk.git.stage(["/etc/passwd"], bare, "x")
    with pytest.raises(OutsideError):
        await desk.git.stage(["../x"], bare, "x")


async def test_modes_and_binary(desk: Desk, bare: Path) -> None:
    desk.put("run.sh", "#!/bin/sh\n", executable=True)
    desk.put("data.bin", bytes(range(256)))
    desk.put("empty", "")
    staged = await desk.git.stage(["run.sh", "data.bin", "empty"], bare, "kinds")
    by_path = {file.path: file for file in staged.files}
    assert by_path["data.bin"].diff is None
    assert by_path["data.bin"].summary == "A data.bin (binary, 256 bytes)"
    assert by_path["run.sh"].executable
    await desk.git.push(staged.id)
    listed = git(bare, "ls-tree", "main", "run.sh", "data.bin", "empty")
    assert [line.split()[0] for line in listed.splitlines()] == ["100644", "100644", "100755"]
    assert show(bare, "data.bin") == bytes(range(256))
    desk.put("run.sh", "#!/bin/sh\n")
    staged = await desk.git.stage(["run.sh"], bare, "mode only")
    assert staged.files[0].summary == "M run.sh (+0 -0) no longer executable"


async def test_large_files_are_refused_whole(desk: Desk, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.git.workspace.MOST_FILE", 1000)
    desk.put("fits", "x" * 1000)
    desk.put("large", "x" * 1001)
    assert (await desk.git.stage(["fits"], bare, "fits")).files[0].size == 1000
    with pytest.raises(TooLargeError, match="1000 bytes"):
        await desk.git.stage(["fits", "large"], bare, "does not")
    monkeypatch.setattr("paddock.git.workspace.MOST_FILES", 1)
    desk.put("second", "2")
    with pytest.raises(TooLargeError):
        await desk.git.stage(["fits", "second"], bare, "too many")
    monkeypatch.setattr("paddock.git.objects.MOST_FILE", 5)
    with pytest.raises(TooLargeError):
        await desk.git.pull(bare, ["README.md"])


async def test_a_moved_branch(desk: Desk, bare: Path) -> None:
    await desk.git.pull(bare, ["analyses/topic.md"])
    desk.put("analyses/topic.md", TOPIC.replace("three", "3"))
    staged = await desk.git.stage(["analyses/topic.md"], bare, "three")
    theirs = commit_to(bare, {"analyses/topic.md": TOPIC.replace("# Topic", "# A topic"), "else.md": "e\n"})
    with pytest.raises(ConflictError, match=theirs):
        await desk.git.push(staged.id)
    assert head(bare) == theirs
    again = await desk.git.restage(staged.id)
    assert again.id != staged.id
    assert again.base == theirs
    assert [commit.id for commit in await desk.git.staged()] == [again.id]
    assert again.files[0].summary == "M analyses/topic.md (+1 -1)"
    await desk.git.push(again.id)
    assert show(bare, "analyses/topic.md") == TOPIC.replace("# Topic", "# A topic").replace("three", "3").encode()
    assert show(bare, "else.md") == b"e\n"


async def test_a_real_overlap(desk: Desk, bare: Path) -> None:
    desk.put("analyses/topic.md", TOPIC.replace("two", "2"))
    desk.put("mine.md", "mine\n")
    staged = await desk.git.stage(["analyses/topic.md", "mine.md"], bare, "two")
    commit_to(bare, {"analyses/topic.md": TOPIC.replace("two", "TWO")})
    with pytest.raises(ConflictError, match=r"analyses/topic\.md") as caught:
        await desk.git.restage(staged.id)
    assert "mine.md" not in str(caught.value)
    assert [commit.id for commit in await desk.git.staged()] == [staged.id], "and nothing changed"


async def test_restage_what_others_have_done(desk: Desk, bare: Path) -> None:
    desk.put("README.md", "better\n")
    staged = await desk.git.stage(["README.md"], bare, "better")
    commit_to(bare, {"README.md": "better\n"})
    with pytest.raises(GitError, match="Nothing to stage"):
        await desk.git.restage(staged.id)


async def test_pull_merges(desk: Desk, bare: Path) -> None:
    await desk.git.pull(bare, ["analyses/topic.md"])
    desk.put("analyses/topic.md", TOPIC.replace("three", "3"))
    commit_to(bare, {"analyses/topic.md": TOPIC.replace("# Topic", "# A topic")})
    result = await desk.git.pull(bare, ["analyses/topic.md"])
    assert (result.pulled, result.merged, result.conflicts) == (("analyses/topic.md",), ("analyses/topic.md",), ())
    assert desk.read("analyses/topic.md") == TOPIC.replace("# Topic", "# A topic").replace("three", "3")

    commit_to(bare, {"analyses/topic.md": TOPIC.replace("# Topic", "# A topic").replace("three", "III")})
    result = await desk.git.pull(bare, ["analyses/topic.md"])
    assert (result.pulled, result.conflicts) == ((), ("analyses/topic.md",))
    assert desk.read("analyses/topic.md") == (
        f"# A topic\n\none\ntwo\n<<<<<<< workspace\n3\n=======\nIII\n>>>>>>> main of {bare}\n"
    )


async def test_pull_over_what_was_never_pulled(desk: Desk, bare: Path) -> None:
    desk.put("README.md", "something else\n")
    result = await desk.git.pull(bare, ["README.md", "analyses/topic.md", "nowhere", "no/where.md"])
    assert result.conflicts == ("README.md",)
    assert result.pulled == ("analyses/topic.md",)
    assert result.missing == ("nowhere", "no/where.md")
    expected = f"<<<<<<< workspace\nsomething else\n=======\nread me\n>>>>>>> main of {bare}\n"
    assert desk.read("README.md") == expected


async def test_pull_over_binary(desk: Desk, bare: Path) -> None:
    commit_to(bare, {"data": b"\0theirs"})
    desk.put("data", b"\0ours")
    result = await desk.git.pull(bare, ["data"])
    assert (result.conflicts, result.untouched) == (("data",), ("data",))
    assert (desk.place / "data").read_bytes() == b"\0ours"


async def test_pull_reads_the_branch(desk: Desk, tmp_path: Path) -> None:
    repo = make(tmp_path / "project", {"a.md": "on main\n"})
    git(repo, "checkout", "--quiet", "-b", "other")
    commit(repo, {"a.md": "on other\n"})
    (repo / "a.md").write_text("in the work tree\n", encoding="utf-8")
    (repo / "b.md").write_text("untracked\n", encoding="utf-8")
    result = await desk.git.pull(repo, ["a.md", "b.md"])
    assert desk.read("a.md") == "on main\n"
    assert result.missing == ("b.md",)
    await desk.git.pull(repo, ["a.md"], "other")
    assert "on other\n" in desk.read("a.md")
    with pytest.raises(GitError, match="no branch"):
        await desk.git.pull(repo, ["a.md"], "third")


async def test_the_executable_bit_comes_along(desk: Desk, tmp_path: Path) -> None:
    repo = make(tmp_path / "project", {"run": "#!/bin/sh\n"})
    git(repo, "update-index", "--chmod=+x", "run")
    git(repo, "commit", "--quiet", "--message", "x")
    await desk.git.pull(repo, ["run"])
    assert stat.S_IMODE((desk.place / "run").stat().st_mode) == 0o755


async def test_who_changed_the_executable_bit(desk: Desk, tmp_path: Path) -> None:
    repo = make(tmp_path / "project", {"a": "a\n", "b": "b\n"})
    await desk.git.pull(repo, ["."])
    (desk.place / "b").chmod(0o755)
    git(repo, "update-index", "--chmod=+x", "a")
    git(repo, "commit", "--quiet", "--message", "x")
    await desk.git.pull(repo, ["."])
    assert [stat.S_IMODE((desk.place / name).stat().st_mode) for name in "ab"] == [0o755, 0o755]


async def test_a_new_branch_without_a_default(desk: Desk, tmp_path: Path) -> None:
    """HEAD names a branch that nobody made, and there are others: from which would it be made?"""
    repo = make(tmp_path / "origin.git", {"a.md": "a\n"}, bare=True)
    git(repo, "symbolic-ref", "HEAD", "refs/heads/master")
    desk.put("a.md", "b\n")
    with pytest.raises(GitError, match="default branch"):
        await desk.git.stage(["a.md"], repo, "x", "new")
    await desk.git.push((await desk.git.stage(["a.md"], repo, "x")).id)


async def test_the_same_commit_pushed_twice_at_once(desk: Desk, bare: Path) -> None:
    desk.put("a.md", "a\n")
    staged = await desk.git.stage(["a.md"], bare, "a")
    results = await asyncio.gather(*(desk.git.push(staged.id) for _ in range(4)), return_exceptions=True)
    done = [result for result in results if isinstance(result, PushResult)]
    assert {result.commit_sha for result in done} == {head(bare)}
    assert all(isinstance(result, GitError | PushResult) for result in results)
    assert git(bare, "rev-list", "--count", "main") == "2"


async def test_approvals_are_for_one_content_and_once(desk: Desk, bare: Path) -> None:
    desk.put("a.md", "a\n")
    staged = await desk.git.stage(["a.md"], bare, "a")
    desk.put("a.md", "something else\n")
    other = await desk.git.stage(["a.md"], bare, "a")
    gate = desk.gate("deny-all")
    approval = offer("push", staged.subject, staged.digest)
    with pytest.raises(NotAuthorizedError, match="something else"):
        await gate.push(other.id, approval=approval)
    with pytest.raises(NotAuthorizedError, match="used already"):
        await gate.push(staged.id, approval=approval)
    await gate.push(staged.id, approval=offer("push", staged.subject, staged.digest).nonce)
    assert show(bare, "a.md") == b"a\n"


async def test_work_in_progress_is_left_alone(desk: Desk, tmp_path: Path) -> None:
    """T22: neither files nor index of a repository that somebody works in are touched."""
    repo = make(tmp_path / "project", {"a.md": "a\n", "b.md": "b\n"})
    (repo / "a.md").write_text("unsaved work\n", encoding="utf-8")
    git(repo, "add", "a.md")
    (repo / "b.md").write_text("more\n", encoding="utf-8")
    files = {name: data for name, data in everything(repo).items() if not name.startswith(".git/")}
    index, status = (repo / ".git/index").read_bytes(), git(repo, "status", "--porcelain")
    desk.put("b.md", "by an agent\n")

    with pytest.raises(GitError, match="checked out"):
        await desk.git.stage(["b.md"], repo, "on main")
    assert len(await desk.git.staged()) == 0

    staged = await desk.git.stage(["b.md"], repo, "beside", branch="paddock/b")
    assert staged.new_branch
    assert staged.base == head(repo)
    assert [file.summary for file in staged.files] == ["M b.md (+1 -1)"]
    result = await desk.git.push(staged.id)
    assert result.created_branch
    assert head(repo, "paddock/b") == result.commit_sha
    assert show(repo, "b.md", "paddock/b") == b"by an agent\n"
    assert show(repo, "a.md", "paddock/b") == b"a\n", "the index of the user is not committed"
    assert git(repo, "log", "-1", "--format=%P", "paddock/b") == head(repo)
    assert "paddock: push" in git(repo, "reflog", "show", "paddock/b")
    assert {name: data for name, data in everything(repo).items() if not name.startswith(".git/")} == files
    assert (repo / ".git/index").read_bytes() == index
    assert git(repo, "status", "--porcelain") == status

    allowed = desk.gate(allow_checked_out=True)
    staged = await allowed.stage(["b.md"], repo, "on main")
    await allowed.push(staged.id)
    assert show(repo, "b.md") == b"by an agent\n"
    assert (repo / ".git/index").read_bytes() == index


async def test_a_linked_worktree(desk: Desk, tmp_path: Path) -> None:
    repo = make(tmp_path / "project", {"a.md": "a\n"})
    git(repo, "worktree", "add", "--quiet", "-b", "side", "../side")
    desk.put("a.md", "changed\n")
    with pytest.raises(GitError, match="checked out"):
        await desk.git.stage(["a.md"], tmp_path / "side", "x", "side")
    with pytest.raises(GitError, match="checked out"):
        await desk.git.stage(["a.md"], repo, "x", "side")
    staged = await desk.git.stage(["a.md"], tmp_path / "side", "x", "third")
    await desk.git.push(staged.id)
    assert show(repo, "a.md", "third") == b"changed\n"


async def test_a_repository_without_commits(desk: Desk, tmp_path: Path) -> None:
    repo = make(tmp_path / "empty.git", bare=True)
    assert await desk.git.branches(repo) == []
    desk.put("first.md", "first\n")
    staged = await desk.git.stage(["first.md"], repo, "first")
    assert (staged.new_branch, staged.base) == (True, None)
    other = await desk.git.stage(["first.md"], repo, "first too")
    await desk.git.push(staged.id)
    assert git(repo, "rev-list", "--count", "main") == "1"
    with pytest.raises(ConflictError):
        await desk.git.push(other.id)


async def test_packed_refs_and_shared_objects(desk: Desk, bare: Path, tmp_path: Path) -> None:
    git(bare, "branch", "old/one", "main")
    git(bare, "gc", "--quiet")
    shared = tmp_path / "shared.git"
    git(tmp_path, "clone", "--quiet", "--bare", "--shared", str(bare), str(shared))
    for repo in (bare, shared):
        found = await desk.git.branches(repo)
        assert [(branch.name, branch.default) for branch in found] == [("main", True), ("old/one", False)]
        desk.put("a.md", "a\n")
        for branch in ("main", "old/one"):
            staged = await desk.git.stage(["a.md"], repo, "a", branch)
            await desk.git.push(staged.id)
            assert show(repo, "a.md", branch) == b"a\n"
        with pytest.raises(GitError, match="cannot be moved"):
            await _pushed_below(desk, repo)


async def _pushed_below(desk: Desk, repo: Path) -> None:
    desk.put("b.md", "b\n")
    await desk.git.push((await desk.git.stage(["b.md"], repo, "a", "main/below")).id)


async def test_status_and_diff(desk: Desk, bare: Path) -> None:
    assert await desk.git.status() == []
    await desk.git.pull(bare, ["."])
    desk.put("README.md", "changed\n")
    (desk.place / "analyses/topic.md").unlink()
    (status,) = await desk.git.status()
    assert (status.repo, status.branch, status.commit, status.moved) == (str(bare), "main", head(bare), False)
    assert [(change.path, change.operation) for change in status.changes] == [
        ("README.md", "update"),
        ("analyses/topic.md", "delete"),
    ]
    files = await desk.git.diff(files=["README.md"], repo=bare)
    assert [file.summary for file in files] == ["M README.md (+1 -1)"]
    staged = await desk.git.stage(["README.md"], bare, "m")
    assert await desk.git.diff(staged.id) == staged.files == files
    commit_to(bare, {"x": "x\n"})
    (status,) = await desk.git.status(bare)
    assert status.moved
    assert status.staged == (staged.id,)
    assert (await desk.git.show(staged.id)) == staged
    assert (await desk.git.staged())[0].files[0].diff is None
    assert StagedCommit.from_dict(staged.to_dict()) == staged
    (other,) = await desk.git.status(bare, "nowhere")
    assert (other.commit, other.changes) == (None, ())


async def test_each_sandbox_sees_its_own(desk: Desk, bare: Path) -> None:
    desk.put("a.md", "a\n")
    staged = await desk.git.stage(["a.md"], bare, "a")
    other = desk.gate(sandbox="sb-other")
    assert await other.staged() == []
    for act in (other.push, other.show, other.discard, other.restage):
        with pytest.raises(GitError, match="no staged commit"):
            await act(staged.id)
    person = Git(context=GitContext(name="A Person"))
    assert [commit.id for commit in await person.staged()] == [staged.id]
    commit_to(bare, {"b.md": "b\n"})
    again = await person.restage(staged.id)
    assert (again.sandbox, again.name) == ("sb-desk", "Paddock"), "it is still whose it was"
    await person.push(again.id)


async def test_a_person_pulls_into_directories(bare: Path, tmp_path: Path) -> None:
    """What was pulled is remembered for each directory."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with HostFiles(tmp_path / name) as files:
            gate = Git(files)
            assert await gate.status() == []
            await gate.pull(bare, ["README.md"])
            (tmp_path / name / "README.md").write_text("changed\n", encoding="ascii")
            (status,) = await Git(files).status()
            assert [change.path for change in status.changes] == ["README.md"]


async def test_identity(desk: Desk, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_GIT_NAME", "Sett Ing")
    desk.put("a.md", "a\n")
    await desk.git.push((await desk.git.stage(["a.md"], bare, "a")).id)
    assert git(bare, "log", "-1", "--format=%an %ae") == "Sett Ing paddock@localhost"
    gate = desk.gate(name="Con Text", email="con@text.example")
    desk.put("a.md", "b\n")
    await gate.push((await gate.stage(["a.md"], bare, "a")).id)
    assert git(bare, "log", "-1", "--format=%cn %ce") == "Con Text con@text.example"
    with pytest.raises(GitError):
        await desk.gate(name="<x>").stage(["a.md"], bare, "a")


async def test_private_on_disk(desk: Desk, bare: Path) -> None:
    desk.put("a.md", "a secret plan\n")
    staged = await desk.git.stage(["a.md"], bare, "a")
    place = Path(os.environ["PADDOCK_STATE"]) / "git"
    assert (place / "staged" / staged.id).is_dir()
    for path in (place, *place.rglob("*")):
        if not path.is_symlink():
            assert path.stat().st_mode & 0o077 == 0 or "repos" in path.parts, path
    (content,) = [p for p in (place / "staged" / staged.id).iterdir() if p.name != "commit.json"]
    content.write_bytes(b"something else\n")
    with pytest.raises(GitError, match="damaged"):
        await desk.git.push(staged.id)


async def test_pull_again(desk: Desk, bare: Path) -> None:
    """Changes here, and none there: they stay. A directory in the way is told."""
    await desk.git.pull(bare, ["README.md"])
    desk.put("README.md", "mine\n")
    result = await desk.git.pull(bare, ["README.md"])
    assert (result.pulled, result.merged, result.conflicts) == (("README.md",), ("README.md",), ())
    assert desk.read("README.md") == "mine\n"
    desk.put("analyses", "a file\n")
    commit_to(bare, {"README.md": "theirs\n"})
    (desk.place / "README.md").unlink()
    desk.put("README.md/inner", "x\n")
    result = await desk.git.pull(bare, ["."])
    assert [skipped.path for skipped in result.skipped] == ["README.md", "analyses/topic.md"]
    assert result.pulled == ()
    (status,) = await desk.git.status()
    assert [change.operation for change in status.changes] == ["delete"]


async def test_overlaps_that_are_not_of_lines(desk: Desk, bare: Path) -> None:
    commit_to(bare, {"gone.md": "a\n", "kept.md": "a\n", "data": b"\0one"})
    await desk.git.pull(bare, ["."])
    (desk.place / "gone.md").unlink()
    desk.put("kept.md", "b\n")
    desk.put("data", b"\0two")
    desk.put("new.md", "mine\n")
    staged = await desk.git.stage(["."], bare, "four kinds")
    assert len(staged.files) == 4
    commit_to(bare, {"gone.md": "changed\n", "kept.md": None, "data": b"\0three", "new.md": "theirs\n"})
    with pytest.raises(ConflictError, match=r"data, gone\.md, kept\.md, new\.md"):
        await desk.git.restage(staged.id)
    commit_to(bare, {"gone.md": "a\n", "kept.md": "a\n", "data": b"\0two", "new.md": None})
    again = await desk.git.restage(staged.id)
    assert again.unchanged == ("data",)
    assert [file.path for file in again.files] == ["gone.md", "kept.md", "new.md"]


async def test_without_the_library(desk: Desk, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygit2", None)
    with pytest.raises(UnavailableError, match=r"pip install 'paddock\[git\]'"):
        await desk.git.branches(bare)
    assert await desk.git.staged() == []


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        HostFiles(tmp_path / "nowhere")


async def test_no_repository(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    for place in (tmp_path / "plain", tmp_path / "nowhere"):
        with pytest.raises(GitError, match="no git repository"):
            await desk.git.branches(place)
    make(tmp_path / "odd.git", {"a": "a\n"}, bare=True)
    (tmp_path / "odd.git/reftable").mkdir()
    with pytest.raises(UnsupportedError, match="reftable"):
        await desk.git.branches(tmp_path / "odd.git")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has repositories of others")
async def test_root_leaves_no_files_in_the_repository_of_another(desk: Desk, bare: Path) -> None:
    desk.put("a.md", "a\n")
    os.chown(bare, 12345, 12345)
    with pytest.raises(GitError, match="belongs to another user"):
        await desk.git.stage(["a.md"], bare, "a")
    assert (await desk.git.pull(bare, ["README.md"])).pulled == ("README.md",)


async def test_full_disk(desk: Desk, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.put("a.md", "a\n")

    really = places.write_private

    def full(path: Path, data: bytes) -> None:
        if "staged" in path.parts:
            raise OSError(28, "No space left on device")
        really(path, data)

    with monkeypatch.context() as patch:
        patch.setattr("paddock.git.staging.places.write_private", full)
        with pytest.raises(UnavailableError, match="No space"):
            await desk.git.stage(["a.md"], bare, "a")
    assert await desk.git.staged() == []
    assert list((Path(os.environ["PADDOCK_STATE"]) / "git/staged").iterdir()) == []
