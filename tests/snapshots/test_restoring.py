"""A restore that fails: before the first change nothing is different, and afterwards doing it again ends it."""

import errno
import os
import stat
import subprocess
import time
from pathlib import Path

import pytest

from paddock.dirs.memory import MemoryDir, Quota
from paddock.dirs.protocol import Dir
from paddock.errors import ConflictError
from paddock.snapshots import Restored, Store, restore, take
from paddock.types.snapshots import Snapshot
from snapshots.places import Picture, Watching, fill, picture, place, read

OLD = {"same": b"same", "a": b"old a", "b": b"old b", "gone/x": b"old x", "kind/inner": b"1", "big": b"o" * (2 << 20)}
NEW = {"a": b"new a", "b": b"new b", "more": b"more", "fresh/y": b"y", "big": b"n" * (2 << 20)}


def _changed(dir: Dir, store: Store) -> tuple[Picture, Picture]:
    """A directory with everything there is to do about it; what it is, and what it should become."""
    fill(dir, OLD)
    dir.link("link", "old")
    take(dir, store, "sb", "old")
    then = picture(dir)
    fill(dir, NEW)
    dir.remove("gone", tree=True)
    dir.remove("kind", tree=True)
    dir.write("kind", b"a file now", None)
    dir.remove("link")
    dir.link("link", "new")
    return picture(dir), then


class Failing(Watching):
    """Fails at the n-th call that changes something."""

    def __init__(self, dir: Dir, at: int, code: int) -> None:
        super().__init__(dir, self._count)
        self.left, self._code = at, code

    def _count(self, call: str, path: str) -> None:
        if call in ("write", "stage", "mkdir", "rename", "link", "chmod") or (call == "remove" and self.left > 0):
            self.left -= 1
            if self.left == 0:
                raise OSError(self._code, os.strerror(self._code))


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EACCES])
def test_a_failure_at_any_call(store: Store, code: int) -> None:
    at, kept, half = 0, 0, 0
    while True:
        at += 1
        dir = MemoryDir()
        now, then = _changed(dir, store)
        old = store.find("old", "sb")
        failing = Failing(dir, at, code)
        error = _failure(failing, store, old)
        if isinstance(error, ConflictError):
            half += 1
            assert "only partly" in error.message
            assert (error.path or "").startswith("/workspace/")
        elif error is not None:
            kept += 1
            assert picture(dir) == now
            assert str(error.filename).startswith("/workspace/")
        elif failing.left > 0:
            break
        else:
            assert code == errno.ENOSPC
        restore(dir, store, old)
        assert picture(dir) == then
        store.remove(old.id)
    assert kept > 2 or code == errno.ENOSPC  # which ends well when what is not wanted is removed first
    assert half > 2


def _failure(dir: Dir, store: Store, snapshot: Snapshot) -> ConflictError | OSError | None:
    try:
        restore(dir, store, snapshot)
    except (ConflictError, OSError) as error:
        return error
    return None


def test_a_full_disk_in_the_sandbox(store: Store) -> None:
    dir = MemoryDir(Quota(disk=1000))
    fill(dir, {"a": b"x" * 400})
    snapshot = take(dir, store, "sb")
    fill(dir, {"a": b"y" * 400})
    filler = {"junk": b"z" * 600}
    fill(dir, filler)
    restore(dir, store, snapshot)
    assert picture(dir) == {"a": ("file", 0o644, b"x" * 400)}


def test_a_full_disk_that_stays_full(store: Store) -> None:
    dir = MemoryDir(Quota(disk=1000))
    fill(dir, {"a": b"x" * 600})
    snapshot = take(dir, store, "sb")
    fill(dir, {"a": b"y" * 600})
    now = picture(dir)
    with pytest.raises(OSError, match="No space left") as failure:
        restore(dir, store, snapshot)
    assert failure.value.filename == "/workspace/a"
    assert picture(dir) == now


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_full_disk_for_real(store: Store, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], check=True)
    try:
        with place("local", disk / "workspace") as dir:
            fill(dir, {f"{number}": os.urandom(60_000) for number in range(6)})
            snapshot, then = take(dir, store, "sb"), picture(dir)
            fill(dir, {f"{number}": os.urandom(60_000) for number in range(6)})
            fill(dir, {"junk": os.urandom(500_000)})
            restore(dir, store, snapshot)
            assert picture(dir) == then
            fill(dir, {"0": os.urandom(600_000)})
            larger = take(dir, store, "sb")
            restore(dir, store, snapshot)
            for number in range(1, 6):
                dir.write(f"{number}", os.urandom(150_000), None)
            now = picture(dir)
            with pytest.raises(OSError, match="No space left"):
                restore(dir, store, larger)
            assert picture(dir) == now
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.mark.parametrize("kind", ["owned" if os.geteuid() == 0 else "local", "wire"])
def test_directories_that_are_closed(store: Store, workspace: Path, kind: str) -> None:
    """Read-only ones are opened for the moment, and closed again; ones that cannot be looked into are replaced."""
    with place(kind, workspace) as dir:
        fill(dir, {"ro/f": b"old", "ro/sub/g": b"old", "shut/h": b"old", "open/i": b"old"})
        for name in ("ro/sub", "ro"):
            (workspace / name).chmod(0o555)
        snapshot = take(dir, store, "sb")
        for name in ("ro", "ro/sub"):
            (workspace / name).chmod(0o755)
        fill(dir, {"ro/f": b"new", "ro/sub/g": b"new!", "ro/sub/extra": b"x", "shut/h": b"new"})
        for name, mode in {"ro/sub": 0o555, "ro": 0o555, "shut": 0o000}.items():
            (workspace / name).chmod(mode)
        restore(dir, store, snapshot)
        assert {path: what for path, (found, _, what) in picture(dir).items() if found == "file"} == {
            "ro/f": b"old",
            "ro/sub/g": b"old",
            "shut/h": b"old",
            "open/i": b"old",
        }
        modes = {name: stat.S_IMODE((workspace / name).stat().st_mode) for name in ("ro", "ro/sub", "shut", "open")}
        expected = 0o755 if kind == "wire" else 0o555
        assert modes == {"ro": expected, "ro/sub": expected, "shut": 0o755, "open": 0o755}
        assert restore(dir, store, snapshot) == Restored(0, 0)


def test_modes_over_the_wire(store: Store, workspace: Path) -> None:
    with place("wire", workspace) as dir:
        fill(dir, {"d/e/f": b"x", "d/g": b"y"})
        snapshot, then = take(dir, store, "sb"), picture(dir)
        (workspace / "d").chmod(0o700)
        (workspace / "d/e").chmod(0o770)
        assert restore(dir, store, snapshot) == Restored(2, 0)
        assert picture(dir) == then


def test_what_is_left_out_is_left_alone(local: Dir, store: Store) -> None:
    fill(local, {".git/HEAD": b"one", "f": b"one"})
    snapshot = take(local, store, "sb", left_out=[".git"])
    assert list(store.entries(snapshot)) == ["f"]
    whole = take(local, store, "sb")
    fill(local, {".git/HEAD": b"two", "f": b"two"})
    for one in (snapshot, whole):
        restore(local, store, one, left_out=[".git"])
        assert (read(local, ".git/HEAD"), read(local, "f")) == (b"two", b"one")
    restore(local, store, snapshot)
    assert picture(local) == {"f": ("file", 0o644, b"one")}


def test_known_contents_are_not_read_again(local: Dir, store: Store) -> None:
    fill(local, {f"{number}": str(number).encode() for number in range(50)})
    time.sleep(0.03)
    snapshot = take(local, store, "sb")
    local.write("7", b"x", None)
    watched = Watching(local)
    restore(watched, store, snapshot, sandbox="sb")
    assert watched.opened in ([], ["7"])
    assert read(local, "7") == b"7"
