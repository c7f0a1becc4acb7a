"""The same flow with repositories elsewhere: real servers on loopback."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from git.conftest import Desk
from git.repos import commit_to, git, head, make, names, needs_git, show
from git.servers import NO_SSH, certificate, daemon, http_server, needs_sshd, ssh_server
from paddock.errors import ConflictError, GitAuthError, GitError, UnavailableError
from paddock.git import Git

pytestmark = needs_git

TOPIC = "# Topic\n\none\ntwo\nthree\n"
MARKER = "ghp_MarkerThatNobodyMaySee0123456789"


class Served(NamedTuple):
    bare: Path
    url: str
    gate: Git


EVERY_WAY = pytest.mark.parametrize("served", ["http", "git", "ssh"], indirect=True)


@pytest.fixture(params=["http", "git"])
def served(request: pytest.FixtureRequest, tmp_path: Path, desk: Desk) -> Iterator[Served]:
    root = tmp_path / "served"
    bare = make(root / "origin.git", {"analyses/topic.md": TOPIC, "README.md": "read me\n"}, bare=True)
    with ExitStack() as stack:
        if request.param == "http":
            yield Served(bare, stack.enter_context(http_server(root)).url("origin.git"), desk.git)
        elif request.param == "git":
            yield Served(bare, f"{stack.enter_context(daemon(root))}/origin.git", desk.git)
        else:
            if NO_SSH:
                pytest.skip("there is no ssh server, or this user cannot log in")
            server = stack.enter_context(ssh_server(root, tmp_path / "ssh"))
            gate = desk.gate(ssh_key=str(server.key), ssh_known_hosts=str(server.known_hosts))
            yield Served(bare, server.url("origin.git"), gate)


@EVERY_WAY
async def test_there_and_back(desk: Desk, served: Served) -> None:
    bare, url, gate = served
    result = await gate.pull(url, ["analyses", "nowhere"])
    assert (result.pulled, result.missing) == (("analyses/topic.md",), ("nowhere",))
    desk.put("analyses/topic.md", TOPIC.replace("two", "2"))
    desk.put("data.bin", bytes(range(256)) * 100)
    staged = await gate.stage(["analyses/topic.md", "data.bin"], url, "Write two as a number")
    assert [file.summary for file in staged.files] == [
        "M analyses/topic.md (+1 -1)",
        "A data.bin (binary, 25600 bytes)",
    ]
    pushed = await gate.push(staged.id)
    assert (pushed.commit_sha, pushed.url) == (head(bare), url)
    assert show(bare, "analyses/topic.md") == TOPIC.replace("two", "2").encode()
    assert show(bare, "data.bin") == bytes(range(256)) * 100
    assert git(bare, "rev-list", "--count", "main") == "2"
    git(bare, "fsck", "--strict")

    found = await gate.branches(url)
    assert [(branch.name, branch.commit, branch.default) for branch in found] == [("main", head(bare), True)]


@EVERY_WAY
async def test_moved_and_restaged(desk: Desk, served: Served) -> None:
    bare, url, gate = served
    await gate.pull(url, ["README.md"])
    desk.put("mine.md", "mine\n")
    staged = await gate.stage(["mine.md"], url, "mine")
    theirs = commit_to(bare, {"theirs.md": "theirs\n"})
    with pytest.raises(ConflictError, match=theirs):
        await gate.push(staged.id)
    again = await gate.restage(staged.id)
    await gate.push(again.id)
    assert names(bare) == ["README.md", "analyses/topic.md", "mine.md", "theirs.md"]


async def test_a_new_branch_and_an_empty_repository(desk: Desk, served: Served) -> None:
    bare, url, gate = served
    desk.put("a.md", "a\n")
    staged = await gate.stage(["a.md"], url, "a", "feature/a")
    assert (staged.new_branch, staged.base) == (True, head(bare))
    other = await gate.stage(["a.md"], url, "a too", "feature/a")
    assert (await gate.push(staged.id)).created_branch
    assert git(bare, "log", "-1", "--format=%P", "feature/a") == head(bare)
    with pytest.raises(ConflictError):
        await gate.push(other.id)
    make(bare.parent / "empty.git", bare=True)
    first = await gate.stage(["a.md"], url.replace("origin", "empty"), "first")
    assert first.base is None
    await gate.push(first.id)
    assert names(bare.parent / "empty.git") == ["a.md"]


async def test_a_race_at_the_last_moment(desk: Desk, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody pushes after we have looked: the server is asked to compare, too."""
    bare, url, gate = served
    desk.put("a.md", "a\n")
    staged = await gate.stage(["a.md"], url, "a")
    theirs = commit_to(bare, {"b.md": "b\n"})
    monkeypatch.setattr("paddock.git.pushing.already_there", lambda *_: None)
    with pytest.raises(ConflictError, match=theirs):
        await gate.push(staged.id)
    assert head(bare) == theirs


async def test_a_lost_answer(desk: Desk, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    bare, url, gate = served
    desk.put("a.md", "a\n")
    staged = await gate.stage(["a.md"], url, "a")
    with monkeypatch.context() as patch:
        patch.setattr("paddock.git.staging.remove", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            await gate.push(staged.id)
    there = head(bare)
    assert [commit.id for commit in await gate.staged()] == [staged.id]
    pushed = await desk.gate(
        "deny-all", ssh_key=gate._context.ssh_key, ssh_known_hosts=gate._context.ssh_known_hosts
    ).push(staged.id)
    assert pushed.commit_sha == there == head(bare)
    assert await gate.staged() == []


async def test_our_directory_was_cleared(desk: Desk, served: Served) -> None:
    """What is kept of a repository elsewhere can be had again, also a commit that no branch is at any more."""
    bare, url, gate = served
    desk.put("a.md", "a\n")
    staged = [await gate.stage(["a.md"], url, "a", branch) for branch in ("main", "other")]
    for one in staged:
        shutil.rmtree(Path(os.environ["PADDOCK_STATE"]) / "git/repos")
        await gate.push(one.id)
    assert show(bare, "a.md") == show(bare, "a.md", "other") == b"a\n"
    assert git(bare, "log", "-1", "--format=%P", "other") == git(bare, "log", "-1", "--format=%P", "main")


async def test_a_refusing_server(desk: Desk, served: Served) -> None:
    bare, url, gate = served
    hook = bare / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho 'only on \033[31mfridays' >&2\nexit 1\n", encoding="ascii")
    hook.chmod(0o755)
    desk.put("a.md", "a\n")
    staged = await gate.stage(["a.md"], url, "a")
    with pytest.raises(GitError, match="did not take") as caught:
        await gate.push(staged.id)
    assert "pre-receive hook declined" in str(caught.value)
    assert "\033" not in str(caught.value)
    hook.unlink()
    await gate.push(staged.id)


async def test_nothing_there(desk: Desk, served: Served) -> None:
    _, url, gate = served
    with pytest.raises(GitError) as caught:
        await gate.branches(url.replace("origin", "nowhere"))
    assert caught.value.operation == "read"
    desk.put("a.md", "a\n")
    with pytest.raises(GitError):
        await gate.stage(["a.md"], url.replace("origin", "nowhere"), "never a new branch")
    assert await gate.staged() == []


async def test_a_password_for_one_host(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "served"
    bare = make(root / "origin.git", {"a.md": "a\n"}, bare=True)
    monkeypatch.setenv("GITHUB_TOKEN", MARKER)
    with http_server(root, password=MARKER) as server:
        url = server.url("origin.git")
        with pytest.raises(GitAuthError, match="token_hosts"):
            await desk.git.pull(url, ["a.md"])
        assert all(given is None for _, _, given in server.seen), "a host that nobody named gets no token"
        gate = desk.gate(token_hosts=("127.0.0.1",))
        await gate.pull(url, ["a.md"])
        desk.put("a.md", "b\n")
        await gate.push((await gate.stage(["a.md"], url, "b")).id)
        assert show(bare, "a.md") == b"b\n"
        server.password = "another"
        with pytest.raises(GitAuthError) as caught:
            await gate.pull(url, ["a.md"])
        assert MARKER not in repr(caught.value) + str(caught.value)
    _no_marker(tmp_path)
    out, err = capfd.readouterr()
    assert MARKER not in out + err


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")
async def test_https(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "served"
    bare = make(root / "origin.git", {"a.md": "a\n"}, bare=True)
    monkeypatch.setenv("GITHUB_TOKEN", MARKER)
    gate = desk.gate(token_hosts=("127.0.0.1",))
    with http_server(root, certificate=certificate(tmp_path), password=MARKER) as server:
        with pytest.raises(GitError) as caught:
            await gate.pull(server.url("origin.git"), ["a.md"])
        assert "certificate" in str(caught.value)
        assert not server.seen
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "tls.crt"))
        desk.put("a.md", "b\n")
        await gate.push((await gate.stage(["a.md"], server.url("origin.git"), "b")).id)
        assert show(bare, "a.md") == b"b\n"


def _no_marker(place: Path) -> None:
    for path in place.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert MARKER.encode() not in path.read_bytes(), path


async def test_the_token_is_seen_by_nobody_meanwhile(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While git works with it: in no command line, no environment, no file."""
    root = tmp_path / "served"
    make(root / "origin.git", {"a.md": "a\n"}, bare=True)
    monkeypatch.setenv("GITHUB_TOKEN", MARKER)
    gate = desk.gate(token_hosts=("127.0.0.1",))
    looked = 0
    with http_server(root, password=MARKER, pause_authorized=True) as server:
        server.pause.set()
        task = asyncio.create_task(gate.branches(server.url("origin.git")))
        while not server.held.is_set():  # git asks without it, is refused, and gets it from the pipe
            assert not task.done()
            _look_at_children()
            await asyncio.sleep(0)
        for _ in range(20):  # and now it has sent it, and waits
            looked += _look_at_children()
        server.pause.clear()
        await task
    assert looked > 0
    _no_marker(tmp_path)


def _look_at_children() -> int:
    """How many processes of ours there are, none of which shows the token."""
    looked = 0
    for place in Path("/proc").iterdir():
        if not place.name.isdigit() or int(place.name) == os.getpid():
            continue
        try:
            parents = _ancestors(int(place.name))
            if os.getpid() not in parents:
                continue
            line, variables = (place / "cmdline").read_bytes(), (place / "environ").read_bytes()
        except OSError:
            continue
        if b"http-backend" in line or b"http-backend" in variables or b"GIT_PROJECT_ROOT" in variables:
            continue
        assert MARKER.encode() not in line, line
        if b"git" in line:
            assert MARKER.encode() not in variables, line
            looked += 1
    return looked


@pytest.mark.parametrize("where", ["in its command line", "in its environment"])
def test_the_look_would_notice(where: str) -> None:
    """The control: a process called git that shows the token, from when it runs."""
    seen = where == "in its command line"
    argv = ["git", "-c", f"print(flush=True); import time; time.sleep(60) # {MARKER if seen else ''}"]
    variables = {} if seen else {"TOKEN": MARKER}
    with subprocess.Popen(argv, executable=sys.executable, env=variables, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"\n"
            with pytest.raises(AssertionError, match="sleep"):
                _look_at_children()
        finally:
            child.kill()


def _ancestors(pid: int) -> list[int]:
    found = []
    while pid > 1:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        pid = int(stat.rpartition(")")[2].split()[1])
        found.append(pid)
    return found


async def test_redirects_lead_nowhere(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "served"
    make(root / "origin.git", {"a.md": "a\n"}, bare=True)
    monkeypatch.setenv("GITHUB_TOKEN", MARKER)
    gate = desk.gate(token_hosts=("127.0.0.1",))
    with http_server(root) as real, http_server(root, redirect=f"http://127.0.0.1:{real.port}") as leading:
        with pytest.raises(GitError, match="not followed"):
            await gate.pull(leading.url("origin.git"), ["a.md"])
        assert real.seen == []
        await gate.pull(real.url("origin.git"), ["a.md"])


@needs_sshd
async def test_an_unknown_host_key(desk: Desk, tmp_path: Path) -> None:
    root = tmp_path / "served"
    make(root / "origin.git", {"a.md": "a\n"}, bare=True)
    with ssh_server(root, tmp_path / "ssh") as server:
        (tmp_path / "nobody").write_text("", encoding="ascii")
        gate = desk.gate(ssh_key=str(server.key), ssh_known_hosts=str(tmp_path / "nobody"))
        with pytest.raises(GitError, match="does not know the host's key"):
            await gate.branches(server.url("origin.git"))
        gate = desk.gate(ssh_key=str(tmp_path / "ssh/host"), ssh_known_hosts=str(server.known_hosts))
        with pytest.raises(GitAuthError, match="ssh-agent"):
            await gate.branches(server.url("origin.git"))


async def test_too_slow(desk: Desk, tmp_path: Path) -> None:
    root = tmp_path / "served"
    make(root / "origin.git", {"a.md": "a\n"}, bare=True)
    with http_server(root) as server:
        server.pause.set()
        with pytest.raises(GitError, match="took too long"):
            await desk.gate(timeout=0.5).branches(server.url("origin.git"))
        assert not _git_children()
        task = asyncio.create_task(desk.git.branches(server.url("origin.git")))
        assert await asyncio.to_thread(server.held.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not _git_children(), "who is cancelled leaves no program behind"


def _git_children() -> list[str]:
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                line = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                if os.getpid() in _ancestors(int(place.name)) and re.search(r"\bls-remote\b", line):
                    found.append(line)
            except OSError:
                continue
    return found


async def test_without_git(desk: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("paddock.git.running.SYSTEM", str(tmp_path))
    with pytest.raises(UnavailableError, match="apt-get install git"):
        await desk.git.branches("https://example.org/x.git")


async def test_the_systems_own_git_comes_first(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project's directory may be in the search path, and its agent may write there."""
    if shutil.which("git", path="/usr/local/bin:/usr/bin:/bin") is None:
        pytest.skip("git is elsewhere here")
    (tmp_path / "git").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n", encoding="ascii")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f".:{tmp_path}:{os.environ['PATH']}")
    make(tmp_path / "served/origin.git", {"a.md": "a\n"}, bare=True)
    with http_server(tmp_path / "served") as server:
        await desk.git.pull(server.url("origin.git"), ["a.md"])
    assert not (tmp_path / "ran").exists()


KILLED = """
import asyncio, sys
from paddock.git import Git, GitContext
asyncio.run(Git(context=GitContext(sandbox="sb-desk")).push(sys.argv[1]))
"""


@pytest.mark.parametrize("when", ["before", "during"])
async def test_killed(desk: Desk, tmp_path: Path, when: str) -> None:
    """Kill -9 of the process that pushes: before anything is sent, and while the server works on it."""
    root = tmp_path / "served"
    bare = make(root / "origin.git", {"a.md": "a\n"}, bare=True)
    reached, go_on = tmp_path / "reached", tmp_path / "go-on"
    with http_server(root) as server:
        url = server.url("origin.git")
        desk.put("a.md", "b\n")
        staged = await desk.git.stage(["a.md"], url, "b")
        if when == "before":
            server.pause.set()
            server.held.clear()
        else:
            hook = bare / "hooks/pre-receive"
            hook.write_text(
                f"#!/bin/sh\ntouch {reached}\nwhile [ ! -e {go_on} ]; do sleep 0.05; done\n", encoding="ascii"
            )
            hook.chmod(0o755)
        child = subprocess.Popen([sys.executable, "-c", KILLED, staged.id], env=dict(os.environ))
        deadline = time.monotonic() + 30
        while not (reached.exists() or server.held.is_set()):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)
        child.send_signal(signal.SIGKILL)
        await asyncio.to_thread(child.wait)
        server.pause.clear()
        go_on.touch()
        assert [commit.id for commit in await desk.git.staged()] == [staged.id]
        pushed = await desk.git.push(staged.id)
        assert pushed.commit_sha == head(bare)
        assert show(bare, "a.md") == b"b\n"
        assert git(bare, "rev-list", "--count", "main") == "2"
        assert await desk.git.staged() == []
