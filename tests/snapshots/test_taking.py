"""What is read for a snapshot, what is in it, and what somebody hostile can do about that."""

import builtins
import os
import socket
import stat
import subprocess
import threading
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Self

import pytest

from attack.attempts import SECRET, outside_of, put_right, workspace_of
from attack.attempts import picture as host_picture
from attack.swapping import swapping
from paddock.dirs import descriptor
from paddock.dirs.descriptor import DescriptorDir
from paddock.dirs.memory import MemoryDir
from paddock.dirs.protocol import Dir, Node, Reader
from paddock.errors import ConflictError, SandboxError, TooLargeError
from paddock.snapshots import Bounds, Store, restore, take
from paddock.snapshots.entries import Entry
from paddock.snapshots.surveying import is_settled
from snapshots.places import NAMES, Watching, fill, picture, place, read

SECONDS = 10.0 if os.environ.get("PADDOCK_SOAK") else 1.0


def settle() -> None:
    """Let the clock move on, so that stamps can be trusted."""
    time.sleep(0.03)


# What is read


@pytest.mark.parametrize("size", [10, 100, 1000])
def test_what_did_not_change_is_not_read(local: Dir, store: Store, size: int) -> None:
    fill(local, {f"d{number % 7}/{number}": str(number).encode() for number in range(size)})
    settle()
    assert take(local, store, "sb").read == size
    fill(local, {"d0/0": b"changed", "d1/1": b"changed too", "new": b"new"})
    settle()
    watched = Watching(local)
    second = take(watched, store, "sb")
    assert sorted(watched.opened) == ["d0/0", "d1/1", "new"]
    assert (second.read, second.files) == (3, size + 1)
    watched = Watching(local)
    assert take(watched, store, "sb").read == len(watched.opened) == 0


def test_a_directory_that_moved_is_not_read(local: Dir, store: Store) -> None:
    fill(local, {f"d/{number}": str(number).encode() for number in range(20)})
    settle()
    take(local, store, "sb")
    local.rename("d", "e", replace=False)
    assert take(local, store, "sb").read == 0


def test_it_holds_in_memory(store: Store) -> None:
    dir = MemoryDir()
    fill(dir, {"a": b"1", "b": b"2"})
    assert take(dir, store, "sb").read == 2
    dir.write("a", b"3", None)
    assert take(dir, store, "sb").read == 1
    dir.rename("b", "c", replace=False)
    assert take(dir, store, "sb").read == 0


def test_all_can_be_read(local: Dir, store: Store) -> None:
    fill(local, {"a": b"1", "b": b"2"})
    settle()
    take(local, store, "sb")
    assert take(local, store, "sb").read == 0
    assert take(local, store, "sb", read_all=True).read == 2
    assert take(local, store, "another").read == 2


def test_stamps_survive_the_process(local: Dir, store: Store) -> None:
    fill(local, {"a": b"1"})
    settle()
    take(local, store, "sb")
    assert take(local, Store(), "sb").read == 0


def test_stamps_of_a_snapshot_that_is_gone(local: Dir, store: Store) -> None:
    fill(local, {"a": b"1"})
    settle()
    store.remove(take(local, store, "sb").id)
    again = take(local, store, "sb")
    assert again.read == 1
    local.remove("a")
    restore(local, store, again)
    assert read(local, "a") == b"1"


def test_a_forged_time_is_noticed(local: Dir, store: Store, workspace: Path) -> None:
    fill(local, {"a": b"old"})
    settle()
    take(local, store, "sb")
    before = (workspace / "a").stat()
    (workspace / "a").write_bytes(b"new")
    os.utime(workspace / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
    settle()
    after = (workspace / "a").stat()
    assert (after.st_mtime_ns, after.st_size, after.st_ino) == (before.st_mtime_ns, before.st_size, before.st_ino)
    second = take(local, store, "sb")
    assert second.read == 1
    (workspace / "a").unlink()
    restore(local, store, second)
    assert read(local, "a") == b"new"


def test_a_file_that_has_just_changed_is_not_trusted(local: Dir, store: Store, workspace: Path) -> None:
    """What is written within the same tick of the clock as the look leaves the same stamp behind."""
    for turn in range(30):
        (workspace / "a").write_bytes(b"%04d" % turn)
        first = take(local, store, "sb")
        (workspace / "a").write_bytes(b"%04d" % (turn + 5000))
        second = take(local, store, "sb")
        assert store.entries(first)["a"].digest != store.entries(second)["a"].digest
        if turn % 10 == 0:
            settle()


def test_a_clock_that_stands_still(store: Store, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, where every stamp is the same: nothing may be trusted whose change is as young as the look."""
    with place("local", workspace) as local:
        fill(local, {"a": b"old!"})
        moment = local.stat("a").stamp
        watched = _Frozen(local, moment)
        monkeypatch.setattr(time, "time_ns", lambda: (moment or 0) >> 128)
        take(watched, store, "sb")
        (workspace / "a").write_bytes(b"new!")
        assert take(watched, store, "sb").read == 1
        monkeypatch.undo()
        settle()
        take(watched, store, "sb")
        assert take(watched, store, "sb").read == 0  # the control: an old stamp that stays the same is believed


def test_file_systems_that_keep_seconds() -> None:
    second, looked = 1_000_000_000, 1_700_000_000_500_000_000
    for changed, settled in (
        (looked - 19_000_000, False),
        (looked - 21_000_000, True),
        (looked - second // 2, False),  # a whole second
        (looked - 3 * second // 2, False),
        (looked - 5 * second // 2, True),
        (looked + second, False),  # a clock that was set back
        (0, True),
    ):
        assert is_settled(changed << 128 | 77, looked) == settled


class _Frozen(Watching):
    def __init__(self, dir: Dir, stamp: int | None) -> None:
        super().__init__(dir)
        self._stamp = stamp

    def stat(self, path: str) -> Node:
        return super().stat(path)._replace(stamp=self._stamp, mtime=0.0)

    def list(self, path: str, *, stats: bool) -> builtins.list[Node]:
        return [node._replace(stamp=self._stamp, mtime=0.0) for node in super().list(path, stats=stats)]

    def open(self, path: str, offset: int = 0) -> Reader:
        return _FrozenReader(super().open(path, offset), self._stamp)


class _FrozenReader:
    def __init__(self, reader: Reader, stamp: int | None) -> None:
        self._reader, self.stamp = reader, stamp
        self.size, self.mode, self.read = reader.size, reader.mode, reader.read

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.__exit__(None, None, None)


# What is in it


def test_no_special_bits(local: Dir, store: Store, workspace: Path) -> None:
    fill(local, {"program": b"x", "plain": b"y"})
    (workspace / "program").chmod(0o6755)
    (workspace / "plain").chmod(0o755)
    (workspace / "d").mkdir()
    (workspace / "d").chmod(0o3777)
    snapshot = take(local, store, "sb")
    assert {entry.mode for entry in store.entries(snapshot).values()} == {0o755, 0o777}
    local.remove("d")
    local.remove("program")
    local.remove("plain")
    restore(local, store, snapshot)
    modes = {name: stat.S_IMODE((workspace / name).stat().st_mode) for name in ("program", "plain", "d")}
    assert modes == {"program": 0o755, "plain": 0o755, "d": 0o777}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_no_foreign_owners(store: Store, tmp_path: Path) -> None:
    with place("local", tmp_path / "one") as one, place("owned", tmp_path / "two") as two:
        fill(one, {"f": b"x", "d/g": b"y"})
        one.link("l", "f")
        os.setxattr(tmp_path / "one/f", "user.note", b"1")
        os.setxattr(
            tmp_path / "one/f", "security.capability", bytes.fromhex("0100000200040000000000000000000000000000")
        )
        restore(two, store, take(one, store, "sb"))
        for path in (tmp_path / "two").rglob("*"):
            assert path.lstat().st_uid == path.lstat().st_gid == 12345
            assert os.listxattr(path, follow_symlinks=False) == []


def test_what_is_no_file_is_left_out(local: Dir, store: Store, workspace: Path) -> None:
    fill(local, {"f": b"x"})
    os.mkfifo(workspace / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(workspace / "socket"))
        if os.geteuid() == 0:
            os.mknod(workspace / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        snapshot = take(local, store, "sb")
    assert list(store.entries(snapshot)) == ["f"]
    restore(local, store, snapshot)
    assert [path.name for path in workspace.iterdir()] == ["f"]


def test_links_are_text(dir: Dir, store: Store) -> None:
    fill(dir, {"f": b"x"})
    targets = {"in": "f", "out": "/etc/passwd", "up": "../../../etc", "loop": "loop", "none": "n" * 1000}
    for name, target in targets.items():
        dir.link(name, target)
    snapshot = take(dir, store, "sb")
    assert snapshot.files == snapshot.read == 1
    for name in targets:
        dir.remove(name)
    dir.link("in", "elsewhere")
    restore(dir, store, snapshot)
    assert {name: dir.stat(name).target for name in targets} == targets


def test_hard_links_are_not_written_through(local: Dir, store: Store, workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("outside")
    fill(local, {"a": b"one"})
    os.link(workspace / "a", workspace / "b")
    snapshot = take(local, store, "sb")
    (workspace / "a").unlink()
    os.link(tmp_path / "outside", workspace / "a")
    (workspace / "b").chmod(0o600)
    restore(local, store, snapshot)
    assert picture(local) == {"a": ("file", 0o644, b"one"), "b": ("file", 0o644, b"one")}
    assert (tmp_path / "outside").read_text() == "outside"
    assert (workspace / "a").stat().st_nlink == 1


def test_700_levels(dir: Dir, store: Store) -> None:
    deep = "/".join(["d"] * 700)
    fill(dir, {f"{deep}/f": b"down here"})
    snapshot = take(dir, store, "sb")
    assert snapshot.entries == 701
    dir.remove("d", tree=True)
    restore(dir, store, snapshot)
    assert read(dir, f"{deep}/f") == b"down here"
    dir.remove("d", tree=True)  # others who clean up are not made for this


def test_too_deep(local: Dir, store: Store) -> None:
    fill(local, {"a/b/c/f": b"x"})
    assert take(local, store, "sb", bounds=Bounds(depth=3)).entries == 4
    with pytest.raises(TooLargeError, match="too deep"):
        take(local, store, "sb", bounds=Bounds(depth=2))


def test_deeper_than_any_path(local: Dir, store: Store, workspace: Path) -> None:
    script = "for i in $(seq 30); do mkdir $1 && cd -P $1 || exit 1; done"
    subprocess.run(["sh", "-c", script, "sh", "x" * 200], cwd=workspace, check=True, stderr=subprocess.DEVNULL)
    with pytest.raises(TooLargeError, match="too deep"):
        take(local, store, "sb")
    assert store.snapshots() == []
    local.remove("x" * 200, tree=True)


def test_names(dir: Dir, store: Store) -> None:
    fill(dir, {name: name.encode("utf-8", "surrogateescape") for name in NAMES})
    before = picture(dir)
    snapshot = take(dir, store, "sb")
    for name in NAMES:
        dir.remove(name)
    restore(dir, store, snapshot)
    assert picture(dir) == before


def test_bounds(local: Dir, store: Store) -> None:
    fill(local, {"a": b"12345", "b": b"12345", "d/c": b""})
    assert take(local, store, "sb", bounds=Bounds(entries=4, size=10)).entries == 4
    with pytest.raises(TooLargeError, match="more than 3 files"):
        take(local, store, "sb", bounds=Bounds(entries=3, size=10))
    with pytest.raises(TooLargeError, match="more than 9 bytes"):
        take(local, store, "sb", bounds=Bounds(entries=4, size=9))


def test_long_paths_count_for_more(local: Dir, store: Store) -> None:
    deep = "/".join(["d" * 200] * 10)
    fill(local, {f"{deep}/f": b""})
    assert take(local, store, "sb", bounds=Bounds(entries=100)).entries == 11
    with pytest.raises(TooLargeError, match="files and directories"):
        take(local, store, "sb", bounds=Bounds(entries=20))


def test_bounds_by_settings(local: Dir, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(local, {"a": b"12345"})
    monkeypatch.setenv("PADDOCK_SNAPSHOT_SIZE", "4")
    with pytest.raises(TooLargeError, match="more than 4 bytes"):
        take(local, store, "sb")
    monkeypatch.setenv("PADDOCK_SNAPSHOT_SIZE", "5")
    take(local, store, "sb")


def test_a_huge_hole_is_not_read(local: Dir, store: Store, workspace: Path) -> None:
    with open(workspace / "hole", "wb") as file:
        file.truncate(1 << 40)
    watched = Watching(local)
    with pytest.raises(TooLargeError):
        take(watched, store, "sb")
    assert watched.opened == []


def test_what_cannot_be_read_is_named(store: Store, workspace: Path) -> None:
    with place("owned" if os.geteuid() == 0 else "local", workspace) as dir:
        dir.write("closed", b"x", 0o000)
        with pytest.raises(PermissionError) as failure:
            take(dir, store, "sb")
        assert failure.value.filename == "/workspace/closed"
        dir.write("closed", b"x", 0o400)
        assert take(dir, store, "sb").files == 1


# While others are at work


def test_a_file_that_changes_while_it_is_read(local: Dir, store: Store, workspace: Path) -> None:
    fill(local, {"a": b"0" * 1000})
    turns = iter(range(100))

    def change(call: str, path: str) -> None:
        if call == "open" and path == "a" and (turn := next(turns)) < 3:
            (workspace / "a").write_bytes(b"%d" % turn * 1000)

    snapshot = take(Watching(local, change), store, "sb")
    assert local.stat("a").size == store.entries(snapshot)["a"].size
    (workspace / "a").unlink()
    restore(local, store, snapshot)
    assert read(local, "a") == b"2" * 1000


def test_a_file_that_never_rests(local: Dir, store: Store, workspace: Path) -> None:
    fill(local, {"a": b"0", "b": b"0"})
    turns = iter(range(100))

    def change(call: str, path: str) -> None:
        if call == "open" and path == "a":
            (workspace / "a").write_bytes(b"x" * (next(turns) + 2))

    with pytest.raises(ConflictError, match="'/workspace/a' changes all the time") as failure:
        take(Watching(local, change), store, "sb")
    assert failure.value.path == "/workspace/a"
    assert store.snapshots() == []
    assert take(local, store, "sb").files == 2


def test_a_file_that_changes_between_two_reads(local: Dir, store: Store, workspace: Path) -> None:
    old, new = b"o" * (3 << 20), b"n" * (3 << 20)
    fill(local, {"a": old})
    settle()
    turns = iter([False, True])

    class Slow(_FrozenReader):
        def __init__(self, reader: Reader) -> None:
            super().__init__(reader, reader.stamp)
            self.read = self._read

        def _read(self, size: int) -> bytes:
            if next(turns, False):
                (workspace / "a").write_bytes(new)
            return self._reader.read(size)

    class Slowly(Watching):
        def open(self, path: str, offset: int = 0) -> Reader:
            return Slow(super().open(path, offset))

    snapshot = take(Slowly(local), store, "sb")
    assert store.entries(snapshot)["a"].digest == _digest(new)


def test_what_vanishes_is_left_out(local: Dir, store: Store, workspace: Path) -> None:
    fill(local, {"a": b"0", "b": b"0", "d/c": b"0", "e/f": b"0"})

    def change(call: str, path: str) -> None:
        if call == "open" and path == "a":
            (workspace / "a").unlink(missing_ok=True)
        if call == "list" and path == "d" and (workspace / "d").exists():
            local.remove("d", tree=True)

    assert sorted(store.entries(take(Watching(local, change), store, "sb"))) == ["b", "e", "e/f"]


def test_what_becomes_something_else(local: Dir, store: Store, workspace: Path) -> None:
    fill(local, {"a": b"0", "b": b"0"})

    def change(call: str, path: str) -> None:
        if call == "open" and path == "a" and (workspace / "a").is_file():
            (workspace / "a").unlink()
            (workspace / "a").mkdir()
            (workspace / "a/inner").write_bytes(b"1")
        if call == "open" and path == "b" and not (workspace / "b").is_symlink():
            (workspace / "b").unlink()
            (workspace / "b").symlink_to("/etc/passwd")

    entries = store.entries(take(Watching(local, change), store, "sb"))
    assert {path: entry.kind for path, entry in entries.items()} == {"a": "directory", "a/inner": "file", "b": "link"}


def test_a_swap_of_directories_poisons_no_stamp(local: Dir, store: Store, workspace: Path) -> None:
    """A directory that is another one for the length of one `open`: its file's content is not taken for the real one's."""
    fill(local, {"d/f": b"real", "e/f": b"fake"})
    settle()

    def swap() -> None:
        os.rename(workspace / "d", workspace / "x")
        os.rename(workspace / "e", workspace / "d")
        os.rename(workspace / "x", workspace / "e")

    class Swapping(Watching):
        def open(self, path: str, offset: int = 0) -> Reader:
            if path != "d/f":
                return super().open(path, offset)
            swap()
            try:
                return super().open(path, offset)
            finally:
                swap()

    with pytest.raises(ConflictError):
        take(Swapping(local), store, "sb")
    snapshot = take(local, store, "sb")
    (workspace / "d/f").unlink()
    restore(local, store, snapshot)
    assert read(local, "d/f") == b"real"


def test_nothing_outside_is_read_or_written(store: Store, tmp_path: Path) -> None:
    outside, workspace = outside_of(tmp_path), workspace_of(tmp_path)
    before, secret = host_picture(outside), _digest(SECRET.encode())
    dir = DescriptorDir.at(str(workspace))
    good = take(dir, store, "sb", "good")  # a name, because of all those that come after it
    with swapping(workspace):
        deadline, turns = time.monotonic() + SECONDS, 0
        while time.monotonic() < deadline or turns < 5:
            turns += 1
            with suppress(OSError, SandboxError):  # it changes all the time
                snapshot = take(dir, store, "sb")
                assert secret not in {entry.digest for entry in store.entries(snapshot).values()}
                restore(dir, store, good)
    assert not store.blobs.has(secret, len(SECRET))
    assert host_picture(outside) == before
    dir.remove("d", tree=True)
    put_right(workspace)
    restore(dir, store, good)
    assert take(dir, store, "sb").files == 3
    dir.close()


def test_control_a_careless_look_reads_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same attack, with links allowed when a path is opened, has to be noticed by the test above."""

    def careless(root: int, path: bytes, flags: int) -> int:
        return os.open(path or b".", flags & ~os.O_NOFOLLOW, dir_fd=root)

    monkeypatch.setattr(descriptor, "open_beneath", careless)
    outside_of(tmp_path)
    workspace, store = workspace_of(tmp_path), Store(tmp_path / "store")
    dir, deadline = DescriptorDir.at(str(workspace)), time.monotonic() + 60
    with swapping(workspace):
        while not store.blobs.has(_digest(SECRET.encode()), len(SECRET)):
            assert time.monotonic() < deadline
            with suppress(OSError, SandboxError):
                take(dir, store, "sb")
    dir.close()


def test_it_can_be_stopped(local: Dir, store: Store) -> None:
    fill(local, {f"{number}": b"x" for number in range(50)})

    class Stopped(Exception):  # noqa: N818 - not an error
        pass

    class Work:
        left = 20

        def spend(self, entries: int = 0, size: int = 0) -> None:
            self.left -= size
            if self.left < 0:
                raise Stopped

    with pytest.raises(Stopped):
        take(local, store, "sb", work=Work())
    assert store.snapshots() == []
    snapshot = take(local, store, "sb")
    fill(local, {f"{number}": b"y" for number in range(50)})
    before = picture(local)
    with pytest.raises(Stopped):
        restore(local, store, snapshot, work=Work())
    assert picture(local) == before


def test_several_at_once(local: Dir, store: Store) -> None:
    fill(local, {f"{number}": str(number).encode() for number in range(200)})
    taken, failed = list[dict[str, Entry]](), list[BaseException]()

    def work(number: int) -> None:
        try:
            taken.append(store.entries(take(local, store, f"sb{number % 2}", f"name-{number}")))
        except BaseException as error:  # noqa: BLE001 - looked at below
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert all(entries == taken[0] for entries in taken)


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()
