"""Names, removal, retention, space, and what a crash, a full disk or a spoilt byte does."""

import os
import random
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from paddock.config import setting
from paddock.dirs.memory import MemoryDir
from paddock.dirs.protocol import Dir
from paddock.errors import ConfigError, ExistsError, NotFoundError, SandboxError, UnavailableError
from paddock.snapshots import Restored, Store, diff, restore, take
from paddock.snapshots.bounds import Unbounded
from paddock.types.snapshots import Snapshot, SnapshotSpace
from snapshots.places import Watching, fill, picture, place, read

KILLS = 100 if os.environ.get("PADDOCK_SOAK") else 10


@pytest.fixture
def dir() -> MemoryDir:
    return MemoryDir()


# Names


def test_finding(dir: Dir, store: Store) -> None:
    first, second = take(dir, store, "sb", "first"), take(dir, store, "sb")
    other = take(dir, store, "other", "first")
    assert store.snapshots() == [first, second, other]
    assert store.snapshots("sb") == [first, second]
    assert [first.parent, second.parent, other.parent] == [None, first.id, None]
    assert store.find("first", "sb") == store.find(first.id) == store.find(first.id, "other") == first
    assert store.find("first", "other") == other
    for wrong in ("nothing", "sn-000000000000", "", "../x", "first\n"):
        with pytest.raises(NotFoundError):
            store.find(wrong, "sb")
    with pytest.raises(NotFoundError):
        store.find("first")  # whose?


def test_a_name_is_given_once(dir: Dir, store: Store) -> None:
    first = take(dir, store, "sb", "name")
    with pytest.raises(ExistsError, match=first.id):
        take(dir, store, "sb", "name")
    assert len(store.snapshots()) == 1
    store.remove(first.id)
    take(dir, store, "sb", "name")


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b", "x" * 65, "sn-0123456789ab", "é", "a\n", 5])
def test_what_is_no_name(dir: Dir, store: Store, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be the name"):
        take(dir, store, "sb", name)
    assert store.snapshots() == []


@pytest.mark.parametrize("name", ["a", "x" * 64, "A-b_9", "-rf", "sn-1"])
def test_what_is_a_name(dir: Dir, store: Store, name: str) -> None:
    assert store.find(name, "sb") if take(dir, store, "sb", name) else None


def test_a_name_that_somebody_takes_meanwhile(dir: Dir, store: Store) -> None:
    fill(dir, {"a": b"1"})
    turns = iter([True])

    def meanwhile(call: str, path: str) -> None:
        if next(turns, False):
            take(dir, store, "sb", "name")

    with pytest.raises(ExistsError):
        take(Watching(dir, meanwhile), store, "sb", "name")
    assert len(store.snapshots()) == 1
    assert len(list((_root() / "entries").iterdir())) == 1


def test_records(dir: Dir, store: Store) -> None:
    fill(dir, {"a": b"12", "d/b": b"345"})
    snapshot = take(dir, store, "sb", "name")
    assert (snapshot.files, snapshot.entries, snapshot.size, snapshot.read, snapshot.written) == (2, 3, 5, 2, 5)
    assert Snapshot.from_dict(snapshot.to_dict()) == snapshot
    assert Store().find("name", "sb") == snapshot
    assert SnapshotSpace.from_dict(store.space().to_dict()) == store.space()


def test_nobody_else_can_look(dir: Dir, store: Store) -> None:
    fill(dir, {"a": b"12"})
    take(dir, store, "sb")
    assert stat.S_IMODE(_root().stat().st_mode) == 0o700
    for path in _root().rglob("*"):
        assert path.stat().st_mode & 0o077 == 0


def test_sandboxes_of_any_name(dir: Dir, store: Store) -> None:
    for sandbox in ("../../x", "a/b", "é", "x" * 300):
        fill(dir, {"a": b"12"})
        assert take(dir, store, sandbox).read == 1
        assert take(dir, store, sandbox).read == 0
    assert all(path.parent.name == "stamps" for path in (_root() / "stamps").rglob("*"))


# Removal, retention, space


def test_contents_are_kept_once(dir: Dir, store: Store) -> None:
    fill(dir, {"a": b"x" * 1000, "b": b"x" * 1000})
    assert take(dir, store, "sb").written == 1000
    fill(dir, {"c": b"y" * 10})
    assert take(dir, store, "sb").written == 10
    assert take(dir, store, "another").written == 0


def test_removal_frees_what_nobody_else_uses(dir: Dir, store: Store) -> None:
    fill(dir, {"a": b"x" * 1000, "b": b"y" * 100})
    first = take(dir, store, "sb")
    fill(dir, {"a": b"z" * 10})
    second = take(dir, store, "sb")
    space = store.space()
    assert [(share.id, share.own, share.shared) for share in space.snapshots] == [
        (first.id, 1000, 100),
        (second.id, 10, 100),
    ]
    assert space.unused == 0
    assert space.total > 1110
    store.remove(first.id)
    after = store.space()
    assert [(share.id, share.own, share.shared) for share in after.snapshots] == [(second.id, 110, 0)]
    assert space.total - after.total > 1000
    with pytest.raises(NotFoundError):
        restore(dir, store, first)
    for wrong in (first.id, "", "../lock", "sn-x"):
        with pytest.raises(NotFoundError):
            store.remove(wrong)
    restore(dir, store, second)


def test_retention_by_age(dir: Dir, store: Store) -> None:
    named, plain = take(dir, store, "sb", "name"), take(dir, store, "sb")
    month = setting("snapshot_retention").value
    assert store.expire(now=plain.created + month - 1) == []
    assert store.expire(now=plain.created + month + 1) == [plain]
    assert store.snapshots() == [named]


def test_retention_by_number(dir: Dir, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_SNAPSHOTS_KEPT", "3")
    named = take(dir, store, "sb", "name")
    other = take(dir, store, "other")
    taken = [take(dir, store, "sb") for _ in range(5)]
    assert store.snapshots() == [named, other, *taken[-3:]]
    monkeypatch.setenv("PADDOCK_SNAPSHOTS_KEPT", "none")
    monkeypatch.setenv("PADDOCK_SNAPSHOT_RETENTION", "none")
    more = [take(dir, store, "sb") for _ in range(5)]
    assert store.expire(now=1e12) == []
    assert store.snapshots("sb") == [named, *taken[-3:], *more]


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5"])
def test_bad_settings(dir: Dir, store: Store, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_SNAPSHOTS_KEPT", value)
    with pytest.raises(ConfigError, match="PADDOCK_SNAPSHOTS_KEPT"):
        take(dir, store, "sb")
    assert store.snapshots() == []


def test_a_snapshot_is_there_though_others_cannot_be_removed(
    dir: Dir, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise PermissionError(13, "no")

    monkeypatch.setattr(store, "expire", fail)
    assert store.find(take(dir, store, "sb").id)


def test_nothing_is_collected_while_somebody_works(dir: Dir, store: Store) -> None:
    """A content that no list names yet survives; if nothing comes of its snapshot, it is collected later."""
    fill(dir, {"a": b"content of a", "b": b"content of b"})
    seen = []

    def collect(call: str, path: str) -> None:
        if call == "stat":
            seen.append(Store().collect())

    snapshot = take(Watching(dir, collect), store, "sb")
    assert seen == [0, 0]
    assert store.space().unused == 0
    dir.remove("a")
    restore(dir, store, snapshot)
    assert read(dir, "a") == b"content of a"

    def fail(call: str, path: str) -> None:
        if call == "open" and path == "z":
            raise OSError(5, "no")

    fill(dir, {"c": b"content of c", "z": b"z"})
    with pytest.raises(OSError, match="no"):
        take(Watching(dir, fail), store, "sb")
    assert store.space().unused == len(b"content of c")
    assert store.collect() == len(b"content of c")


def test_what_was_put_off_is_collected_later(dir: Dir, store: Store) -> None:
    fill(dir, {"a": b"x" * 1000})
    first = take(dir, store, "sb")
    dir.write("a", b"y", None)
    with store.reading(Unbounded()):
        Store().remove(first.id)
        assert store.space().unused == 1000
    take(dir, store, "sb")
    assert store.space().unused == 0


def test_those_who_never_rest_do_not_keep_it_from_being_done(dir: Dir, store: Store) -> None:
    """One user after the other, and never a moment without: who collects holds the next ones back."""
    fill(dir, {"a": b"x" * 1000})
    store.remove(take(dir, store, "sb").id, collect=False)
    over, began = threading.Event(), threading.Barrier(4)

    def use() -> None:
        began.wait()
        while not over.is_set():
            with store.reading(Unbounded()):
                time.sleep(0.03)

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    began.wait()
    try:
        assert store.collect(20) == 1000
    finally:
        over.set()
        for thread in threads:
            thread.join()


COLLECTOR = """
import time
from paddock.snapshots import Store
print(flush=True)
while True:
    Store().collect()
    time.sleep(0.002)
"""


def test_collecting_against_taking(tmp_path: Path, store: Store) -> None:
    """Somebody in another process removes and collects as fast as it can, and every snapshot is whole."""
    with place("local", tmp_path / "workspace") as dir:
        collector = subprocess.Popen([sys.executable, "-c", COLLECTOR], stdout=subprocess.PIPE)
        try:
            assert collector.stdout is not None
            collector.stdout.readline()
            for turn in range(60 if KILLS > 10 else 15):
                fill(dir, {f"{number}": f"{turn}-{number}".encode() for number in range(40)})
                snapshot = take(dir, store, "sb")
                fill(dir, {f"{number}": b"" for number in range(40)})
                restore(dir, store, snapshot)
                assert read(dir, "7") == f"{turn}-7".encode()
                store.remove(snapshot.id)
        finally:
            collector.kill()
            collector.communicate()


# Damage


@pytest.mark.parametrize("size", [100, 3 << 20])
def test_a_spoilt_byte(store: Store, tmp_path: Path, size: int) -> None:
    with place("local", tmp_path / "workspace") as dir:
        content = random.Random(1).randbytes(size)
        fill(dir, {"a": content, "b": b"fine", "d/c": b"here"})
        time.sleep(0.03)
        snapshot = take(dir, store, "sb", "good")
        fill(dir, {"a": b"changed", "b": b"changed", "new": b"new"})
        before = picture(dir)
        path = next(path for path in (_root() / "blobs").rglob("*") if path.is_file() and path.stat().st_size == size)
        _flip(path, size // 2)
        with pytest.raises(SandboxError, match=f"{snapshot.id} 'good' is damaged") as failure:
            restore(dir, store, snapshot, sandbox="sb")
        assert failure.value.code == "SANDBOX_ERROR"
        assert picture(dir) == before
        fill(dir, {"a": content})  # if the content still exists somewhere, the next snapshot brings it back
        take(dir, store, "sb")
        restore(dir, store, snapshot)
        assert read(dir, "a") == content


def test_a_difference_with_a_spoilt_byte(dir: Dir, store: Store) -> None:
    fill(dir, {"a": b"text\n"})
    snapshot = take(dir, store, "sb")
    dir.write("a", b"other\n", None)
    _flip(next(path for path in (_root() / "blobs").rglob("*") if path.is_file()), 0)
    with pytest.raises(SandboxError, match="is damaged"):
        diff(store, snapshot, dir=dir)


@pytest.mark.parametrize("kind", ["entries", "index"])
def test_a_spoilt_list(dir: Dir, store: Store, kind: str) -> None:
    fill(dir, {"a": b"text\n"})
    bad, good = take(dir, store, "sb"), take(dir, store, "sb", "good")
    path = _root() / kind / f"{bad.id}.json"
    _flip(path, 3)
    before = picture(dir)
    with pytest.raises(SandboxError):
        restore(dir, store, bad)
    assert picture(dir) == before
    restore(dir, store, good)
    assert store.space().damaged == (bad.id,)
    dir.write("a", b"", None)
    take(dir, store, "sb")
    assert store.collect() == 0
    store.remove(bad.id)
    assert store.space().damaged == ()


def test_a_content_that_a_power_cut_left_empty(dir: Dir, store: Store) -> None:
    fill(dir, {"a": b"text\n"})
    take(dir, store, "sb")
    path = next(path for path in (_root() / "blobs").rglob("*") if path.is_file())
    path.chmod(0o600)
    path.write_bytes(b"")
    snapshot = take(dir, store, "another")
    dir.remove("a")
    restore(dir, store, snapshot)
    assert read(dir, "a") == b"text\n"


def test_what_another_version_wrote_is_let_be(dir: Dir, store: Store) -> None:
    fill(dir, {"a": b"text\n"})
    snapshot = take(dir, store, "sb")
    path = _root() / "index" / f"{snapshot.id}.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    dir.remove("a")
    take(dir, store, "sb")
    assert snapshot not in store.snapshots()
    assert store.collect() == 0
    assert any(path.is_file() for path in (_root() / "blobs").rglob("*"))


# Crashes and full disks

TAKER = """
import sys
from paddock.dirs.descriptor import DescriptorDir
from paddock.snapshots import Store, take
print("ready", flush=True)
print(take(DescriptorDir.at(sys.argv[1]), Store(), "sb").id, flush=True)
"""


def test_kill_while_taking(store: Store, tmp_path: Path) -> None:
    """At any moment: what is listed afterwards is whole, and what is not leaves nothing behind."""
    chance = random.Random(6)
    with place("local", tmp_path / "workspace") as dir:
        fill(dir, {f"d{number % 20}/{number}": os.urandom(500) for number in range(250)})
        before, length = picture(dir), _time_of_a_take(tmp_path)
        for _ in range(KILLS):
            fill(dir, {f"d{number % 20}/{number}": os.urandom(500) for number in chance.sample(range(250), 80)})
            before = picture(dir)
            taker = subprocess.Popen([sys.executable, "-c", TAKER, tmp_path / "workspace"], stdout=subprocess.PIPE)
            assert taker.stdout is not None
            assert taker.stdout.readline() == b"ready\n"
            time.sleep(chance.random() * length)
            taker.send_signal(signal.SIGKILL)
            taker.communicate()
            for snapshot in store.snapshots():
                assert diff(store, snapshot, dir=dir) is not None
            done = store.snapshots()
            if done:
                restore(dir, store, done[-1])
        fill(
            dir, {path: what for path, (kind, _, what) in before.items() if kind == "file" and isinstance(what, bytes)}
        )
        last = take(dir, store, "sb")
        assert restore(dir, store, last) == Restored(0, 0)
        for snapshot in store.snapshots():
            store.remove(snapshot.id)
        assert store.space() == SnapshotSpace(total=store.space().total, unused=0)
        assert [path for path in (_root() / "blobs").rglob("*") if path.is_file()] == []
        assert list((_root() / "new").iterdir()) == list((_root() / "entries").iterdir()) == []


def _time_of_a_take(tmp_path: Path) -> float:
    taker = subprocess.Popen([sys.executable, "-c", TAKER, tmp_path / "workspace"], stdout=subprocess.PIPE)
    assert taker.stdout is not None
    taker.stdout.readline()
    started = time.monotonic()
    taker.communicate()
    return time.monotonic() - started


@contextmanager
def _small_disk(path: Path, size: int) -> Iterator[Path]:
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_full_disk_under_the_store(tmp_path: Path) -> None:
    with _small_disk(tmp_path / "disk", 2 << 20) as disk, place("local", tmp_path / "workspace") as dir:
        store = Store(disk / "store")
        fill(dir, {"a": os.urandom(500_000)})
        good = take(dir, store, "sb")
        for files in ({f"{number}": os.urandom(100_000) for number in range(30)}, {"large": os.urandom(3 << 20)}):
            fill(dir, files)
            with pytest.raises(UnavailableError, match="cannot be kept: No space left"):
                take(dir, store, "sb")
            assert store.snapshots() == [good]
            for name in files:
                dir.remove(name)
        store.collect()
        fill(dir, {"b": os.urandom(500_000)})
        assert len(take(dir, store, "sb").id) == 15
        assert store.space().unused == 0


def _flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)


def _root() -> Path:
    return Path(os.environ["PADDOCK_STATE"]) / "snapshots"
