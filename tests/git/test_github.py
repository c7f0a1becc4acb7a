"""GitHub by its API, as its published description has it."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from git import schema
from git.conftest import Desk
from git.github import FakeGitHub, fake_github
from git.repos import commit_to, git, head, make, names, needs_git, show
from git.test_servers import MARKER, _no_marker
from paddock.errors import ConfigError, ConflictError, GitAuthError, GitError, TooLargeError

pytestmark = needs_git

TOPIC = "# Topic\n\none\ntwo\nthree\n"
REPO = "somebody/project"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGitHub]:
    monkeypatch.setenv("GITHUB_TOKEN", MARKER)
    with fake_github(tmp_path / "hub", MARKER) as github:
        monkeypatch.setenv("PADDOCK_GITHUB_API", github.api)
        yield github


@pytest.fixture
def bare(hub: FakeGitHub) -> Path:
    files: dict[str, str | bytes] = {
        "analyses/topic.md": TOPIC,
        "README.md": "read me\n",
        "deep/er/x.bin": bytes(range(256)),
    }
    return make(hub.root / "somebody/project.git", files, bare=True)


async def test_there_and_back(desk: Desk, hub: FakeGitHub, bare: Path) -> None:
    result = await desk.git.pull(REPO, ["analyses/topic.md", "deep", "nowhere"])
    assert result.pulled == ("analyses/topic.md", "deep/er/x.bin")
    assert result.missing == ("nowhere",)
    assert (desk.place / "deep/er/x.bin").read_bytes() == bytes(range(256))
    desk.put("analyses/topic.md", TOPIC.replace("two", "2"))
    desk.put("new dir/üñí.sh", "#!/bin/sh\n", executable=True)
    (desk.place / "deep/er/x.bin").unlink()
    files = ["analyses/topic.md", "new dir", "deep/er/x.bin"]
    staged = await desk.git.stage(files, REPO, "Numbers\n\nand more")
    assert [file.summary.split(" (")[0] for file in staged.files] == [
        "M analyses/topic.md",
        "D deep/er/x.bin",
        "A new dir/üñí.sh",
    ]
    pushed = await desk.git.push(staged.id)
    assert pushed.commit_sha == head(bare)
    assert pushed.url == f"http://127.0.0.1:{hub.port}/{REPO}/commit/{head(bare)}"
    assert git(bare, "log", "-1", "--format=%an|%ae|%cn|%B") == "Paddock|paddock@localhost|Paddock|Numbers\n\nand more"
    assert show(bare, "analyses/topic.md") == TOPIC.replace("two", "2").encode()
    assert sorted(git(bare, "-c", "core.quotepath=off", "ls-tree", "-r", "--name-only", "main").split("\n")) == [
        "README.md",
        "analyses/topic.md",
        "new dir/üñí.sh",
    ]
    assert git(bare, "ls-tree", "main:new dir").startswith("100755")
    git(bare, "fsck", "--strict")
    assert all(headers["X-Github-Api-Version"] == "2022-11-28" for headers in hub.seen)
    assert not any(MARKER in path for _, path in hub.asked)


async def test_moved_and_restaged(desk: Desk, hub: FakeGitHub, bare: Path) -> None:
    desk.put("mine.md", "mine\n")
    staged = await desk.git.stage(["mine.md"], REPO, "mine")
    theirs = commit_to(bare, {"theirs.md": "theirs\n"})
    with pytest.raises(ConflictError, match=theirs):
        await desk.git.push(staged.id)
    await desk.git.push((await desk.git.restage(staged.id)).id)
    assert {"mine.md", "theirs.md"} <= set(names(bare))


@pytest.mark.parametrize("branch", ["main", "new"])
async def test_a_race_at_the_last_moment(desk: Desk, hub: FakeGitHub, bare: Path, branch: str) -> None:
    """Somebody pushes between our last look and the update, which GitHub then refuses."""
    desk.put("mine.md", "mine\n")
    staged = await desk.git.stage(["mine.md"], REPO, "mine", branch)
    theirs: list[str] = []

    def meanwhile() -> None:
        if not theirs:
            if branch == "new":
                git(bare, "branch", "new", "main")
            theirs.append(commit_to(bare, {"theirs.md": "theirs\n"}, branch))

    hub.broken["POST /git/commits"] = meanwhile
    with pytest.raises(ConflictError, match="moved since"):
        await desk.git.push(staged.id)
    assert [head(bare, branch)] == theirs
    assert [commit.id for commit in await desk.git.staged()] == [staged.id]


async def test_new_branches(desk: Desk, hub: FakeGitHub, bare: Path) -> None:
    desk.put("a.md", "a\n")
    staged = await desk.git.stage(["a.md"], REPO, "a", "feature/a")
    assert (staged.new_branch, staged.base) == (True, head(bare))
    assert (await desk.git.push(staged.id)).created_branch
    found = await desk.git.branches(REPO)
    assert [(branch.name, branch.default) for branch in found] == [("feature/a", False), ("main", True)]


async def test_a_file_where_a_directory_was(desk: Desk, hub: FakeGitHub, bare: Path) -> None:
    desk.put("deep", "now a file\n")
    desk.put("README.md/inner", "now a directory\n")
    await desk.git.push((await desk.git.stage(["deep", "README.md"], REPO, "swap")).id)
    assert names(bare) == ["README.md/inner", "analyses/topic.md", "deep"]
    git(bare, "fsck", "--strict")


async def test_an_empty_repository(desk: Desk, hub: FakeGitHub) -> None:
    repo = make(hub.root / "somebody/empty.git", bare=True)
    desk.put("a.md", "a\n")
    staged = await desk.git.stage(["a.md"], "somebody/empty", "a")
    assert staged.base is None
    with pytest.raises(GitError, match="cannot make the first"):
        await desk.git.push(staged.id)
    assert head(repo) == ""


async def test_a_lost_answer(desk: Desk, hub: FakeGitHub, bare: Path) -> None:
    desk.put("a.md", "a\n")
    staged = await desk.git.stage(["a.md"], REPO, "a")
    lost: list[str] = []

    def lose() -> tuple[int, dict[str, str]] | None:
        if lost:
            return None
        lost.append(git(bare, "for-each-ref", "refs/heads/main"))
        newest = git(bare, "cat-file", "--batch-all-objects", "--batch-check").split("\n")
        commits = [line.split()[0] for line in newest if " commit " in line]
        (ours,) = [sha for sha in commits if git(bare, "log", "-1", "--format=%s", sha) == "a"]
        git(bare, "update-ref", "refs/heads/main", ours)
        return 500, {"message": "Server Error"}

    hub.broken["PATCH /git/refs/{ref}"] = lose
    with pytest.raises(GitError, match="500"):
        await desk.git.push(staged.id)
    pushed = await desk.git.push(staged.id)
    assert pushed.commit_sha == head(bare)
    assert git(bare, "rev-list", "--count", "main") == "2"
    assert await desk.git.staged() == []


@pytest.mark.parametrize("status", [404, 409, 422, 500])
@pytest.mark.parametrize("operation", ["GET ", "GET /git/ref/{ref}", "PATCH /git/refs/{ref}", "POST /git/refs"])
async def test_a_loose_error_is_no_new_branch(
    desk: Desk, hub: FakeGitHub, bare: Path, operation: str, status: int
) -> None:
    """T21: whatever goes wrong, the branch is not made anew, and the commit stays staged."""
    desk.put("a.md", "a\n")
    branch = "brand-new" if operation == "POST /git/refs" else "main"
    staged = await desk.git.stage(["a.md"], REPO, "a", branch)
    before = git(bare, "for-each-ref")
    hub.broken[operation] = (status, {"message": "No.", "documentation_url": "", "status": str(status)})
    if operation == "GET " and branch == "main":  # only asked about branches that are not there
        hub.broken["GET /git/ref/{ref}"] = (404, {"message": "Not Found", "documentation_url": ""})
    with pytest.raises((GitError, ConflictError)):
        await desk.git.push(staged.id)
    assert git(bare, "for-each-ref") == before
    hub.broken.clear()
    hub.wrong.clear()
    assert [commit.id for commit in await desk.git.staged()] == [staged.id]
    await desk.git.push(staged.id)


async def test_odd_answers(desk: Desk, hub: FakeGitHub, bare: Path) -> None:
    desk.put("a.md", "a\n")
    for operation in ("GET /git/ref/{ref}", "GET /git/commits/{commit_sha}", "GET /git/trees/{tree_sha}"):
        other = {"ref": "refs/heads/other", "object": {"sha": head(bare)}}
        answers: list[Any] = [{}, [], None, "text", other, {"tree": 7, "truncated": False}]
        for answer in answers:
            hub.broken = {operation: (200, answer)}
            with pytest.raises(GitError):
                await desk.git.stage(["a.md"], REPO, "a")
    hub.broken = {"GET /git/blobs/{file_sha}": (200, {"size": 3, "encoding": "base64", "content": "YWJj"})}
    with pytest.raises(GitError, match="not what the request was about"):
        await desk.git.pull(REPO, ["README.md"])
    hub.broken = {"GET /git/blobs/{file_sha}": (200, {"size": 1 << 30, "encoding": "base64", "content": ""})}
    with pytest.raises(TooLargeError):
        await desk.git.pull(REPO, ["README.md"])
    hub.broken = {"POST /git/blobs": (201, {"sha": "0" * 40, "url": ""})}
    staged = await desk.git.stage(["a.md"], REPO, "a")
    with pytest.raises(GitError):
        await desk.git.push(staged.id)
    hub.wrong.clear()


async def test_large_directories(desk: Desk, hub: FakeGitHub, bare: Path) -> None:
    hub.truncated = True
    result = await desk.git.pull(REPO, ["."])
    assert result.pulled == ("README.md", "analyses/topic.md", "deep/er/x.bin")


async def test_tokens(
    desk: Desk,
    hub: FakeGitHub,
    bare: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """T24: the variable, then gh, else an error that names both; kept nowhere."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr("paddock.git.running.SYSTEM", str(programs))
    monkeypatch.delenv("GITHUB_TOKEN")
    (programs / "gh").write_text("#!/bin/sh\nexit 1\n", encoding="ascii")
    (programs / "gh").chmod(0o755)
    with pytest.raises(GitAuthError, match=r"GITHUB_TOKEN.*gh auth login"):
        await desk.git.pull(REPO, ["README.md"])
    (programs / "gh").write_text(f'#!/bin/sh\ntest "$1 $2" = "auth token" && echo {MARKER}\n', encoding="ascii")
    await desk.git.pull(REPO, ["README.md"])
    (programs / "gh").unlink()
    monkeypatch.setenv("GITHUB_TOKEN", f"{MARKER}x")
    with pytest.raises(GitAuthError) as caught:
        await desk.git.pull(REPO, ["README.md"])
    assert MARKER not in str(caught.value) + repr(caught.value.to_dict())
    monkeypatch.setenv("GITHUB_TOKEN", MARKER)
    hub.broken["GET /git/ref/{ref}"] = (422, {"message": f"your token {MARKER} is nice"})
    with pytest.raises(GitError, match=r"\*\*\*") as scrubbed:
        await desk.git.pull(REPO, ["README.md"])
    assert MARKER not in str(scrubbed.value)
    hub.wrong.clear()
    _no_marker(tmp_path)
    out, err = capfd.readouterr()
    assert MARKER not in out + err


async def test_redirects_lead_nowhere(desk: Desk, hub: FakeGitHub, bare: Path, tmp_path: Path) -> None:
    with fake_github(tmp_path / "elsewhere", MARKER) as other:
        hub.redirect = other.api
        with pytest.raises(GitError, match="not followed"):
            await desk.git.pull(REPO, ["README.md"])
        assert other.asked == []
    hub.redirect = None
    await desk.git.pull(REPO, ["README.md"])


async def test_where_the_api_is(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", MARKER)
    for bad in (
        "http://api.github.com",
        "https://u:p@x.example",
        "ftp://x",
        "https://x.example/?a",
        "http://127.0.0.1.evil.example",
    ):
        monkeypatch.setenv("PADDOCK_GITHUB_API", bad)
        with pytest.raises(ConfigError):
            await desk.git.branches(REPO)
    monkeypatch.setenv("PADDOCK_GITHUB_API", "http://127.0.0.1:1")
    with pytest.raises(GitError, match="did not answer"):
        await desk.git.branches(REPO)


def test_the_description_can_tell() -> None:
    """The check of the fake notices what is wrong."""
    for operation, status, request, answer in (
        ("POST /git/refs", 201, {"ref": "refs/heads/x"}, {}),
        ("POST /git/refs", 201, {"ref": "refs/heads/x", "sha": "s", "sah": 1}, {}),
        ("POST /git/blobs", 201, {"content": "x"}, {"url": "u"}),
        ("POST /git/blobs", 204, {"content": "x"}, {"url": "u", "sha": "s"}),
        ("GET /git/ref/{ref}", 200, None, {"ref": 1}),
    ):
        with pytest.raises(AssertionError):
            schema.check(operation, status, request, answer)
    schema.check("POST /git/blobs", 201, {"content": "x"}, {"url": "u", "sha": "s"})
