"""A directory tree that behaves like cgroup2 where it matters here, for hosts whose own has no controllers."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from paddock.cgroups import files, hierarchies

FILES = {
    "memory": {"memory.max": "max", "memory.swap.max": "max", "memory.events": "low 0\noom 0\noom_kill 0\n"},
    "cpu": {"cpu.max": "max 100000"},
    "pids": {"pids.max": "max", "pids.events": "max 0\n"},
}


class FakeCgroup2:
    """The kernel's side of it. `closed` are directories in which nothing can be made."""

    def __init__(self, top: Path, proc: Path, monkeypatch: pytest.MonkeyPatch, controllers: str) -> None:
        self.top, self.proc = top, proc
        self.closed: set[Path] = set()
        top.mkdir()
        proc.mkdir()
        self._fill(top, controllers)
        (top / "cgroup.kill").unlink()  # the root has none
        (proc / "mountinfo").write_text(f"41 31 0:38 / {top} rw,relatime - cgroup2 cgroup2 rw\n")
        for name in ("make", "remove", "write"):
            monkeypatch.setattr(files, name, getattr(self, name))
        monkeypatch.setattr(hierarchies, "PROC", str(proc))

    def slice(self, path: str, enabled: str = "", pids: str = "") -> Path:
        """A cgroup of somebody else's, with these controllers for those in it, and these processes."""
        directory = self.top / path
        if not directory.exists():
            self._make(directory)
        (directory / "cgroup.subtree_control").write_text(enabled)
        (directory / "cgroup.procs").write_text(pids)
        return directory

    def live_in(self, path: str) -> None:
        self.slice(path, pids="1\n")
        (self.proc / "cgroup").write_text(f"0::/{path}\n")

    def make(self, path: str) -> None:
        if Path(path).parent in self.closed:
            raise PermissionError(errno.EACCES, "closed")
        self._make(Path(path))

    def remove(self, path: str) -> None:
        directory = Path(path)
        if any(entry.is_dir() for entry in directory.iterdir()):
            raise OSError(errno.EBUSY, "there are others in it")
        shutil.rmtree(directory)

    def write(self, path: str, text: str) -> None:
        file = Path(path)
        if not file.exists():
            raise FileNotFoundError(errno.ENOENT, path)
        if file.name == "cgroup.subtree_control":
            self._enable(file, text.removeprefix("+"))
        else:
            file.write_text(text)

    def _enable(self, file: Path, controller: str) -> None:
        directory = file.parent
        if controller not in (directory / "cgroup.controllers").read_text().split():
            raise OSError(errno.ENOENT, "no such controller here")
        if directory != self.top and (directory / "cgroup.procs").read_text():
            raise OSError(errno.EBUSY, "it has processes")
        file.write_text(f"{file.read_text()} {controller}".strip())
        for child in directory.iterdir():
            if child.is_dir():
                self._fill(child, file.read_text())

    def _make(self, directory: Path) -> None:
        os.mkdir(directory)
        self._fill(directory, (directory.parent / "cgroup.subtree_control").read_text())

    def _fill(self, directory: Path, controllers: str) -> None:
        (directory / "cgroup.controllers").write_text(controllers)
        for name in ("cgroup.procs", "cgroup.threads", "cgroup.subtree_control", "cgroup.kill"):
            (directory / name).touch()
        for controller in controllers.split():
            for name, text in FILES[controller].items():
                if not (directory / name).exists():
                    (directory / name).write_text(text)
