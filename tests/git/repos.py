"""Real repositories for tests, made and read by the git program."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

GIT = shutil.which("git")
needs_git = pytest.mark.skipif(GIT is None, reason="git is not installed")
_WHO = {
    "GIT_AUTHOR_NAME": "A Person",
    "GIT_AUTHOR_EMAIL": "person@example.org",
    "GIT_COMMITTER_NAME": "A Person",
    "GIT_COMMITTER_EMAIL": "person@example.org",
}


def environment(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C", **_WHO}


def git(place: Path, *args: str, data: bytes | None = None, check: bool = True) -> str:
    """What the git program says; it is not part of what is tested."""
    return raw(place, *args, data=data, check=check).decode("utf-8", "surrogateescape").strip()


def raw(place: Path, *args: str, data: bytes | None = None, check: bool = True) -> bytes:
    done = subprocess.run(
        [str(GIT), "-c", "protocol.file.allow=always", *args],
        cwd=place,
        env=environment(place),
        input=data,
        capture_output=True,
        check=False,
    )
    assert not check or done.returncode == 0, done.stderr.decode()
    return done.stdout


def make(
    place: Path, files: Mapping[str, str | bytes] | None = None, *, bare: bool = False, branch: str = "main"
) -> Path:
    """A repository with one commit of these files, or without any."""
    work = place.with_name(f"{place.name}.work") if bare else place
    work.mkdir(parents=True)
    git(work, "init", "--quiet", f"--initial-branch={branch}")
    if files:
        commit(work, files)
    if bare:
        git(place.parent, "init", "--quiet", "--bare", f"--initial-branch={branch}", str(place))
        if files:
            git(work, "push", "--quiet", str(place), f"{branch}:{branch}")
    return place


def commit(work: Path, files: Mapping[str, str | bytes | None], message: str = "more") -> str:
    """Change files in a work tree, and commit them."""
    for name, content in files.items():
        path = work / name
        if content is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    git(work, "add", "--all", "--force")
    git(work, "commit", "--quiet", "--message", message)
    return git(work, "rev-parse", "HEAD")


def commit_to(bare: Path, files: Mapping[str, str | bytes | None], branch: str = "main") -> str:
    """One more commit on a branch of a bare repository, by somebody else."""
    work = bare.with_name(f"{bare.name}.else")
    shutil.rmtree(work, ignore_errors=True)
    git(bare.parent, "clone", "--quiet", "--branch", branch, str(bare), str(work))
    sha = commit(work, files)
    git(work, "push", "--quiet", "origin", f"HEAD:{branch}")
    return sha


def head(repo: Path, branch: str = "main") -> str:
    return git(repo, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}", check=False)


def show(repo: Path, path: str, branch: str = "main") -> bytes:
    return raw(repo, "cat-file", "blob", f"refs/heads/{branch}:{path}")


def names(repo: Path, branch: str = "main") -> list[str]:
    return sorted(raw(repo, "ls-tree", "-r", "--name-only", "-z", f"refs/heads/{branch}").decode().split("\0")[:-1])


def everything(place: Path) -> dict[str, tuple[int, bytes]]:
    """All files below a directory, to see that none changed."""
    return {
        str(path.relative_to(place)): (path.lstat().st_mode, b"" if path.is_symlink() else path.read_bytes())
        for path in sorted(place.rglob("*"))
        if path.is_symlink() or path.is_file()
    }
