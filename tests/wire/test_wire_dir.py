"""`WireDir` against a real supervisor: it answers as `DescriptorDir` does, whatever is done to the tree meanwhile."""

import builtins
import errno
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attack.swapping import swapping
from paddock.dirs import syscalls
from paddock.dirs.descriptor import DescriptorDir
from paddock.dirs.protocol import Change, Dir, Write
from paddock.wire import watch
from paddock.wire.calls import wait
from paddock.wire.dir import WireDir
from paddock.wire.fields import pack_text, pack_u16, pack_u32, pack_u64
from paddock.wire.frames import Frame, Reply, Request
from wire.supervised import OPENAT2, PROGRAM, RENAMEAT2, Supervised

EXAMPLES = 2_000 if os.environ.get("PADDOCK_SOAK") else 120
SECONDS = 10.0 if os.environ.get("PADDOCK_SOAK") else 1.0
KERNELS = {"today": (), "old": (OPENAT2, RENAMEAT2)}
NOBODY = 65534


@pytest.fixture(params=KERNELS)
def supervised(request: pytest.FixtureRequest) -> Iterator[Supervised]:
    with Supervised(refuse=KERNELS[request.param]) as supervised:
        yield supervised


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    tree.mkdir()
    return tree


@pytest.fixture
def dir(supervised: Supervised, tree: Path) -> WireDir:
    return supervised.root(str(tree))


@contextmanager
def fails(code: int) -> Iterator[None]:
    with pytest.raises(OSError) as failure:  # noqa: PT011 - by its errno
        yield
    assert failure.value.errno == code, failure.value


def read(dir: Dir, path: str, offset: int = 0, size: int = 1 << 30) -> bytes:
    with dir.open(path, offset) as reader:
        return reader.read(size)


# The same sequence of calls gives the same answers by descriptor and over the wire.

names = st.sampled_from(["a", "b", "é", "a b", ".h", "\udcff", "n" * 255, "n" * 256])
paths = st.one_of(st.just(""), st.lists(names, min_size=1, max_size=3).map("/".join))
modes = st.sampled_from([None, 0o600, 0o755, 0o444, 0o4755, 0])
contents = st.binary(max_size=6)
calls = st.one_of(
    st.tuples(st.just("stat"), paths),
    st.tuples(st.just("list"), paths, st.booleans()),
    st.tuples(st.just("read"), paths, st.integers(0, 7), st.integers(0, 7)),
    st.tuples(st.just("write"), paths, contents, modes, st.booleans()),
    st.tuples(st.just("write_parts"), paths, st.lists(contents, max_size=3), modes, st.booleans()),
    st.tuples(st.just("stage"), st.lists(st.tuples(paths, contents, modes), max_size=3), st.booleans()),
    st.tuples(st.just("mkdir"), paths, st.sampled_from([0o755, 0o777, 0o700, 0o500])),
    st.tuples(st.just("remove"), paths, st.booleans()),
    st.tuples(st.just("rename"), paths, paths, st.booleans()),
    st.tuples(st.just("link"), paths, st.sampled_from(["a", "..", "/etc/passwd", "b/c", "\udcfe"])),
    st.tuples(st.just("plant"), paths, st.sampled_from(["fifo", "set-uid", "hard link", "locked"])),
)


class Steps:
    """Each kind of call, as a comparable answer."""

    def __init__(self, dir: Dir, place: str) -> None:
        self.dir = dir
        self.place = place

    def do(self, call: tuple[Any, ...]) -> Any:
        name, *arguments = call
        try:
            return getattr(self, name)(*arguments)
        except OSError as error:
            return error.errno, error.filename if name == "stage" else None

    def stat(self, path: str) -> Any:
        return _comparable(self.dir.stat(path))

    def list(self, path: str, stats: bool) -> Any:
        return sorted(map(_comparable, self.dir.list(path, stats=stats)))

    def read(self, path: str, offset: int, size: int) -> Any:
        with self.dir.open(path, offset) as reader:
            return reader.size, reader.mode, reader.read(size), reader.read(2), reader.read(100), reader.read(1)

    def write(self, path: str, data: bytes, mode: int | None, replace: bool) -> int:
        return self.dir.write(path, data, mode, replace=replace)

    def write_parts(self, path: str, parts: "builtins.list[bytes]", mode: int | None, replace: bool) -> int:
        return self.dir.write(path, iter(parts), mode, replace=replace)

    def stage(self, files: "builtins.list[tuple[str, bytes, int | None]]", keep: bool) -> None:
        stage = self.dir.stage([Write(*file) for file in files])
        try:
            stage.commit()
            if not keep:
                stage.rollback()
        finally:
            stage.finish()

    def mkdir(self, path: str, mode: int) -> None:
        self.dir.mkdir(path, mode)

    def remove(self, path: str, tree: bool) -> None:
        self.dir.remove(path, tree=tree and path != "")

    def rename(self, path: str, to: str, replace: bool) -> None:
        self.dir.rename(path, to, replace=replace)

    def link(self, path: str, target: str) -> None:
        self.dir.link(path, target)

    def plant(self, path: str, what: str) -> None:
        here = os.path.join(self.place, path)
        if not os.path.realpath(here).startswith(os.path.realpath(self.place)):
            return
        if what == "fifo":
            os.mkfifo(here)
        elif what == "hard link":
            os.link(here, here + "2", follow_symlinks=False)
        elif not os.path.islink(here):
            os.chmod(here, 0o6755 if what == "set-uid" else 0o555)


def _comparable(node: Any) -> Any:
    size = -1 if node.kind == "directory" else node.size
    return node.name, node.kind, size, node.mode, node.target or ""


def _picture(place: str) -> Any:
    found = []
    for top, directories, files in os.walk(os.fsencode(place)):
        for name in directories + files:
            path = os.path.join(top, name)
            info = os.lstat(path)
            readable = stat.S_ISREG(info.st_mode) and os.access(path, os.R_OK)
            data = Path(os.fsdecode(path)).read_bytes() if readable else b""
            found.append((os.path.relpath(path, os.fsencode(place)), info.st_mode, info.st_nlink, data))
    return sorted(found)


@pytest.mark.parametrize("kernel", KERNELS)
def test_wire_and_descriptor_agree(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kernel == "old":
        monkeypatch.setattr(syscalls, "has_openat2", lambda: False)
        monkeypatch.setattr(syscalls, "_RENAMEAT2", None)

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(calls, max_size=14))
    def agree(sequence: list[tuple[Any, ...]]) -> None:
        one, other = tempfile.mkdtemp(), tempfile.mkdtemp()
        local = DescriptorDir.at(one)
        try:
            with Supervised(refuse=KERNELS[kernel]) as supervised:
                wire = supervised.root(other)
                for call in sequence:
                    assert Steps(local, one).do(call) == Steps(wire, other).do(call), call
                assert _picture(one) == _picture(other)
        finally:
            local.close()
            shutil.rmtree(one)
            shutil.rmtree(other)

    agree()


def test_times_agree(dir: WireDir, tree: Path) -> None:
    local = DescriptorDir.at(str(tree))
    for number, moment in enumerate((0, 1, -1_500_000_000, 1_700_000_000_123_456_789, 4_000_000_000_999_999_999)):
        (tree / str(number)).write_text("")
        os.utime(tree / str(number), ns=(moment, moment))
        assert dir.stat(str(number)) == local.stat(str(number))._replace(stamp=None)
    local.close()


# Sizes


@pytest.mark.parametrize("size", [0, 1, 65_536, 262_144, 262_145, 1_000_000, 5_000_000])
def test_a_file_of_any_size(dir: WireDir, tree: Path, size: int) -> None:
    data = os.urandom(size)
    assert dir.write("whole", data, None) == size
    assert dir.write("parts", (data[at : at + 99_999] for at in range(0, size, 99_999)), 0o600) == size
    for name in ("whole", "parts"):
        assert (tree / name).read_bytes() == data
        assert read(dir, name) == data
        assert read(dir, name, size // 2) == data[size // 2 :]
    assert sorted(os.listdir(tree)) == ["parts", "whole"]


def test_a_sparse_terabyte(dir: WireDir, tree: Path) -> None:
    with (tree / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert dir.stat("sparse").size == 1 << 40
    assert read(dir, "sparse", (1 << 40) - 3) == b"\0\0\0"
    assert read(dir, "sparse", 1 << 50) == b""


def test_no_more_than_it_was(dir: WireDir, tree: Path) -> None:
    (tree / "growing").write_bytes(b"x" * 100)
    with dir.open("growing") as reader:
        with (tree / "growing").open("ab") as file:
            file.write(b"y" * 1_000_000)
        assert reader.read(1 << 20) == b"x" * 100
        assert reader.read(1) == b""
    (tree / "shrinking").write_bytes(b"x" * 1_000_000)
    with dir.open("shrinking") as reader:
        os.truncate(tree / "shrinking", 500_000)
        assert len(reader.read(1 << 20)) <= 500_000


def test_many_names(dir: WireDir, tree: Path) -> None:
    expected = {f"{number:05}-{'x' * (number % 200)}" for number in range(20_000)}
    for name in expected:
        (tree / name).touch()
    for stats in (False, True):
        assert {node.name for node in dir.list("", stats=stats)} == expected
    (tree / "below").mkdir()
    (tree / "00000-").rename(tree / "below/00000-")
    found: list[Change] = []
    dir.watch("", found.extend)()
    assert len(found) == 20_001
    dir.remove("below", tree=True)


def test_removing_many(supervised: Supervised, dir: WireDir, tree: Path) -> None:
    """While it goes on, others have their turn."""
    for number in range(8):
        directory = tree / "huge" / str(number)
        directory.mkdir(parents=True)
        for name in range(500):
            (directory / str(name)).touch()
    removing = supervised.send([_about(supervised, dir, Request.REMOVE, "huge", b"\1")])[0]
    other = supervised.send([_about(supervised, dir, Request.STAT, "", b"")])[0]
    wait(other, Reply.NODE)
    assert not removing.done()
    wait(removing, Reply.OK)
    assert os.listdir(tree) == []


def _about(supervised: Supervised, dir: WireDir, type: Request, path: str, more: bytes) -> Frame:
    return Frame(type, supervised.new_id(), dir._root.at(path) + more)


# What somebody hostile may have made


def test_special_files(dir: WireDir, tree: Path) -> None:
    os.mkfifo(tree / "fifo")
    (tree / "link").symlink_to("/etc/passwd")
    (tree / "directory").mkdir()
    for name, code in (("fifo", errno.ENXIO), ("link", errno.ELOOP), ("directory", errno.EISDIR), ("", errno.EISDIR)):
        with fails(code):
            dir.open(name)
        for data in (b"x", iter([b"x"])):
            with fails(code):
                dir.write(name, data, None)
        with fails(code):
            dir.stage([Write("fine", b""), Write(name, b"")])
    assert [dir.stat(name).kind for name in ("fifo", "link", "directory")] == ["other", "link", "directory"]
    assert sorted(os.listdir(tree)) == ["directory", "fifo", "link"]


@pytest.mark.parametrize("path", ["..", ".", "a/..", "../x", "/etc", "a//b", "a/./b", "a/"])
def test_paths_that_the_file_layer_never_sends(dir: WireDir, tree: Path, path: str) -> None:
    (tree / "a").mkdir()
    attempts: list[Callable[[], object]] = [
        lambda: dir.stat(path),
        lambda: dir.remove(path, tree=True),
        lambda: dir.mkdir(path),
        lambda: dir.link(path, "x"),
        lambda: dir.rename("a", path, replace=True),
        lambda: dir.rename(path, "b", replace=False),
    ]
    for attempt in attempts:
        with fails(errno.EINVAL):
            attempt()
    if path != ".":
        with fails(errno.EINVAL):
            dir.open(path)
        with fails(errno.EINVAL):
            dir.list(path, stats=False)
    assert os.listdir(tree) == ["a"]


def test_hard_links_are_not_written_through(dir: WireDir, tree: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    for name in ("a", "b"):
        os.link(tmp_path / "precious", tree / name)
    dir.write("a", b"new", 0o777)
    stage = dir.stage([Write("b", b"new", 0o777)])
    stage.commit()
    stage.finish()
    assert (tmp_path / "precious").read_text() == "precious"
    assert (tmp_path / "precious").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("ordinary", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_deep_and_locked_trees_are_removed(kernel: str, ordinary: bool) -> None:
    """700 levels, longer than any path can be, and 200 that nobody may enter; also by somebody who is not root."""
    place = Path(tempfile.mkdtemp())
    user = NOBODY if ordinary and os.geteuid() == 0 else None
    try:
        place.chmod(0o777)
        program = str(shutil.copy(PROGRAM, place / "program"))  # where an ordinary user can reach it
        make_levels(place / "deep", "d" * 20, 700, 0o755, user)
        make_levels(place / "locked", "x", 200, 0, user)
        with Supervised(program=program, refuse=KERNELS[kernel], user=user) as supervised:
            dir = supervised.root(str(place))
            dir.remove("deep", tree=True)
            dir.remove("locked", tree=True)
            assert [node.name for node in dir.list("", stats=True)] == ["program"]
    finally:
        shutil.rmtree(place)


def make_levels(top: Path, name: str, levels: int, mode: int, user: int | None) -> None:
    top.mkdir()
    handles = [os.open(top, os.O_RDONLY)]
    for _ in range(levels):
        os.mkdir(name, dir_fd=handles[-1])
        os.symlink("/", "link", dir_fd=handles[-1])
        handles.append(os.open(name, os.O_RDONLY, dir_fd=handles[-1]))
    for handle in reversed(handles):
        os.fchown(handle, -1 if user is None else user, -1)
        os.fchmod(handle, mode)
        os.close(handle)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_another_file_system_is_not_removed(dir: WireDir, tree: Path) -> None:
    inner = tree / "top/mounted"
    inner.mkdir(parents=True)
    if subprocess.run(["mount", "-t", "tmpfs", "none", inner], capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        (inner / "precious").write_text("")
        with fails(errno.EBUSY):
            dir.remove("top", tree=True)
        assert (inner / "precious").exists()
    finally:
        subprocess.run(["umount", inner], check=True)


SECRET = b"outside-secret"


def test_links_swapped_during_calls(dir: WireDir, tree: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    for place, data in ((outside, SECRET), (tree / "d", b"inside")):
        (place / "sub").mkdir(parents=True)
        for name in ("f", "sub/f"):
            (place / name).write_bytes(data)
    (outside / "marker").write_bytes(SECRET)
    (tree / "f").write_bytes(b"inside")
    (tree / "d-link").symlink_to("../outside")
    (tree / "f-link").symlink_to("../outside/f")
    before = _picture(str(outside))

    def stage() -> None:
        stage = dir.stage([Write("d/f", b"new"), Write("d/sub/g", b"new"), Write("f", b"new")])
        try:
            stage.commit()
        finally:
            stage.finish()

    attempts: list[Callable[[], object]] = [
        lambda: read(dir, "d/f"),
        lambda: read(dir, "f"),
        lambda: read(dir, "d/sub/f"),
        lambda: dir.stat("d/marker"),
        lambda: [node for node in dir.list("d", stats=True) if node.name == "marker" and SECRET],
        lambda: dir.write("d/f", b"new", None),
        lambda: dir.write("f", b"new", None),
        stage,
        lambda: dir.mkdir("d/made"),
        lambda: dir.rename("d/f", "d/sub/moved", replace=True),
        lambda: dir.remove("d/sub", tree=True),
        lambda: dir.mkdir("d/sub"),
        lambda: dir.link("d/planted", "x"),
        lambda: dir.remove("d/planted"),
        lambda: dir.remove("d/made"),
    ]
    worked = set()
    with swapping(tree):
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            for number, attempt in enumerate(attempts):
                with suppress(OSError):
                    answer = attempt()
                    assert not answer or answer != SECRET
                    assert number != 3, "it saw what is outside"
                    assert number != 4 or answer == []
                    worked.add(number)
    assert _picture(str(outside)) == before
    assert len(worked) > 8


# Many at once, and the end


def test_many_threads(dir: WireDir, tree: Path) -> None:
    def work(number: int) -> bool:
        data = os.urandom(1 << 18)
        for turn in range(5):
            path = f"t{number}/{turn}"
            with suppress(FileExistsError):
                dir.mkdir(f"t{number}")
            dir.write(path, data, None)
            stage = dir.stage([Write(f"t{number}/s{turn}-{i}", b"x") for i in range(40)])
            stage.commit()
            stage.finish()
            assert read(dir, path) == data
            assert len(dir.list(f"t{number}", stats=True)) == (turn + 1) * 41
        dir.remove(f"t{number}", tree=True)
        return True

    with ThreadPoolExecutor(24) as pool:
        assert all(pool.map(work, range(24)))
    assert os.listdir(tree) == []


def test_too_many_open_files(dir: WireDir, tree: Path) -> None:
    (tree / "f").write_text("x")
    readers = [dir.open("f") for _ in range(256)]
    with fails(errno.EMFILE):
        dir.open("f")
    with fails(errno.EMFILE):
        dir.write("g", b"", None)
    for reader in readers:
        reader.__exit__(None, None, None)
    assert read(dir, "f") == b"x"


def test_a_full_disk(tree: Path) -> None:
    """The end of a file that did not fit is already on its way: it gets no name all the same."""
    program = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000)); {_TRY_LARGE}"
    subprocess.run([sys.executable, "-c", program, repr(sys.path), str(tree)], check=True)
    assert os.listdir(tree) == ["old"]
    assert (tree / "old").read_text() == "old"


_TRY_LARGE = """
import errno, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.path[:0] = eval(sys.argv[1])
from wire.supervised import Supervised
with Supervised() as supervised:
    dir = supervised.root(sys.argv[2])
    dir.write("old", b"old", None)
    for data in (b"x" * 1_048_576, b"x" * 5_000_000, iter([b"x" * 999_999, b"yy", b"z"])):
        try:
            dir.write("old", data, None)
        except OSError as error:
            assert error.errno == errno.EFBIG, error
        else:
            raise SystemExit("it was written")
"""


def test_the_parts_fail(dir: WireDir, tree: Path) -> None:
    def parts() -> Iterator[bytes]:
        yield from [b"x" * 300_000] * 10
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        dir.write("f", parts(), None)
    assert _settled(tree) == []


def test_the_files_of_a_stage_fail(dir: WireDir, tree: Path) -> None:
    def files() -> Iterator[Write]:
        for number in range(50):
            yield Write(f"f{number}", b"x")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        dir.stage(files())
    assert _settled(tree) == []


def _settled(tree: Path) -> list[str]:
    deadline = time.monotonic() + 5
    while os.listdir(tree) and time.monotonic() < deadline:
        time.sleep(0.01)
    return os.listdir(tree)


def test_a_commit_that_fails_is_taken_back(dir: WireDir, tree: Path) -> None:
    (tree / "old").write_text("old")
    (tree / "old").chmod(0o600)
    files = [Write("old", b"new"), *(Write(f"new{n}", b"new") for n in range(80)), Write("bad", b"new")]
    stage = dir.stage(files)
    (tree / "bad").mkdir()
    with pytest.raises(IsADirectoryError) as failure:
        stage.commit()
    assert failure.value.filename == "bad"
    stage.finish()
    assert sorted(os.listdir(tree)) == ["bad", "old"]
    assert (tree / "old").read_text() == "old"
    (tree / "bad").rmdir()
    stage = dir.stage(files)
    stage.commit()
    stage.finish()
    assert len(os.listdir(tree)) == 82
    assert (tree / "old").stat().st_mode & 0o777 == 0o600


def test_unfinished_files_go_with_the_channel(tree: Path) -> None:
    with Supervised() as supervised:
        dir = supervised.root(str(tree))
        wait(supervised.send([_about(supervised, dir, Request.CREATE, "", b"")])[0], Reply.OK)
        assert len(os.listdir(tree)) == 1
    assert os.listdir(tree) == []


def test_a_dead_channel(supervised: Supervised, dir: WireDir, tree: Path) -> None:
    (tree / "f").write_text("x")
    stage = dir.stage([Write("g", b"x")])
    seen: list[Change] = []
    stop = dir.watch("", seen.extend)
    with dir.open("f") as reader:
        supervised.process.kill()
        supervised._thread.join()
        attempts: list[Callable[[], object]] = [
            lambda: dir.stat("f"), lambda: dir.list("", stats=True), lambda: dir.open("f"), lambda: dir.mkdir("m"),
            lambda: dir.write("f", b"", None), lambda: dir.write("f", iter([b"x"]), None), lambda: dir.remove("f"),
            lambda: dir.rename("f", "g", replace=True), lambda: dir.link("l", "f"), stage.commit,
            lambda: dir.stage([Write("g", b"x")]), lambda: dir.watch("", seen.extend),
        ]  # fmt: skip
        for attempt in attempts:
            with fails(errno.ENOTCONN):
                attempt()
        assert reader.read(1) == b"x"
    stage.rollback()
    stage.finish()
    _until(lambda: Change("vanished", "") in seen)
    stop()


WHERE = pack_u32(1) + pack_text(b"a")
FIELDS = {
    Request.ROOT: pack_text(b"/nowhere"),
    Request.STAT: WHERE,
    Request.LIST: WHERE + b"\1",
    Request.OPEN: WHERE,
    Request.READ: pack_u32(1) + pack_u64(0) + pack_u32(1),
    Request.CREATE: WHERE,
    Request.PUT: pack_u32(1) + pack_text(b"a") + pack_u32(0o644) + b"\1",
    Request.CLOSE: pack_u32(1),
    Request.MKDIR: WHERE + pack_u16(0o755),
    Request.REMOVE: WHERE + b"\1",
    Request.RENAME: WHERE + pack_text(b"b") + b"\2",
    Request.LINK: WHERE + pack_text(b"b"),
    Request.WATCH: WHERE + pack_u32(9),
    Request.UNWATCH: pack_u32(9) + pack_u32(1),
}


@pytest.mark.parametrize("type", FIELDS, ids=[type.name for type in FIELDS])
def test_malformed_requests_end_the_channel(type: Request) -> None:
    whole = FIELDS[type]
    for payload in (*(whole[:size] for size in range(0, len(whole), 3)), whole + b"\0", b"\xff" * (len(whole) + 1)):
        with Supervised() as supervised:
            (answer,) = supervised.send([Frame(type, 9, payload)])
            with fails(errno.ENOTCONN):
                answer.result()
            assert b"fields" in supervised.last_words
    with Supervised() as supervised:  # well formed: about nothing that there is
        (answer,) = supervised.send([Frame(type, 9, whole)])
        assert answer.result()[0].type == (Reply.OK if type in (Request.CLOSE, Request.UNWATCH) else Reply.FAILED)


def test_a_closed_directory(dir: WireDir) -> None:
    dir.close()
    with fails(errno.EBADF):
        dir.stat("")


# Watching


def test_watching(dir: WireDir, tree: Path) -> None:
    (tree / "d/e").mkdir(parents=True)
    seen: list[Change] = []
    stop = dir.watch("d", seen.extend)
    assert seen == [Change("appeared", "d/e")]
    (tree / "d/e/f").write_text("x")
    (tree / "d/new/deep").mkdir(parents=True)
    _until(lambda: Change("appeared", "d/new/deep") in seen)
    (tree / "d/new/deep/g").write_text("x")
    _until(lambda: Change("appeared", "d/new/deep/g") in seen and Change("appeared", "d/e/f") in seen)
    (tree / "d/new").rename(tree / "away")
    _until(lambda: Change("vanished", "d/new") in seen)
    (tree / "away/deep/h").write_text("x")
    (tree / "d/e/f").unlink()
    _until(lambda: Change("vanished", "d/e/f") in seen)
    assert not [change for change in seen if change.path.endswith("/h")]
    stop()
    (tree / "d/late").write_text("")
    dir.stat("d/late")
    assert Change("appeared", "d/late") not in seen


def test_a_flood_of_changes(dir: WireDir, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than anybody takes: it says so, and goes on."""
    monkeypatch.setattr(watch, "_BACKLOG", 1_000)
    seen: list[Change] = []
    started, go_on = threading.Event(), threading.Event()

    def notify(changes: list[Change]) -> None:
        if seen or changes:
            started.set()
            go_on.wait(60)
        seen.extend(changes)

    stop = dir.watch("", notify)
    for _ in range(1_000):
        os.mkdir(tree / "x")
        os.rmdir(tree / "x")
    started.wait(60)
    assert dir.stat("").kind == "directory"
    go_on.set()
    _until(lambda: Change("overflow", "") in seen)
    (tree / "after").write_text("")
    _until(lambda: Change("appeared", "after") in seen)
    stop()


def test_watching_a_link_or_a_file(dir: WireDir, tree: Path) -> None:
    (tree / "f").write_text("")
    (tree / "l").symlink_to("/")
    for name, code in (("f", errno.ENOTDIR), ("l", errno.ELOOP), ("none", errno.ENOENT)):
        with fails(code):
            dir.watch(name, print)


def _until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)
