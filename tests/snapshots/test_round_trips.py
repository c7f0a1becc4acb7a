"""Random trees and random changes: what is restored is what was taken, and a difference is what differs."""

import os
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.dirs.protocol import Chmod, Dir
from paddock.snapshots import Restored, Store, diff, restore, take
from paddock.types.review import Change
from snapshots.places import KINDS, Changer, Picture, Watching, fill, picture, place, read

EXAMPLES = 300 if os.environ.get("PADDOCK_SOAK") else 25
OWNER = 0o700


def _shown(dir: Dir, found: Picture) -> Picture:
    """What comes back: over the wire, directories that their owner can use."""
    if isinstance(dir, Chmod):
        return found
    return {
        path: (kind, mode | OWNER if kind == "directory" else mode, what) for path, (kind, mode, what) in found.items()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_taken_comes_back(kind: str) -> None:
    @settings(max_examples=EXAMPLES, database=None)
    @given(st.integers(0, 1 << 32), st.lists(st.integers(0, 30), min_size=1, max_size=4), st.integers(0, 30))
    def holds(seed: int, steps: list[int], last: int) -> None:
        with tempfile.TemporaryDirectory() as scratch, place(kind, Path(scratch, "workspace")) as dir:
            store, changer = Store(Path(scratch, "store")), Changer(dir, seed)
            taken = []
            for step in steps:
                changer.change(step)
                taken.append((take(dir, store, "sb"), picture(dir)))
            changer.change(last)
            chosen, then = random.Random(seed).choice(taken)
            restore(dir, store, chosen, sandbox="sb")
            assert picture(dir) == _shown(dir, then)
            assert diff(store, chosen, dir=dir, sandbox="sb") == []
            assert restore(dir, store, chosen, sandbox="sb") == Restored(0, 0)
            with place(kind, Path(scratch, "fork")) as fork:
                restore(fork, store, taken[0][0])
                assert picture(fork) == _shown(fork, taken[0][1])

    holds()


@pytest.mark.parametrize("kind", ["memory", "local"])
def test_a_difference_is_what_differs(kind: str) -> None:
    @settings(max_examples=EXAMPLES, database=None)
    @given(st.integers(0, 1 << 32), st.integers(0, 30), st.integers(0, 5))
    def holds(seed: int, first: int, then: int) -> None:
        with tempfile.TemporaryDirectory() as scratch, place(kind, Path(scratch, "workspace")) as dir:
            store, changer = Store(Path(scratch, "store")), Changer(dir, seed)
            changer.change(first)
            a, old = take(dir, store, "sb"), picture(dir)
            changer.change(then)
            b, new = take(dir, store, "sb"), picture(dir)
            changes = diff(store, a, b)
            assert (changes == []) == (old == new)
            assert diff(store, a, dir=dir, sandbox="sb") == changes
            differing = {path for path in old.keys() | new.keys() if old.get(path) != new.get(path)}
            assert {change.path.removeprefix("/workspace/") for change in changes if change.operation != "rename"} | {
                path.removeprefix("/workspace/")
                for change in changes
                if change.operation == "rename"
                for path in (change.path, change.old_path or "")
            } == differing

    holds()


def test_each_sort_of_difference(local: Dir, store: Store) -> None:
    fill(
        local, {"same": b"x", "text": b"one\ntwo\n", "moved": b"content", "gone/f": b"bye\n", "mode": b"", "kind": b"f"}
    )
    local.link("link", "here")
    a = take(local, store, "sb")
    fill(local, {"text": b"one\n2\n", "d/new": b"hello\n", "bin": b"\0"})
    local.rename("moved", "d/moved", replace=False)
    local.remove("gone", tree=True)
    local.remove("link")
    local.link("link", "there")
    local.write("mode", b"", 0o755)
    local.remove("kind")
    local.mkdir("kind")
    changes = {(change.path, change.operation): change for change in diff(store, a, take(local, store, "sb"))}
    assert list(changes) == [
        ("/workspace/bin", "create"),
        ("/workspace/d", "create"),
        ("/workspace/d/moved", "rename"),
        ("/workspace/d/new", "create"),
        ("/workspace/gone", "delete"),
        ("/workspace/gone/f", "delete"),
        ("/workspace/kind", "delete"),
        ("/workspace/kind", "create"),
        ("/workspace/link", "link"),
        ("/workspace/mode", "mode"),
        ("/workspace/text", "update"),
    ]
    text = changes["/workspace/text", "update"]
    assert text.diff == "--- a/text\n+++ b/text\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    assert (text.added, text.removed, text.size) == (1, 1, 6)
    assert changes["/workspace/d/moved", "rename"].old_path == "/workspace/moved"
    assert changes["/workspace/link", "link"].target == "there"
    assert (changes["/workspace/mode", "mode"].old_mode, changes["/workspace/mode", "mode"].mode) == (0o644, 0o755)
    assert changes["/workspace/bin", "create"].diff is None
    assert changes["/workspace/d/new", "create"].diff == "--- /dev/null\n+++ b/d/new\n@@ -0,0 +1 @@\n+hello\n"
    for change in changes.values():
        assert Change.from_dict(change.to_dict()) == change


def test_an_empty_workspace(dir: Dir, store: Store) -> None:
    empty = take(dir, store, "sb")
    assert (empty.files, empty.entries, empty.size) == (0, 0, 0)
    fill(dir, {"a/b": b"x"})
    assert restore(dir, store, empty) == Restored(0, 1)
    assert picture(dir) == {}


def test_only_what_differs_is_written(local: Dir, store: Store) -> None:
    fill(local, {f"d{number % 10}/{number}": str(number).encode() for number in range(100)})
    snapshot = take(local, store, "sb")
    fill(local, {"d3/3": b"changed", "d4/new": b"new"})
    watched = Watching(local)
    assert restore(watched, store, snapshot) == Restored(1, 1)
    assert {path.split("/.paddock")[0] for path in watched.changed} == {"d3", "d3/3", "d4/new"}


def test_forks_are_independent(dir: Dir, store: Store, tmp_path: Path) -> None:
    fill(dir, {"f": b"one", "g": b"same"})
    snapshot = take(dir, store, "sb")
    with place("local", tmp_path / "fork") as fork:
        restore(fork, store, snapshot)
        fork.write("f", b"fork", None)
        dir.write("f", b"first", None)
        assert (read(fork, "f"), read(dir, "f")) == (b"fork", b"first")
        assert (tmp_path / "fork" / "g").stat().st_nlink == 1
        restore(dir, store, snapshot)
        assert (read(fork, "f"), read(dir, "f")) == (b"fork", b"one")


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5 << 20])
def test_sizes(dir: Dir, store: Store, size: int) -> None:
    data = random.Random(size).randbytes(size)
    fill(dir, {"f": data, "g": b"other"})
    snapshot = take(dir, store, "sb")
    assert snapshot.size == size + 5
    dir.write("f", b"short", None)
    restore(dir, store, snapshot, sandbox="sb")
    assert read(dir, "f") == data
    dir.remove("f")
    restore(dir, store, snapshot, sandbox="sb")
    assert read(dir, "f") == data
