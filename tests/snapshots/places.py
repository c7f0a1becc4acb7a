"""Directories of every kind to take snapshots of, what is in them, and random changes."""

import builtins
import os
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from paddock.dirs.descriptor import DescriptorDir
from paddock.dirs.memory import MemoryDir
from paddock.dirs.owned import OwnedDir, User
from paddock.dirs.protocol import Change, Chmod, Dir, Node, Reader, Stage, Write
from paddock.paths import decode
from paddock.snapshots.entries import join
from wire.supervised import Supervised

SOMEBODY = 12345
KINDS = ("memory", "local", "owned", "wire") if os.geteuid() == 0 else ("memory", "local", "wire")
NAMES = ("a", "b", "c", "-rf", "a b", "\n\x1b[31m", "\u202etxt", decode(b"\xff\xfe"), "é", "x" * 255, ".hidden", "%s")
MODES = (0o644, 0o755, 0o600, 0o444, 0o400)
DIRECTORY_MODES = (0o755, 0o700, 0o775, 0o555, 0o500)

Picture = dict[str, tuple[str, int, bytes | str]]


@contextmanager
def place(kind: str, path: Path) -> Iterator[Dir]:
    """An empty directory; all kinds but `memory` are at `path`."""
    path.mkdir(parents=True)
    if kind == "memory":
        yield MemoryDir()
    elif kind == "wire":
        with Supervised() as supervised:
            yield supervised.root(str(path))
    else:
        fd = os.open(path, os.O_PATH | os.O_DIRECTORY)
        if kind == "owned":
            os.chown(path, SOMEBODY, SOMEBODY)
        directory = OwnedDir(fd, User(SOMEBODY, SOMEBODY)) if kind == "owned" else DescriptorDir(fd)
        yield directory
        directory.close()


def picture(dir: Dir) -> Picture:
    """All that is in a directory: kinds, modes, contents and targets."""
    found: Picture = {}
    pending = [""]
    while pending:
        here = pending.pop()
        for node in dir.list(here, stats=True):
            path = join(here, node.name)
            if node.kind == "directory":
                found[path] = ("directory", node.mode, b"")
                pending.append(path)
            elif node.kind == "file":
                found[path] = ("file", node.mode, read(dir, path))
            else:
                found[path] = (node.kind, 0, node.target or "")
    return found


def read(dir: Dir, path: str) -> bytes:
    with dir.open(path) as reader:
        return b"".join(iter(lambda: reader.read(1 << 16), b""))


def fill(dir: Dir, files: dict[str, bytes]) -> None:
    """Files with their directories."""
    for path, data in files.items():
        parent = path.rpartition("/")[0]
        if parent:
            fill_directory(dir, parent)
        dir.write(path, data, None)


def fill_directory(dir: Dir, path: str) -> None:
    for end in [i for i, c in enumerate(path) if c == "/"] + [len(path)]:
        with suppress(FileExistsError):
            dir.mkdir(path[:end])


class Changer:
    """Changes of all sorts, at random but the same for a seed. What is refused is not done."""

    def __init__(self, dir: Dir, seed: int) -> None:
        self._dir = dir
        self._random = random.Random(seed)
        self._acts: list[Callable[[], None]] = [self._write] * 6 + [self._mkdir] * 3
        self._acts += [self._link, self._link, self._remove, self._rename, self._rename, self._chmod, self._rewrite]

    def change(self, times: int) -> None:
        for _ in range(times):
            with suppress(OSError):
                self._random.choice(self._acts)()

    def _any(self, kind: str = "") -> str:
        found = [path for path, (is_kind, *_) in picture(self._dir).items() if kind in ("", is_kind)]
        return self._random.choice(sorted(found)) if found else ""

    def _new(self) -> str:
        return join(self._any("directory") if self._random.random() < 0.7 else "", self._random.choice(NAMES))

    def _data(self) -> bytes:
        if self._random.random() < 0.03:
            return self._random.randbytes(3 << 20)
        return self._random.choice((b"", b"one\n", b"two\n", self._random.randbytes(self._random.randrange(40))))

    def _write(self) -> None:
        self._dir.write(self._new(), self._data(), self._random.choice(MODES))

    def _rewrite(self) -> None:
        path = self._any("file")
        if path:
            self._dir.write(path, self._data(), None)

    def _mkdir(self) -> None:
        self._dir.mkdir(self._new(), 0o755)

    def _link(self) -> None:
        self._dir.link(self._new(), self._random.choice(("a", "/etc/passwd", "../../..", "nowhere", "x" * 200)))

    def _remove(self) -> None:
        path = self._any()
        if path:
            self._dir.remove(path, tree=True)

    def _rename(self) -> None:
        path = self._any()
        if path:
            self._dir.rename(path, self._new(), replace=self._random.random() < 0.5)

    def _chmod(self) -> None:
        path = self._any("directory")
        if path and isinstance(self._dir, Chmod):
            self._dir.chmod(path, self._random.choice(DIRECTORY_MODES))


class Watching:
    """A directory that remembers what was asked of it, and can do something of its own before each call."""

    def __init__(self, dir: Dir, before: Callable[[str, str], None] = lambda call, path: None) -> None:
        self._dir = dir
        self.remote = dir.remote
        self.opened: list[str] = []
        self.changed: list[str] = []
        self.before = before

    def stat(self, path: str) -> Node:
        self.before("stat", path)
        return self._dir.stat(path)

    def list(self, path: str, *, stats: bool) -> builtins.list[Node]:
        self.before("list", path)
        return self._dir.list(path, stats=stats)

    def open(self, path: str, offset: int = 0) -> Reader:
        self.before("open", path)
        self.opened.append(path)
        return self._dir.open(path, offset)

    def write(self, path: str, data: bytes | Iterable[bytes], mode: int | None, *, replace: bool = True) -> int:
        self.before("write", path)
        self.changed.append(path)
        return self._dir.write(path, data, mode, replace=replace)

    def stage(self, files: Iterable[Write]) -> Stage:
        files = [*files]
        for file in files:
            self.before("stage", file.path)
        self.changed += [file.path for file in files]
        return self._dir.stage(files)

    def mkdir(self, path: str, mode: int = 0o755) -> None:
        self.before("mkdir", path)
        self.changed.append(path)
        self._dir.mkdir(path, mode)

    def remove(self, path: str, *, tree: bool = False) -> None:
        self.before("remove", path)
        self.changed.append(path)
        self._dir.remove(path, tree=tree)

    def rename(self, path: str, to: str, *, replace: bool) -> None:
        self.before("rename", path)
        self.changed.append(to)
        self._dir.rename(path, to, replace=replace)

    def link(self, path: str, target: str) -> None:
        self.before("link", path)
        self.changed.append(path)
        self._dir.link(path, target)

    def chmod(self, path: str, mode: int) -> None:
        self.before("chmod", path)
        self.changed.append(path)
        assert isinstance(self._dir, Chmod)
        self._dir.chmod(path, mode)

    def watch(self, path: str, notify: Callable[[builtins.list[Change]], None]) -> Callable[[], None]:
        return self._dir.watch(path, notify)

    def close(self) -> None:
        self._dir.close()
