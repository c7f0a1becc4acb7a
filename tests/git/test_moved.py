"""Staging what was pulled from a branch on which others have worked since: nothing of theirs is undone."""

from pathlib import Path

import pytest

from git.conftest import Desk
from git.repos import commit_to, git, make, names, needs_git, show
from paddock.errors import ConflictError, GitError
from paddock.git import Git, pushing
from paddock.types.git import StagedCommit

pytestmark = needs_git

LINES = "".join(f"{number}\n" for number in range(1, 25))
MINE = LINES.replace("7\n", "seven\n", 1)
THEIRS = LINES.replace("20\n", "twenty\n")
BOTH = MINE.replace("20\n", "twenty\n")


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    return make(tmp_path / "origin.git", {"f1.txt": "one\n", "f3.txt": LINES, "docs/d2.md": "two\n"}, bare=True)


def summaries(staged: StagedCommit) -> list[str]:
    return [file.summary for file in staged.files]


async def test_what_did_not_change_here_is_left_out(desk: Desk, bare: Path) -> None:
    await desk.git.pull(bare, ["."])
    desk.put("f1.txt", "1\n")
    commit_to(bare, {"f3.txt": THEIRS, "docs/d2.md": None})
    assert [file.path for file in await desk.git.diff(files=["."], repo=bare)] == ["f1.txt"]
    staged = await desk.git.stage([".", "docs/d2.md"], bare, "mine")
    assert summaries(staged) == ["M f1.txt (+1 -1)"]
    assert staged.unchanged == ("docs/d2.md", "f3.txt")
    await desk.git.push(staged.id)
    assert names(bare) == ["f1.txt", "f3.txt"]
    assert show(bare, "f3.txt") == THEIRS.encode()
    with pytest.raises(GitError, match="as it was pulled"):
        await desk.git.stage(["f3.txt", "docs"], bare, "nothing of mine")


async def test_a_directory_of_theirs_where_a_pulled_file_is(desk: Desk, bare: Path) -> None:
    await desk.git.pull(bare, ["."])
    desk.put("f3.txt", MINE)
    commit_to(bare, {"f1.txt": None})
    commit_to(bare, {"f1.txt/inner": "theirs\n"})
    assert summaries(await desk.git.stage(["."], bare, "mine")) == ["M f3.txt (+1 -1)"]


async def test_what_changed_on_both_sides_is_a_conflict(desk: Desk, bare: Path) -> None:
    await desk.git.pull(bare, ["."])
    desk.put("f3.txt", MINE)
    (desk.place / "f1.txt").unlink()
    commit_to(bare, {"f3.txt": THEIRS, "f1.txt": "uno\n"})
    for call in (desk.git.stage(["."], bare, "mine"), desk.git.diff(files=["."], repo=bare)):
        with pytest.raises(ConflictError, match=r"f1\.txt, f3\.txt\.") as caught:
            await call
        assert "Pull these files again" in caught.value.hint
    assert await desk.git.staged() == []
    result = await desk.git.pull(bare, ["."])
    assert (result.conflicts, result.merged, result.kept) == ((), ("f3.txt",), ())
    (desk.place / "f1.txt").unlink()
    staged = await desk.git.stage(["."], bare, "mine")
    assert summaries(staged) == ["D f1.txt (+0 -1)", "M f3.txt (+1 -1)"]
    await desk.git.push(staged.id)
    assert show(bare, "f3.txt") == BOTH.encode()


async def test_the_same_on_both_sides_is_none(desk: Desk, bare: Path) -> None:
    await desk.git.pull(bare, ["."])
    desk.put("f3.txt", MINE)
    (desk.place / "f1.txt").unlink()
    desk.put("new.txt", "new\n")
    commit_to(bare, {"f3.txt": MINE, "f1.txt": None})
    staged = await desk.git.stage([".", "f1.txt"], bare, "mine")
    assert summaries(staged) == ["A new.txt (+1 -0)"]
    assert staged.unchanged == ("docs/d2.md", "f1.txt", "f3.txt")


async def test_what_a_pull_cannot_merge_can_be_staged_after_it(desk: Desk, bare: Path) -> None:
    commit_to(bare, {"data": b"\0one", "link": "a file\n"})
    await desk.git.pull(bare, ["."])
    for name in ("data", "docs/d2.md", "link"):
        desk.put(name, b"\0mine")
    commit_to(bare, {"data": b"\0theirs", "docs/d2.md": None, "link": None})
    work = bare.with_name(f"{bare.name}.else")
    (work / "link").symlink_to("data")
    git(work, "add", "link")
    git(work, "commit", "--quiet", "--message", "a link")
    git(work, "push", "--quiet", "origin", "HEAD:main")
    with pytest.raises(ConflictError, match=r"data, docs/d2\.md, link\."):
        await desk.git.stage(["."], bare, "mine")
    result = await desk.git.pull(bare, ["."])
    assert result.conflicts == result.untouched == ("data", "docs/d2.md", "link")
    assert desk.read("data") == "\0mine"
    staged = await desk.git.stage(["."], bare, "mine all the same")
    assert [(file.operation, file.path) for file in staged.files] == [
        ("update", "data"),
        ("create", "docs/d2.md"),
        ("update", "link"),
    ]
    commit_to(bare, {"data": b"\0others", "docs/d2.md": "back\n"})
    with pytest.raises(ConflictError, match=r"data, docs/d2\.md\."):
        await desk.git.stage(["."], bare, "they went on")


async def test_what_was_pushed_counts_as_pulled(desk: Desk, bare: Path) -> None:
    await desk.git.pull(bare, ["."])
    desk.put("f3.txt", MINE)
    desk.put("new.txt", "new\n")
    (desk.place / "f1.txt").unlink()
    await Git().push((await desk.git.stage(["."], bare, "first")).id)
    (status,) = await desk.git.status()
    assert (status.changes, status.moved) == ((), False)
    commit_to(bare, {"new.txt": "theirs\n", "f1.txt": "back\n"})
    desk.put("f3.txt", MINE.replace("8\n", "eight\n", 1))
    staged = await desk.git.stage(["."], bare, "second")
    assert summaries(staged) == ["M f3.txt (+1 -1)"]
    desk.put("new.txt", "mine\n")
    with pytest.raises(ConflictError, match=r"new\.txt\."):
        await desk.git.stage(["."], bare, "third")


async def test_also_when_the_answer_was_lost(desk: Desk, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await desk.git.pull(bare, ["."])
    desk.put("f3.txt", MINE)
    staged = await desk.git.stage(["."], bare, "first")

    def lost(*_: object) -> None:
        raise GitError("No answer.", operation="push")

    with monkeypatch.context() as patched:
        patched.setattr(pushing, "_result", lost)
        with pytest.raises(GitError, match="No answer"):
            await desk.git.push(staged.id)
    await desk.git.push(staged.id)
    desk.put("f3.txt", MINE.replace("8\n", "eight\n", 1))
    assert summaries(await desk.git.stage(["."], bare, "second")) == ["M f3.txt (+1 -1)"]


async def test_what_restage_merged_is_pulled_before_it_is_staged_again(desk: Desk, bare: Path) -> None:
    await desk.git.pull(bare, ["."])
    desk.put("f3.txt", MINE)
    desk.put("f1.txt", "1\n")
    staged = await desk.git.stage(["."], bare, "mine")
    commit_to(bare, {"f3.txt": THEIRS})
    again = await desk.git.restage(staged.id)
    assert again.merged == ("f3.txt",)
    await desk.git.push(again.id)
    assert show(bare, "f3.txt") == BOTH.encode()
    with pytest.raises(ConflictError, match=r"f3\.txt\."):
        await desk.git.stage(["."], bare, "more")
    assert (await desk.git.pull(bare, ["."])).conflicts == ()
    assert desk.read("f3.txt") == BOTH
    desk.put("f1.txt", "one again\n")
    assert summaries(await desk.git.stage(["."], bare, "more")) == ["M f1.txt (+1 -1)"]


async def test_nothing_named(desk: Desk, bare: Path) -> None:
    with pytest.raises(GitError, match="No file was named"):
        await desk.git.stage([], bare, "nothing")
    assert await desk.git.diff(files=[], repo=bare) == ()
