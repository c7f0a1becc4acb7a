"""Snapshots of a sandbox over a host directory: they hold the difference, and never go through the whole."""

import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.dirs.memory import MemoryDir
from paddock.dirs.protocol import Chmod, Dir
from paddock.errors import ConflictError
from paddock.snapshots import Base, Store, diff, restore, take
from paddock.snapshots.base import Delta
from snapshots.places import KINDS, Changer, Picture, Watching, fill, picture, place, read

EXAMPLES = 300 if os.environ.get("PADDOCK_SOAK") else 40


def changed(lower: Picture, dir: Dir) -> Iterator[tuple[str, object]]:
    """What a look into the upper directory of an overlay would say."""
    now = picture(dir)
    for path, what in now.items():
        if lower.get(path) != what:
            yield path, what[0]
    for path in lower:
        above = path.rpartition("/")[0]
        if path not in now and (not above or (above in now and now[above][0] == "directory")):
            yield path, None


def over(lower: Dir, dir: Dir, path: str = "/host/project") -> Base:
    then = picture(lower)

    def find() -> Delta:
        return list(changed(then, dir))  # type: ignore[arg-type]

    return Base(path, lower, find)


def copied(lower: Dir, dir: Dir) -> None:
    """The sandbox begins with what is on the host."""
    found = picture(lower)
    for path, (kind, mode, what) in sorted(found.items()):
        if kind == "directory":
            dir.mkdir(path)
        elif isinstance(what, bytes):
            dir.write(path, what, mode)
        else:
            dir.link(path, what)
    for path, (kind, mode, _) in sorted(found.items(), reverse=True):
        if kind == "directory" and isinstance(dir, Chmod):
            dir.chmod(path, mode)


@pytest.fixture
def lower() -> MemoryDir:
    lower = MemoryDir()
    fill(lower, {"same": b"same", "a": b"host a\n", "b": b"host b", "d/x": b"host x", "d/y": b"host y", "e/z": b"z"})
    lower.link("link", "a")
    return lower


def test_only_the_difference(lower: MemoryDir, store: Store) -> None:
    dir = MemoryDir()
    copied(lower, dir)
    base = over(lower, dir)
    empty = take(dir, store, "sb", base=base)
    assert (empty.entries, empty.read, empty.base) == (0, 0, "/host/project")
    fill(dir, {"a": b"mine\n", "n/new": b"new"})
    dir.remove("d", tree=True)
    watched = Watching(dir)
    snapshot = take(watched, store, "sb", base=over(lower, dir))
    assert sorted(set(watched.opened)) == ["a", "n/new"]
    assert {path: entry.kind for path, entry in store.entries(snapshot).items()} == {
        "a": "file",
        "d": "deleted",
        "n": "directory",
        "n/new": "file",
    }
    then = picture(dir)
    fill(dir, {"b": b"later", "a": b"later"})
    dir.remove("n", tree=True)
    fill(dir, {"d/x": b"another", "d/q": b"q"})
    dir.remove("e", tree=True)
    dir.remove("link")
    watched = Watching(dir)
    restore(watched, store, snapshot, base=base)
    assert picture(dir) == then
    assert "same" not in watched.opened
    restore(dir, store, empty, base=base)
    assert picture(dir) == picture(lower)


def test_the_difference_of_differences(lower: MemoryDir, store: Store) -> None:
    dir = MemoryDir()
    copied(lower, dir)
    base = over(lower, dir)
    first = take(dir, store, "sb", base=base)
    dir.write("a", b"mine\n", None)
    dir.remove("d", tree=True)
    second = take(dir, store, "sb", base=base)
    changes = diff(store, first, second, base=base)
    assert [(change.path, change.operation) for change in changes] == [
        ("/workspace/a", "update"),
        ("/workspace/d", "delete"),
        ("/workspace/d/x", "delete"),
        ("/workspace/d/y", "delete"),
    ]
    assert changes[0].diff == "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-host a\n+mine\n"
    assert diff(store, first, dir=dir, base=base) == changes
    assert diff(store, second, dir=dir, base=base) == []


def test_another_base(lower: MemoryDir, store: Store) -> None:
    dir, plain = MemoryDir(), MemoryDir()
    copied(lower, dir)
    base = over(lower, dir)
    partial, whole = take(dir, store, "sb", base=base), take(plain, store, "other")
    for wrong in (None, over(lower, plain, "/host/another")):
        with pytest.raises(ConflictError, match="does not lie over that one"):
            restore(plain, store, partial, base=wrong)
    with pytest.raises(ConflictError, match="One snapshot is whole"):
        diff(store, partial, whole, base=base)
    restore(dir, store, partial, base=base)
    fill(plain, {"f": b"x"})
    restore(dir, store, take(plain, store, "other"), base=base)  # a whole one fits everywhere
    assert picture(dir) == {"f": ("file", 0o644, b"x")}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "wire"])
def test_what_was_taken_comes_back(kind: str) -> None:
    @settings(max_examples=EXAMPLES, database=None)
    @given(st.integers(0, 1 << 32), st.integers(0, 30), st.lists(st.integers(0, 15), min_size=1, max_size=3))
    def holds(seed: int, first: int, steps: list[int]) -> None:
        with tempfile.TemporaryDirectory() as scratch, place(kind, Path(scratch, "workspace")) as dir:
            store, lower = Store(Path(scratch, "store")), MemoryDir()
            Changer(lower, seed + 1).change(first)
            copied(lower, dir)
            base, changer = over(lower, dir), Changer(dir, seed)
            taken = []
            for step in steps:
                changer.change(step)
                taken.append((take(dir, store, "sb", base=base), picture(dir)))
            changer.change(5)
            now = picture(dir)
            chosen, then = random.Random(seed).choice(taken)
            changes = diff(store, chosen, dir=dir, base=base)
            assert (changes == []) == (then == now)
            host = picture(lower)
            restore(dir, store, chosen, base=base)
            assert picture(dir) == then
            assert picture(lower) == host
            assert diff(store, chosen, dir=dir, base=base) == []

    holds()


def test_a_directory_of_the_host_that_changed_and_went(lower: MemoryDir, store: Store) -> None:
    dir = MemoryDir()
    copied(lower, dir)
    base = over(lower, dir)
    dir.chmod("d", 0o700)
    snapshot, then = take(dir, store, "sb", base=base), picture(dir)
    dir.remove("d", tree=True)
    restore(dir, store, snapshot, base=base)
    assert picture(dir) == then


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "wire"])
def test_a_closed_directory_of_the_host(lower: MemoryDir, store: Store, tmp_path: Path, kind: str) -> None:
    """It is not different, and something in it is."""
    lower.chmod("d", 0o555)
    with place(kind, tmp_path / "workspace") as dir:
        copied(lower, dir)
        base = over(lower, dir)
        assert isinstance(dir, Chmod)
        taken = []
        for content in (b"one", b"two"):
            dir.chmod("d", 0o755)
            fill(dir, {"d/x": content, f"d/{content.decode()}": b""})
            dir.chmod("d", 0o555)
            taken.append((take(dir, store, "sb", base=base), picture(dir)))
        for snapshot, then in taken:
            restore(dir, store, snapshot, base=base)
            assert picture(dir) == then


def test_large_files_of_the_host(store: Store) -> None:
    lower, dir = MemoryDir(), MemoryDir()
    content = random.Random(3).randbytes(3 << 20)
    fill(lower, {"big": content})
    copied(lower, dir)
    base = over(lower, dir)
    snapshot = take(dir, store, "sb", base=base)
    dir.write("big", b"small", None)
    restore(dir, store, snapshot, base=base)
    assert read(dir, "big") == content
