"""Layers over host directories, made by the tests themselves: overlays that the kernel mounts, and copies."""

import json
import os
import shutil
import stat
import subprocess
import sys
import textwrap
import time
from ast import literal_eval
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from paddock.audit import EventBus
from paddock.consent import Consent, Policy
from paddock.dirs.remove import remove_tree
from paddock.review import ChangeSet, look
from paddock.types.review import Change, Layer

HOLDER = Path(__file__).with_name("holder.py")
TREES = Path(__file__).with_name("trees.py")
TARGET = "/workspace"


class Mounted:
    """A project on the host, and a sandbox's view of it. `do` runs Python inside, in the project's directory."""

    def __init__(self, top: Path, fill: Callable[[Path], object] | None = None, *, uid: int | None = None) -> None:
        self.lower, self.upper, self.merged = top / "lower", top / "layer" / "upper", top / "layer" / "merged"
        for path in (top, self.lower, top / "layer", self.upper, top / "layer" / "work", self.merged):
            path.mkdir(exist_ok=True)
        if fill is not None:
            fill(self.lower)
        if uid is not None:
            _give(top, uid)
        time.sleep(0.02)  # a file system's clock has steps
        since = time.time_ns()
        time.sleep(0.02)
        self.layer = Layer(TARGET, str(self.lower), str(self.upper), "overlay", since)
        names = (self.lower, self.upper, top / "layer" / "work", self.merged)
        self._process = subprocess.Popen(
            [*_as(uid), _python(), "-I", "-c", HOLDER.read_text(), *map(str, names)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.problem = self._answer()

    @property
    def inside(self) -> str:
        """Where the host can see what the sandbox sees."""
        return f"/proc/{self._process.pid}/root{self.merged}"

    def do(self, code: str) -> None:
        """Run it and wait for its end."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(textwrap.dedent(code)).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._answer()
        assert answer == "done", answer

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        for name in ("lower", "layer"):  # which may be deeper than others can remove
            parent = os.open(self.lower.parent, os.O_RDONLY | os.O_DIRECTORY)
            remove_tree(parent, name.encode())
            os.close(parent)

    def sh(self, script: str) -> None:
        """The same for a shell's words."""
        self.do(f"import subprocess\nsubprocess.run(['sh', '-euc', {script!r}], check=True)")

    def tree(self) -> dict[str, tuple[object, ...]]:
        """What the sandbox sees."""
        self.do(f"{TREES.read_text()}\nopen('../seen', 'w').write(repr(tree('.')))")
        seen: dict[str, tuple[object, ...]] = literal_eval((self.merged.parent / "seen").read_text())
        return seen

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return str(json.loads(line)) if line else "it ended"


def _give(top: Path, uid: int) -> None:
    for path in [top, *top.rglob("*")]:
        os.chown(path, uid, uid, follow_symlinks=False)


def _python() -> str:
    """One that every user can run."""
    return shutil.which("python3", path="/usr/bin:/bin") or sys.executable


def _as(uid: int | None) -> list[str]:
    if uid is not None:
        return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "unshare", "-U", "-r", "-m"]
    return ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-U", "-r", "-m"]


@contextmanager
def mounted(top: Path, fill: Callable[[Path], object] | None = None, *, uid: int | None = None) -> Iterator[Mounted]:
    """One for a block; the test is skipped where nothing can be mounted."""
    import pytest

    made = Mounted(top, fill, uid=uid)
    try:
        if made.problem != "ready":
            pytest.skip(f"an overlay cannot be mounted here: {made.problem}")
        yield made
    finally:
        made.close()


def copied(top: Path, fill: Callable[[Path], object] | None = None) -> Layer:
    """A layer that is a copy, with its list."""
    lower, upper, base = top / "lower", top / "copy", top / "base"
    lower.mkdir(parents=True, exist_ok=True)
    if fill is not None:
        fill(lower)
    subprocess.run(["cp", "-a", str(lower), str(upper)], check=True)
    with base.open("w") as file:
        file.write('{"version": 1}\n')
        for path in sorted(upper.rglob("*")):
            relative = path.relative_to(upper)
            mine, theirs = path.lstat(), (lower / relative).lstat()
            kind = "link" if path.is_symlink() else "directory" if path.is_dir() else "file"
            target = os.readlink(path) if kind == "link" else None
            entry = (
                os.fsdecode(bytes(relative)),
                kind,
                stat.S_IMODE(mine.st_mode) & 0o777,
                mine.st_size,
                theirs.st_ctime_ns,
                mine.st_ino,
                mine.st_ctime_ns,
                target,
            )
            file.write(json.dumps(entry) + "\n")
    time.sleep(0.02)
    return Layer(TARGET, str(lower), str(upper), "copy", time.time_ns(), str(base))


def edit(layer: Layer, script: str) -> None:
    """What somebody does in a copy, as its owner."""
    owner = os.stat(layer.upper).st_uid
    subprocess.run(["sh", "-euc", script], cwd=layer.upper, check=True)
    if owner != os.geteuid():
        find = ["find", ".", "-not", "-user", f"{owner}", "-exec", "chown", "-h", f"{owner}:{owner}", "{}", "+"]
        subprocess.run(find, cwd=layer.upper, check=True)


def consent(policy: Policy = None) -> Consent:
    return Consent(policy, EventBus("sb-test", None))


def changes(*layers: Layer, policy: Policy = None) -> ChangeSet:
    """What `Sandbox.changes()` would give."""
    return ChangeSet(look(layers), consent(policy))


def by_path(found: "ChangeSet | tuple[Change, ...]") -> dict[str, Change]:
    """Changes by their paths below the mount."""
    return {change.path.removeprefix(TARGET + "/"): change for change in found}


def operations(found: "ChangeSet | tuple[Change, ...]") -> dict[str, str]:
    return {path: change.operation for path, change in by_path(found).items()}
