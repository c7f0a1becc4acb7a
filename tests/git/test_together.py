"""Many at once, killed at any moment, and random trees: what is pushed is what was staged."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from git.conftest import Desk
from git.repos import git, head, make, names, needs_git, raw, show
from paddock.errors import ConflictError
from paddock.git import Git, GitContext, HostFiles
from paddock.git.names import unsafe_path

pytestmark = needs_git

STAGE = """
import asyncio, sys
from paddock.git import Git, GitContext, HostFiles
async def work():
    git = Git(HostFiles(sys.argv[1]), context=GitContext(sandbox="sb-desk"))
    for number in range(int(sys.argv[4])):
        staged = await git.stage([sys.argv[3]], sys.argv[2], f"{sys.argv[3]} {number}", sys.argv[3] + str(number))
        print(staged.id, flush=True)
        await git.push(staged.id)
        print("pushed", flush=True)
asyncio.run(work())
"""


def worker(desk: Desk, repo: Path, name: str, count: int) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-c", STAGE, str(desk.place), str(repo), name, str(count)]
    return subprocess.Popen(argv, env=dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


async def test_processes_at_once(desk: Desk, tmp_path: Path) -> None:
    """Several stage and push to one repository: each its own branches, and none is lost."""
    repo = make(tmp_path / "origin.git", {"a.md": "a\n"}, bare=True)
    for name in "xyz":
        desk.put(name, f"{name}\n")
    children = [worker(desk, repo, name, 4) for name in "xyz"]
    for child in children:
        _, err = await asyncio.to_thread(child.communicate)
        assert child.returncode == 0, err
    assert len(git(repo, "for-each-ref").split("\n")) == 13
    assert await desk.git.staged() == []
    git(repo, "fsck", "--strict")


async def test_one_of_many_wins(desk: Desk, tmp_path: Path) -> None:
    """The same branch at the same moment: one push succeeds, and the others can be put on top of it, one by one."""
    repo = make(tmp_path / "origin.git", {"a.md": "a\n"}, bare=True)
    staged = []
    for number in range(6):
        desk.put(f"{number}.md", "x\n")
        staged.append(await desk.git.stage([f"{number}.md"], repo, str(number)))
    results = await asyncio.gather(*(desk.git.push(one.id) for one in staged), return_exceptions=True)
    assert sum(isinstance(result, ConflictError) for result in results) == 5
    for waiting in await desk.git.staged():
        await desk.git.push((await desk.git.restage(waiting.id)).id)
    assert names(repo) == ["0.md", "1.md", "2.md", "3.md", "4.md", "5.md", "a.md"]
    assert git(repo, "rev-list", "--count", "main") == "7"


@pytest.mark.parametrize("moment", [0.0, 0.02, 0.05, 0.1, 0.2])
async def test_killed_anywhere(desk: Desk, tmp_path: Path, moment: float) -> None:
    """Kill -9 at any time: the repository is whole, and every commit is staged, or pushed, and never half of either."""
    repo = make(tmp_path / "origin.git", {"a.md": "a\n"}, bare=True)
    desk.put("x", "x\n" * 1000)
    child = worker(desk, repo, "x", 200)
    assert child.stdout is not None
    first = await asyncio.to_thread(child.stdout.readline)
    await asyncio.sleep(moment)
    child.send_signal(signal.SIGKILL)
    await asyncio.to_thread(child.communicate)
    git(repo, "fsck", "--strict")
    assert first.strip()
    for lock in (repo / "refs/heads").glob("*.lock"):  # as git itself leaves it, for a person to look at
        lock.unlink()
    for waiting in await desk.git.staged():
        pushed = await desk.git.push(waiting.id)
        assert head(repo, waiting.branch) == pushed.commit_sha
    for branch in (line.split("refs/heads/")[1] for line in git(repo, "for-each-ref").split("\n")):
        if branch != "main":
            assert show(repo, "x", branch) == b"x\n" * 1000
            assert git(repo, "rev-list", "--count", branch) == "2"


async def test_staged_survives(desk: Desk, tmp_path: Path) -> None:
    """Another process, later, without the workspace: all that is needed was kept."""
    repo = make(tmp_path / "origin.git", {"a.md": "a\n"}, bare=True)
    desk.put("a.md", "b\n")
    staged = await desk.git.stage(["a.md"], repo, "b")
    (desk.place / "a.md").unlink()
    code = "import asyncio, sys; from paddock.git import Git; print(asyncio.run(Git().push(sys.argv[1])).commit_sha, end='')"
    argv = [sys.executable, "-c", code, staged.id]
    done = await asyncio.to_thread(subprocess.run, argv, capture_output=True, text=True, check=True)
    assert done.stdout == head(repo)
    assert show(repo, "a.md") == b"b\n"


segment = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=12)
path = st.lists(segment, min_size=1, max_size=3).map("/".join).filter(lambda found: unsafe_path(found) is None)
content = st.one_of(st.binary(max_size=200), st.text(max_size=100).map(lambda text: text.encode("utf-8", "replace")))
tree = st.dictionaries(path, st.tuples(content, st.booleans()), min_size=1, max_size=8).filter(
    lambda found: not any(other.startswith(f"{one}/") for one in found for other in found)
)


@given(tree, tree)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_trees(first: dict[str, tuple[bytes, bool]], second: dict[str, tuple[bytes, bool]]) -> None:
    """Staged and pushed, and then changed into another: exactly those files, bytes and modes are on the branch."""
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(_random(Path(place), first, second))


async def _random(place: Path, first: dict[str, tuple[bytes, bool]], second: dict[str, tuple[bytes, bool]]) -> None:
    repo = make(place / "origin.git", bare=True)
    before: dict[str, tuple[bytes, bool]] = {}
    for number, wanted in enumerate((first, second)):
        work = place / f"work{number}"
        work.mkdir()
        for name, (data, executable) in wanted.items():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).write_bytes(data)
            (work / name).chmod(0o755 if executable else 0o644)
        if wanted == before:
            continue
        with HostFiles(work) as files:
            gate = Git(files, context=GitContext(sandbox="sb-random", workspace=str(work)))
            gone = [name for name in before if not (work / name).exists()]
            staged = await gate.stage([*wanted, *gone], repo, "random")
            await gate.push(staged.id)
        assert _listed(repo) == wanted
        before = wanted
    git(repo, "fsck", "--strict")


def _listed(repo: Path) -> dict[str, tuple[bytes, bool]]:
    found = {}
    for line in raw(repo, "ls-tree", "-r", "-z", "main").split(b"\0")[:-1]:
        about, name = line.split(b"\t", 1)
        mode, _, sha = about.decode().split()
        found[name.decode()] = (raw(repo, "cat-file", "blob", sha), mode == "100755")
    return found
