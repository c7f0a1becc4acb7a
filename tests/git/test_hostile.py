"""Repositories that were made to run something here, or to read or write elsewhere. With each, what must still work."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from git.conftest import Desk
from git.repos import GIT, environment, everything, git, head, make, names, needs_git, show
from git.servers import http_server
from paddock.consent import begun_by
from paddock.errors import GitError, NotAuthorizedError, SandboxError, TooLargeError
from paddock.git import Git
from paddock.git.names import branch_name, message_text, repository, shown, unsafe_path

pytestmark = needs_git

HOOKS = (
    "pre-commit",
    "post-commit",
    "pre-push",
    "pre-receive",
    "update",
    "post-receive",
    "post-update",
    "reference-transaction",
    "post-checkout",
    "post-merge",
    "fsmonitor-watchman",
    "push-to-checkout",
    "post-index-change",
    "prepare-commit-msg",
    "commit-msg",
)


def trap(place: Path) -> tuple[Path, Path]:
    """A program that leaves a mark when it runs, and the mark."""
    mark, program = place / "ran", place / "trap.sh"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {mark}\ncat\n', encoding="ascii")
    program.chmod(0o755)
    return program, mark


def poison(git_dir: Path, program: Path) -> None:
    """Everything in a git directory that names a program."""
    hooks = git_dir / "hooks"
    hooks.mkdir(parents=True, exist_ok=True)
    for name in HOOKS:
        shutil.copy(program, hooks / name)
    included = git_dir / "included"
    included.write_text(f"[core]\n\tpager = {program}\n[alias]\n\tstatus = !{program}\n", encoding="ascii")
    with (git_dir / "config").open("a", encoding="ascii") as config:
        config.write(
            f"""[core]
\tfsmonitor = {program}
\thooksPath = {hooks}
\tpager = {program}
\teditor = {program}
\tsshCommand = {program}
\tgitProxy = {program}
\taskPass = {program}
\talternateRefsCommand = {program}
[include]
\tpath = {included}
[diff]
\texternal = {program}
[diff "trap"]
\ttextconv = {program}
\tcommand = {program}
[filter "trap"]
\tclean = {program}
\tsmudge = {program}
\tprocess = {program}
\trequired = true
[merge "trap"]
\tdriver = {program}
[credential]
\thelper = {program}
[uploadpack]
\tpackObjectsHook = {program}
[gpg]
\tprogram = {program}
[commit]
\tgpgSign = true
[receive]
\tprocReceiveRefs = refs
[url "ext::{program}"]
\tinsteadOf = http://
"""
        )
    (git_dir / "info").mkdir(exist_ok=True)
    (git_dir / "info/attributes").write_text("* filter=trap diff=trap merge=trap\n", encoding="ascii")


ATTRIBUTES = "* filter=trap diff=trap merge=trap ident text\n"


@pytest.fixture
def trapped(tmp_path: Path) -> tuple[Path, Path]:
    return trap(tmp_path)


def test_the_trap_works(tmp_path: Path, trapped: tuple[Path, Path]) -> None:
    """The control: git itself runs it."""
    program, mark = trapped
    repo = make(tmp_path / "repo", {"a.md": "a\n"})
    poison(repo / ".git", program)
    (repo / "a.md").write_text("b\n", encoding="ascii")
    subprocess.run(
        [str(GIT), "status"], cwd=repo, env=environment(tmp_path), capture_output=True, check=False, timeout=30
    )
    assert mark.exists()


async def _everything(desk: Desk, gate: Git, repo: str | Path, branch: str = "main") -> None:
    """Every call there is."""
    await gate.branches(repo)
    await gate.pull(repo, ["."], branch)
    desk.put("a.md", "changed by an agent $Id$\n")
    await gate.status(repo)
    await gate.diff(files=["a.md"], repo=repo, branch=branch)
    staged = await gate.stage(["a.md", ".gitattributes"], repo, "a", f"{branch}-new")
    await gate.show(staged.id)
    await gate.restage(staged.id)
    (again,) = await gate.staged()
    await gate.push(again.id)
    desk.put("a.md", "changed once more\n")
    other = await gate.stage(["a.md"], repo, "a", branch)
    await gate.discard(other.id)


async def test_a_workspace_with_traps(desk: Desk, tmp_path: Path, trapped: tuple[Path, Path]) -> None:
    """The agent's own `.git` is neither read nor run, whatever is in it."""
    program, mark = trapped
    bare = make(tmp_path / "served/origin.git", {"a.md": "a\n", ".gitattributes": ATTRIBUTES}, bare=True)
    git(desk.place, "init", "--quiet")
    poison(desk.place / ".git", program)
    desk.put("sub/.git", f"gitdir: {tmp_path}\n")
    desk.put(".gitattributes", ATTRIBUTES)
    with http_server(tmp_path / "served") as server:
        await _everything(desk, desk.git, bare)
        await _everything(desk, desk.git, server.url("origin.git"), "main-new")
    assert not mark.exists(), mark.read_text(encoding="utf-8")
    assert show(bare, "a.md", "main-new-new") == b"changed by an agent $Id$\n", "exactly those bytes, and no filter"
    staged = await desk.git.stage(["."], bare, "all")
    assert all(".git/" not in file.path for file in staged.files)
    for path in (".git/config", "/workspace/.git/hooks/pre-commit", ".GIT/config", "sub/.git", "git~1/x"):
        with pytest.raises(GitError, match="git itself"):
            await desk.git.stage([path], bare, "x")
        with pytest.raises(GitError, match="git itself"):
            await desk.git.pull(bare, [path])


@pytest.mark.parametrize("bare", [True, False])
async def test_a_target_with_traps(desk: Desk, tmp_path: Path, trapped: tuple[Path, Path], bare: bool) -> None:
    program, mark = trapped
    repo = make(tmp_path / "target", {"a.md": "a\n", ".gitattributes": ATTRIBUTES}, bare=bare)
    poison(repo if bare else repo / ".git", program)
    await _everything(desk, desk.gate(allow_checked_out=True), repo)
    assert not mark.exists(), mark.read_text(encoding="utf-8")
    config = (repo if bare else repo / ".git") / "config"
    config.write_text("[core]\n\tbare = false\n", encoding="ascii")
    assert show(repo, "a.md", "main-new") == b"changed by an agent $Id$\n"


async def test_a_target_whose_configuration_leads_elsewhere(desk: Desk, tmp_path: Path) -> None:
    """It is not even opened: a pipe that nobody writes to would hold us for ever."""
    repo = make(tmp_path / "target", {"a.md": "a\n"}, bare=True)
    os.mkfifo(tmp_path / "pipe")
    with (repo / "config").open("a", encoding="ascii") as config:
        config.write(f"[include]\n\tpath = {tmp_path}/pipe\n[core]\n\tworktree = /\n")
    assert (await desk.git.pull(repo, ["a.md"])).pulled == ("a.md",)
    (repo / "config").unlink()
    os.mkfifo(repo / "config")
    assert (await desk.git.pull(repo, ["a.md"])).pulled == ("a.md",)


@pytest.mark.parametrize("where", ["refs/heads/main", "packed-refs", "objects/info/alternates", "object"])
async def test_a_target_with_pipes(desk: Desk, tmp_path: Path, where: str) -> None:
    repo = make(tmp_path / "target", {"a.md": "a\n"}, bare=True)
    assert (await desk.git.pull(repo, ["a.md"])).pulled == ("a.md",)
    sha = head(repo)
    path = repo / (f"objects/{sha[:2]}/{sha[2:]}" if where == "object" else where)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with pytest.raises(GitError, match="pipe"):
        await desk.git.pull(repo, ["a.md"])


async def test_the_users_own_settings_are_not_used(
    desk: Desk, tmp_path: Path, trapped: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """insteadOf, helpers, proxies, and whatever GIT_ variables there are: a fetch goes where it was told to."""
    program, mark = trapped
    make(tmp_path / "one/origin.git", {"a.md": "right\n"}, bare=True)
    make(tmp_path / "two/origin.git", {"a.md": "wrong\n"}, bare=True)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    with http_server(tmp_path / "one") as one, http_server(tmp_path / "two") as two:
        config = f'[url "http://127.0.0.1:{two.port}"]\n\tinsteadOf = http://127.0.0.1:{one.port}\n'
        config += f"[core]\n\tsshCommand = {program}\n\thooksPath = {tmp_path}\n[credential]\n\thelper = {program}\n"
        (home / ".gitconfig").write_text(config, encoding="ascii")
        assert _led(home, one.url("origin.git"))
        assert [len(server.seen) > 0 for server in (one, two)] == [False, True], "the control: git itself is led astray"
        two.seen.clear()
        for name in (
            "GIT_SSH_COMMAND",
            "GIT_EXTERNAL_DIFF",
            "GIT_PROXY_COMMAND",
            "GIT_ASKPASS",
            "GIT_EDITOR",
            "GIT_PAGER",
        ):
            monkeypatch.setenv(name, str(program))
        monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
        monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.http://127.0.0.1:{two.port}.insteadOf")
        monkeypatch.setenv("GIT_CONFIG_VALUE_0", f"http://127.0.0.1:{one.port}")
        monkeypatch.setenv("GIT_DIR", str(tmp_path / "two/origin.git"))
        monkeypatch.setenv("GIT_EXEC_PATH", str(tmp_path))
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{two.port}")
        await desk.git.pull(one.url("origin.git"), ["a.md"])
        assert desk.read("a.md") == "right\n"
        assert two.seen == []
    assert not mark.exists()


def _led(home: Path, url: str) -> bytes:
    variables = {"HOME": str(home), "PATH": os.environ["PATH"]}
    return subprocess.run([str(GIT), "ls-remote", url], env=variables, capture_output=True, check=True).stdout


REFUSED_REPOS = [
    "",
    "-",
    "--upload-pack=touch /tmp/x",
    "-oProxyCommand=x",
    "ext::sh -c touch% /tmp/x",
    "ext::sh://x",
    "file:///etc",
    "file://host/etc",
    "fd::3/x",
    "http://example.org/x.git",
    "git://example.org/x.git",
    "ftp://example.org/x.git",
    "https://user:pass@example.org/x.git",
    "https://token@example.org/x.git",
    "ssh://user:pass@example.org/x.git",
    "https://user:pa ss-pass@example.org/x.git",
    "https://us@er:pass@example.org/x.git",
    "user:pass@example.org:x.git",
    "ext::https://user:pass@example.org",
    "ssh://-oProxyCommand=x/x.git",
    "ssh://-oProxyCommand=x@host/x.git",
    "-oProxyCommand=x:path",
    "git@-oProxyCommand=x:path",
    "host:-path",
    "ssh://host/-path",
    "https://exa mple.org/x",
    "https://example.org/x?y=1",
    "https://example.org/x#y",
    "https://example.org",
    "https://example.org/a/../b",
    "https://0x7f.1/x",
    "https://2130706433/x",
    "http://127.1/x.git",
    "http://127.0.0.1.evil.example/x.git",
    "http://localhost.evil.example/x.git",
    "https://exämple.org/x",
    "owner/name.git",
    "owner/-name",
    "-owner/name",
    "owner/..",
    "owner/name/more",
    "owner/na me",
    "own\ner/name",
    "word",
    "https://example.org/\x1b[31m",
]

TAKEN_REPOS = [
    "https://example.org/x.git",
    "https://example.org:8443/group/sub/x.git",
    "ssh://git@example.org:2222/x.git",
    "git@github.com:owner/name.git",
    "host.example:path/x.git",
    "http://127.0.0.1:8080/x.git",
    "http://localhost/x.git",
    "git://127.0.0.1/x.git",
    "https://[2001:db8::1]/x.git",
    "owner/name",
    "o-wner/n.a-m_e",
    "/srv/git/x.git",
    "./x",
    ".",
]


@pytest.mark.parametrize("repo", REFUSED_REPOS)
def test_repositories_that_are_refused(repo: str) -> None:
    with pytest.raises(GitError) as caught:
        repository(repo)
    assert "pass" not in str(caught.value)
    assert "token" not in str(caught.value).replace("GITHUB_TOKEN", "")
    assert str(caught.value).isprintable()


def test_what_is_shown_of_them() -> None:
    assert shown("https://user:pass@example.org/x.git") == "…@example.org/x.git"
    assert shown("owner/name") == "owner/name"
    assert shown(Path("/srv/x\x1b")) == "/srv/x\\x1b"


@pytest.mark.parametrize("repo", TAKEN_REPOS)
def test_repositories_that_are_taken(repo: str) -> None:
    assert repository(repo)


@pytest.mark.parametrize(
    "branch",
    [
        "",
        "-",
        "-x",
        "--all",
        "a..b",
        "a b",
        "a~1",
        "a^",
        "a:b",
        "a?",
        "a*",
        "a[",
        "a\\b",
        "/a",
        "a/",
        "a//b",
        ".a",
        "a/.b",
        "a.lock",
        "a.lock/b",
        "a.",
        "@",
        "a@{b",
        "HEAD",
        "refs/heads/x",
        "a\nb",
        "a\x7f",
        "a\u202eb",
        "\udcff",
        "x" * 300,
    ],
)
def test_branches_that_are_refused(branch: str) -> None:
    with pytest.raises(GitError):
        branch_name(branch)


@pytest.mark.parametrize("branch", ["main", "fix/typo", "a-b", "release/1.2", "ümlaut", "a@b", "v1.0-rc", "x" * 200])
def test_branches_that_are_taken(branch: str, tmp_path: Path) -> None:
    assert branch_name(branch) == branch
    make(tmp_path / "r")
    git(tmp_path / "r", "check-ref-format", "--branch", branch)


@pytest.mark.parametrize(
    "path",
    [
        ".git",
        ".GIT/x",
        "a/.Git/hooks",
        "git~1/x",
        "GIT~1",
        ".git./x",
        ".git /x",
        ".g\u200cit/config",
        ".git::$INDEX/x",
        "a\\.git\\x",
        "..",
        "a/../b",
        "./a",
        "a//b",
        "/a",
        "",
        "a\nb",
        "a\x1b[31m",
        "a\0b",
        "\udcff",
        "x" * 256,
        ".\ufeffgit",
    ],
)
def test_paths_that_are_refused(path: str) -> None:
    assert unsafe_path(path)


@pytest.mark.parametrize(
    "path",
    [".gitignore", ".github/workflows/x.yml", "git", "a.git", "-rf", "a b", "ü/ñ", "git~10", "...", "x.git/y", "日本"],
)
def test_paths_that_are_taken(path: str) -> None:
    assert unsafe_path(path) is None


def test_messages() -> None:
    assert message_text("  one\r\n\r\ntwo\ttabs \n") == "one\n\ntwo\ttabs"
    for bad in ("", " \n", "a\0b", "\x1b]0;x", "a\u202eb", "\udcff", "x" * (64 << 10) + "x"):
        with pytest.raises(GitError):
            message_text(bad)


async def test_a_path_that_looks_like_an_option(desk: Desk, tmp_path: Path) -> None:
    repo = make(tmp_path / "origin.git", {"a.md": "a\n"}, bare=True)
    desk.put("-rf", "x\n")
    desk.put("--upload-pack=x", "x\n")
    await desk.git.push((await desk.git.stage(["-rf", "--upload-pack=x"], repo, "--amend")).id)
    assert names(repo) == ["--upload-pack=x", "-rf", "a.md"]


def plant(repo: Path, entries: Mapping[bytes, tuple[str, bytes]], branch: str = "main") -> str:
    """A commit whose tree has names that git itself would never write."""
    lines = b""
    for name, (mode, content) in sorted(entries.items()):
        kind = "tree" if mode == "40000" else "blob"
        if mode == "160000":
            sha = content.decode()
        elif kind == "tree":
            blob = git(repo, "hash-object", "-w", "--stdin", data=content)
            inner = b"100644 config\0" + bytes.fromhex(blob)
            sha = git(repo, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", data=inner)
        else:
            sha = git(repo, "hash-object", "-w", "--stdin", data=content)
        lines += mode.encode() + b" " + name + b"\0" + bytes.fromhex(sha)
    tree = git(repo, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", data=lines)
    sha = git(repo, "commit-tree", "-m", "planted", tree)
    git(repo, "update-ref", f"refs/heads/{branch}", sha)
    return sha


EVIL: dict[bytes, tuple[str, bytes]] = {
    b"..": ("100644", b"out"),
    b".GIT": ("40000", b"evil"),
    b".git": ("40000", b"[core]\n\tfsmonitor = touch ran\n"),
    b"a\x1b[31m": ("100644", b"x"),
    b"bad\xff": ("100644", b"x"),
    b"fine.md": ("100644", b"fine\n"),
    b"git~1": ("40000", b"evil"),
    b"link": ("120000", b"/etc/passwd"),
    b"sub": ("160000", b"1" * 40),
    b"up/../../x": ("100644", b"out"),
}


async def test_hostile_trees(desk: Desk, tmp_path: Path) -> None:
    repo = make(tmp_path / "served/origin.git", {"a.md": "a\n"}, bare=True)
    plant(repo, EVIL)
    before = everything(tmp_path / "served")
    result = await desk.git.pull(repo, ["."])
    assert result.pulled == ("fine.md",)
    assert desk.read("fine.md") == "fine\n"
    assert [path.name for path in desk.place.iterdir()] == ["fine.md"]
    reasons = {skipped.path: skipped.reason for skipped in result.skipped}
    assert reasons["link"] == "it is a symbolic link"
    assert reasons["sub"] == "it is a submodule"
    assert reasons[".git/config"] == reasons[".GIT/config"] == reasons["git~1/config"] == "git itself would use it"
    assert len(reasons) == 9
    assert all(path.isprintable() for path in reasons)
    assert everything(tmp_path / "served") == before
    for name in ("link", "sub"):
        assert [skipped.path for skipped in (await desk.git.pull(repo, [name])).skipped] == [name]
    with http_server(tmp_path / "served") as server, pytest.raises(GitError):
        await desk.git.pull(server.url("origin.git"), ["fine.md"])  # git's own check of what it is sent


async def test_a_tree_that_holds_itself_many_times(desk: Desk, tmp_path: Path) -> None:
    """Twelve small objects that stand for 10^12 directories."""
    repo = make(tmp_path / "origin.git", {"a.md": "a\n"}, bare=True)
    tree = git(repo, "hash-object", "-t", "tree", "-w", "--stdin", data=b"")
    for _ in range(12):
        lines = b"".join(b"40000 %d\0%b" % (number, bytes.fromhex(tree)) for number in range(10))
        tree = git(repo, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", data=lines)
    git(repo, "update-ref", "refs/heads/main", git(repo, "commit-tree", "-m", "bomb", tree))
    with pytest.raises(TooLargeError):
        await desk.git.pull(repo, ["."])
    assert (await desk.git.pull(repo, ["a.md"])).missing == ("a.md",)


async def test_hostile_submodules(desk: Desk, tmp_path: Path, trapped: tuple[Path, Path]) -> None:
    program, mark = trapped
    repo = make(tmp_path / "served/origin.git", {"a.md": "a\n"}, bare=True)
    evil = f'[submodule "x"]\n\tpath = sub\n\turl = -u{program}\n\tupdate = !{program}\n'.encode()
    nice = b'[submodule "x"]\n\tpath = sub\n\turl = https://example.org/x.git\n'
    link = ("160000", b"1" * 40)
    with http_server(tmp_path / "served") as server:
        plant(repo, {b".gitmodules": ("100644", evil), b"a.md": ("100644", b"a\n"), b"sub": link})
        with pytest.raises(GitError):
            await desk.git.pull(server.url("origin.git"), ["."])
        result = await desk.git.pull(repo, ["a.md", "sub"])
        assert (result.pulled, result.skipped[0].reason) == (("a.md",), "it is a submodule")
        plant(repo, {b".gitmodules": ("100644", nice), b"a.md": ("100644", b"a\n"), b"sub": link})
        result = await desk.git.pull(server.url("origin.git"), ["."])
        assert result.pulled == (".gitmodules", "a.md")
    assert not mark.exists()
    desk.put("a.md", "b\n")
    await desk.git.push((await desk.git.stage(["a.md"], repo, "b")).id)
    assert git(repo, "ls-tree", "main", "sub").startswith("160000"), "what is not ours stays as it is"


async def test_a_branch_that_is_another_name(desk: Desk, tmp_path: Path) -> None:
    repo = make(tmp_path / "origin", {"a.md": "a\n"})
    git(repo, "symbolic-ref", "refs/heads/innocent", "refs/heads/main")
    desk.put("a.md", "b\n")
    with pytest.raises(GitError, match="another name"):
        await desk.git.stage(["a.md"], repo, "x", "innocent")
    (repo / ".git/refs/heads/leading").symlink_to("/etc/passwd")
    with pytest.raises(SandboxError) as caught:
        await desk.git.pull(repo, ["a.md"], "leading")
    assert "root:" not in str(caught.value)


@pytest.mark.parametrize("how", ["gitdir", "commondir", "dot-git", "links", "packs", "alternates", "ref", "log"])
async def test_a_repository_that_leads_to_another(desk: Desk, tmp_path: Path, how: str) -> None:
    """What somebody unpacked somewhere is not a way to read, or to write to, a repository that nobody named."""
    private = make(tmp_path / "private", {"a.md": "secret\n"})
    evil = make(tmp_path / "evil", {"a.md": "a\n"})
    inner, theirs = evil / ".git", private / ".git"
    git(private, "gc", "--quiet")
    (theirs / "refs/heads/main").write_text(git(private, "rev-parse", "main") + "\n", encoding="ascii")
    before = everything(private)
    if how in ("gitdir", "dot-git"):
        shutil.rmtree(inner)
        inner.write_text(f"gitdir: {theirs}\n", encoding="utf-8") if how == "gitdir" else inner.symlink_to(theirs)
    elif how == "commondir":
        (inner / "commondir").write_text(f"{theirs}\n", encoding="utf-8")
    elif how == "links":
        for name in ("objects", "refs"):
            shutil.rmtree(inner / name)
            (inner / name).symlink_to(theirs / name)
    elif how == "log":
        (inner / "logs/refs/heads").mkdir(parents=True, exist_ok=True)
        (inner / "logs/refs/heads/new").symlink_to(theirs / "description")
    else:
        (inner / "refs/heads/main").unlink()
        (inner / "refs/heads/main").symlink_to(theirs / "refs/heads/main")
        if how == "packs":
            shutil.rmtree(inner / "objects/pack")
            (inner / "objects/pack").symlink_to(theirs / "objects/pack")
        elif how == "alternates":
            (inner / "objects/info/alternates").write_text(f"{theirs}/objects\n", encoding="utf-8")
    desk.put("a.md", "b\n")

    async def use() -> None:
        if how == "log":
            await desk.git.push((await desk.git.stage(["a.md"], evil, "x", "new")).id)
        await desk.git.pull(evil, ["a.md"])

    with pytest.raises(GitError, match="another place"):
        await use()
    assert desk.read("a.md") == "b\n"
    assert everything(private) == before


async def test_a_submodule_is_a_repository(desk: Desk, tmp_path: Path) -> None:
    part = make(tmp_path / "part", {"p.md": "p\n"})
    whole = make(tmp_path / "whole", {"a.md": "a\n"})
    git(whole, "submodule", "--quiet", "add", str(part), "parts/one")
    result = await desk.git.pull(whole / "parts/one", ["p.md"])
    assert result.pulled == ("p.md",)


async def test_a_workspace_full_of_links(desk: Desk, tmp_path: Path) -> None:
    repo = make(tmp_path / "origin.git", {"a.md": "theirs\n", "d/b.md": "theirs\n"}, bare=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.md").write_text("outside\n", encoding="ascii")
    (desk.place / "a.md").symlink_to(outside / "b.md")
    (desk.place / "d").symlink_to(outside)
    for path in ("a.md", "d/b.md"):
        with pytest.raises(SandboxError):
            await desk.git.pull(repo, [path])
        with pytest.raises(SandboxError):
            await desk.git.stage([path], repo, "x")
    assert (outside / "b.md").read_text(encoding="ascii") == "outside\n"
    (desk.place / "a.md").unlink()
    await desk.git.pull(repo, ["a.md"])
    assert desk.read("a.md") == "theirs\n"


async def test_what_a_model_may_begin(desk: Desk, tmp_path: Path) -> None:
    """It reaches the repositories that the host named, or that somebody agrees to; and it never pushes."""
    repo = make(tmp_path / "origin.git", {"a.md": "a\n"}, bare=True)
    other = make(tmp_path / "private.git", {"secret.md": "s\n"}, bare=True)
    gate = desk.gate(repos=(str(repo),))
    with begun_by("model"):
        await gate.pull(str(repo), ["a.md"])
        desk.put("a.md", "b\n")
        staged = await gate.stage(["a.md"], str(repo), "b")
        for call in (
            gate.pull(str(other), ["."]),
            gate.branches(str(other)),
            gate.stage(["a.md"], str(other), "x"),
            gate.diff(files=["a.md"], repo=str(other)),
            gate.status(str(other)),
            gate.branches("http://127.0.0.1:1/x.git"),
        ):
            with pytest.raises(NotAuthorizedError):
                await call
        with pytest.raises(NotAuthorizedError):
            await desk.gate("approve-all", repos=(str(repo),)).push(staged.id)
        await desk.gate(lambda request: request.action == "git").pull(str(other), ["."])
    assert head(repo) == git(repo, "rev-parse", "main")
    assert show(repo, "a.md") == b"a\n"
    await gate.push(staged.id)


async def test_file_urls_only_when_allowed(desk: Desk, tmp_path: Path, trapped: tuple[Path, Path]) -> None:
    program, mark = trapped
    repo = make(tmp_path / "origin.git", {"a.md": "a\n"}, bare=True)
    poison(repo, program)
    with pytest.raises(GitError, match="allow_file"):
        await desk.git.pull(f"file://{repo}", ["a.md"])
    gate = desk.gate(allow_file=True)
    await gate.pull(f"file://{repo}", ["a.md"])
    desk.put("a.md", "b\n")
    await gate.push((await gate.stage(["a.md"], f"file://{repo}", "b")).id)
    assert not mark.exists()


async def test_nothing_acts_on_a_terminal(desk: Desk, tmp_path: Path) -> None:
    repo = make(tmp_path / "origin.git", {"a.md": "a\n"}, bare=True)
    desk.put("n\u202eame.md", "x\n")
    staged = await desk.git.stage(["."], repo, "message")
    assert staged.summary.replace("\n", "").isprintable()


async def test_all_of_a_message_is_seen(desk: Desk, tmp_path: Path) -> None:
    """It is pushed with the rest, so whoever agrees has to have read it; and no line of it looks like a file's."""
    repo = make(tmp_path / "origin.git", {"a.md": "a\n"}, bare=True)
    desk.put("a.md", "b\n")
    staged = await desk.git.stage(["a.md"], repo, "Harmless\n\nAKIA-secret\nD everything")
    lines = staged.summary.split("\n")
    assert lines[0].endswith(": Harmless")
    assert lines[1:] == ["  ", "  AKIA-secret", "  D everything", "M a.md (+1 -1)"]


async def test_no_workspace(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="no workspace"):
        await Git().pull(tmp_path, ["."])
