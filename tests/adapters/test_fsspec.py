"""The filesystem, by fsspec's own tests, and what they do not ask."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import fsspec  # type: ignore[import-untyped]
import pytest
from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]
from fsspec.tests import abstract  # type: ignore[import-untyped]

from paddock.adapters.fsspec import PaddockFileSystem
from paddock.errors import ClosedError
from paddock.sync import Sandbox
from paddock.testing import plant_link


class Fixtures(abstract.AbstractFixtures):  # type: ignore[misc]
    @pytest.fixture
    def fs(self, blocking: Sandbox) -> PaddockFileSystem:
        return PaddockFileSystem(blocking)

    @pytest.fixture
    def local_fs(self) -> LocalFileSystem:  # the suite's own is of a scope that pytest warns of
        return LocalFileSystem(auto_mkdir=True)

    @pytest.fixture
    def fs_path(self, fs: PaddockFileSystem) -> Iterator[str]:
        fs.makedirs("/workspace/tests")
        yield "/workspace/tests"
        fs.rm("/workspace/tests", recursive=True)


class TestCopy(abstract.AbstractCopyTests, Fixtures):  # type: ignore[misc]
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):  # type: ignore[misc]
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):  # type: ignore[misc]
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):  # type: ignore[misc]
    pass


class TestPipe(abstract.AbstractPipeTests, Fixtures):  # type: ignore[misc]
    pass


@pytest.fixture
def fs(blocking: Sandbox) -> Iterator[PaddockFileSystem]:
    made = PaddockFileSystem(blocking)
    yield made
    for name in blocking.list("/workspace"):
        blocking.delete(f"/workspace/{name}", recursive=True)


@pytest.fixture
def quick() -> Iterator[PaddockFileSystem]:
    """For what is the same everywhere."""
    with Sandbox.create("memory") as sandbox:
        yield PaddockFileSystem(sandbox)


def test_large_files_are_gathered_outside(fs: PaddockFileSystem) -> None:
    block = bytes(range(256)) * 1024
    with fs.open("/workspace/large", "wb", block_size=100_000) as file:
        for _ in range(3):
            file.write(block)
        assert not fs.exists("/workspace/large")
    with fs.open("/workspace/large", "ab", block_size=100_000) as file:
        assert file.tell() == 3 * len(block)
        file.write(b"end")
    assert fs.cat_file("/workspace/large") == block * 3 + b"end"
    assert fs.cat_file("/workspace/large", start=-5) == block[-2:] + b"end"
    assert fs.cat_file("/workspace/large", start=1, end=3) == block[1:3]
    assert fs.ls("/workspace", detail=False) == ["/workspace/large"]


def test_more_than_one_piece(quick: PaddockFileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.adapters.fsspec.PIECE", 10)
    monkeypatch.setattr("paddock.sandbox.files.MAX_READ", 20)
    quick.pipe_file("/workspace/f", bytes(range(95)))
    assert quick.cat_file("/workspace/f") == bytes(range(95))
    assert quick.cat_file("/workspace/f", 3, -2) == bytes(range(3, 93))
    assert quick.cat_file("/workspace/f", 90, 200) == bytes(range(90, 95))
    assert quick.cat_file("/workspace/f", 200) == b""


def test_links_that_nobody_can_follow() -> None:
    """Whoever is inside makes them, and what is beside them is seen all the same."""
    with Sandbox.create("namespaces") as sandbox:
        sandbox.exec("mkdir shut; ln -s shut/x denied; ln -s none gone; ln -s loop loop; chmod 0 shut; echo 12 > f")
        fs = PaddockFileSystem(sandbox)
        assert [fs.exists(f"/workspace/{name}") for name in ("denied", "gone", "loop", "f")] == [False] * 3 + [True]
        assert fs.du("/workspace") == 3
        assert fs.du("/workspace/f", total=False) == {"/workspace/f": 3}
        assert set(fs.du("/workspace", total=False).values()) == {0, 3}


def test_text_and_appending(quick: PaddockFileSystem) -> None:
    with quick.open("/workspace/notes.txt", "w") as file:
        file.write("one\n")
    with quick.open("/workspace/notes.txt", "a") as file:
        file.write("two\n")
    with quick.open("workspace/notes.txt", "r") as file:
        assert list(file) == ["one\n", "two\n"]
    quick.touch("/workspace/notes.txt", truncate=False)
    assert quick.size("/workspace/notes.txt") == 8
    quick.touch("/workspace/notes.txt")
    assert quick.size("/workspace/notes.txt") == 0
    assert quick.modified("/workspace/notes.txt").year >= 2026


def test_a_time_that_no_date_can_be(quick: PaddockFileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    quick.touch("/workspace/f")
    monkeypatch.setattr(quick, "info", lambda path: {"mtime": 1e18})
    assert quick.modified("/workspace/f").year == 9999


def test_a_transaction(quick: PaddockFileSystem) -> None:
    with quick.transaction:
        for size, name in ((3, "small"), (300_000, "large")):
            with quick.open(f"/workspace/{name}", "wb", block_size=100_000) as file:
                file.write(b"x" * size)
        assert quick.ls("/workspace") == []
    assert [entry["size"] for entry in quick.ls("/workspace")] == [300_000, 3]
    with pytest.raises(ZeroDivisionError), quick.transaction, quick.open("/workspace/never", "wb") as file:
        file.write(bytes(1 // 0))
    assert not quick.exists("/workspace/never")


def test_creating_only(fs: PaddockFileSystem, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"host")
    fs.put_file(tmp_path / "f", "/workspace/f", mode="create")
    with pytest.raises(FileExistsError, match="there already"):
        fs.put_file(tmp_path / "f", "/workspace/f", mode="create")
    with fs.open("/workspace/g", "xb") as file:
        file.write(b"first")
        fs.pipe_file("/workspace/g", b"meanwhile")
        with pytest.raises(FileExistsError):
            file.close()
    assert fs.cat_file("/workspace/g") == b"meanwhile"
    assert fs.ls("/workspace", detail=False) == ["/workspace/f", "/workspace/g"]


def test_directories(fs: PaddockFileSystem) -> None:
    with pytest.raises(FileNotFoundError, match="create_parents"):
        fs.mkdir("/workspace/a/b", create_parents=False)
    fs.mkdir("/workspace/a/b")
    with pytest.raises(FileExistsError):
        fs.mkdir("/workspace/a/b")
    with pytest.raises(FileExistsError):
        fs.makedirs("/workspace/a/b")
    fs.makedirs("/workspace/a/b", exist_ok=True)
    with pytest.raises(OSError, match="not empty"):
        fs.rmdir("/workspace/a")
    fs.rmdir("/workspace/a/b")
    fs.pipe_file("/workspace/a/f", b"1")
    with pytest.raises(NotADirectoryError, match="rm_file"):
        fs.rmdir("/workspace/a/f")
    with pytest.raises(OSError, match="not empty"):
        fs.rm_file("/workspace/a/")
    with pytest.raises(OSError, match="not empty"):
        fs.rm("/workspace/a")
    fs.rm("/workspace/a", recursive=True, maxdepth=2)
    assert fs.ls("/workspace") == []


def test_what_is_put_there_meanwhile_is_not_lost(fs: PaddockFileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    fs.mkdir("/workspace/d")
    listed = Sandbox.list

    def late(sandbox: Sandbox, path: str) -> list[str]:
        found = listed(sandbox, path)
        if path == "/workspace/d":
            sandbox.write("/workspace/d/f", "precious")
        return found

    monkeypatch.setattr(Sandbox, "list", late)
    with pytest.raises(OSError, match="not empty"):
        fs.rmdir("/workspace/d")
    monkeypatch.undo()
    assert fs.find("/workspace") == ["/workspace/d/f"]


def test_moving(fs: PaddockFileSystem) -> None:
    fs.pipe({"/workspace/one/f": b"f", "/workspace/g": b"g", "/workspace/h": b"h"})
    fs.mkdir("/workspace/two")
    fs.mv("/workspace/one", "/workspace/two")
    fs.mv("/workspace/g", "/workspace/two/renamed")
    fs.mv("/workspace/h*", "/workspace/two")
    assert fs.find("/workspace") == ["/workspace/two/h", "/workspace/two/one/f", "/workspace/two/renamed"]
    fs.rm("/workspace/two/r*")
    assert not fs.exists("/workspace/two/renamed")


def test_links(fs: PaddockFileSystem) -> None:
    plant_link(fs.sandbox._async, "/workspace/link", "f")
    assert fs.info("/workspace/")["type"] == "directory"
    assert [(entry["type"], entry["islink"]) for entry in fs.ls("/workspace")] == [("other", True)]
    fs.pipe_file("/workspace/f", b"123")
    (_, link) = fs.ls("/workspace")
    assert (link["type"], link["size"], link["destination"]) == ("file", 3, "f")


def test_links_do_not_lead_out_of_a_tree(fs: PaddockFileSystem, tmp_path: Path) -> None:
    fs.pipe({"/workspace/tree/f": b"1", "/workspace/other/precious": b"2"})
    for name, target in (("around", "."), ("again", "."), ("link", "../other")):
        plant_link(fs.sandbox._async, f"/workspace/tree/{name}", target)
    assert [path for path, _, _ in fs.walk("/workspace/tree")] == ["/workspace/tree"]
    assert fs.isdir("/workspace/tree/link")
    fs.get("/workspace/tree", str(tmp_path / "copy"), recursive=True)
    assert (tmp_path / "copy" / "f").read_bytes() == b"1"
    fs.rm("/workspace/tree", recursive=True, maxdepth=9)
    assert fs.find("/workspace") == ["/workspace/other/precious"]


def test_where_nothing_is_reachable(fs: PaddockFileSystem) -> None:
    with pytest.raises(PermissionError):
        fs.pipe_file("/proc/self/x", b"")
    with pytest.raises(FileNotFoundError):
        fs.cat_file("/workspace/nothing")
    assert "/workspace" in fs.ls("/", detail=False)


def test_no_sandbox() -> None:
    with pytest.raises(ValueError, match="paddock://NAME"):
        fsspec.filesystem("paddock")
    with pytest.raises(FileNotFoundError, match="nobody"):
        fsspec.open("paddock://nobody/workspace/f").open()


def test_views_are_kept_apart(quick: PaddockFileSystem) -> None:
    quick.pipe({"/workspace/a/f": b"a", "/workspace/b/f": b"b"})
    views = [fsspec.filesystem("paddock", sandbox=quick.sandbox.restrict(f"/workspace/{name}")) for name in "ab"]
    assert views[0].cat_file("/workspace/a/f") == b"a"
    with pytest.raises(PermissionError):
        views[1].cat_file("/workspace/a/f")
    with pytest.raises(PermissionError, match="read-only"):
        views[0].pipe_file("/workspace/a/f", b"")


def test_a_detached_sandbox_by_its_name() -> None:
    with Sandbox.create("namespaces", name="dataset", detached=True) as sandbox:
        try:
            with fsspec.open("paddock://dataset/workspace/data.csv", "w") as file:
                file.write("a,b\n1,2\n")
            assert sandbox.read("data.csv") == "a,b\n1,2\n"
            fs, path = fsspec.url_to_fs("paddock://dataset/workspace/data.csv")
            assert path == "/workspace/data.csv"
            assert fs.unstrip_protocol(path) == "paddock://dataset/workspace/data.csv"
            again = pickle.loads(pickle.dumps(fs))
            assert again.sandbox is fs.sandbox
            fs.close()
            with pytest.raises(ClosedError):
                again.ls("/workspace")
        finally:
            Sandbox.remove("dataset")


def test_another_sandbox_of_the_same_name() -> None:
    """One that ended is not used again when its name is."""
    for content in ("first", "second"):
        with Sandbox.create("namespaces", name="again", detached=True) as sandbox:
            try:
                sandbox.write("f", content)
                fs, path = fsspec.url_to_fs("paddock://again/workspace/f")
                assert fs.cat_file(path) == content.encode()
            finally:
                Sandbox.remove("again")
    fs.close()
