"""What changed is found: each operation, nothing else, and at a cost that grows with it alone."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from paddock.errors import LimitReachedError, TooLargeError
from paddock.review import find, look
from paddock.review.bounds import Bounds
from paddock.review.tree import Seen, _looked
from paddock.types.review import EXECUTABLE, LEADS_OUT, NOT_APPLICABLE, Change
from review.layers import by_path, copied, edit, mounted, operations


def project(top: Path) -> None:
    (top / "src" / "deep").mkdir(parents=True)
    (top / "src" / "a.py").write_text("one\ntwo\nthree\n")
    (top / "src" / "b.py").write_text("keep\n")
    (top / "src" / "deep" / "c.py").write_text("deep\n")
    (top / "data.bin").write_bytes(b"\0\1\2" * 100)
    (top / "link").symlink_to("src/a.py")
    (top / "run.sh").write_text("#!/bin/sh\n")


EDITS = r"""
printf 'one\n2\nthree\n' > src/a.py
echo new > new.txt
rm src/b.py
printf more >> data.bin
chmod 755 run.sh
rm link; ln -s src link
mkdir made; printf x > made/x
"""
FOUND = {
    "data.bin": "update",
    "link": "link",
    "made": "create",
    "made/x": "create",
    "new.txt": "create",
    "run.sh": "mode",
    "src/a.py": "update",
    "src/b.py": "delete",
}


def test_each_operation_in_an_overlay(tmp_path: Path) -> None:
    with mounted(tmp_path, project) as box:
        box.sh(EDITS)
        found = find([box.layer])
    assert operations(found) == FOUND
    assert [change.path for change in found] == sorted(change.path for change in found)
    check_details(by_path(found))


def test_each_operation_in_a_copy(tmp_path: Path) -> None:
    layer = copied(tmp_path, project)
    edit(layer, EDITS)
    found = find([layer])
    assert operations(found) == FOUND
    check_details(by_path(found))


def check_details(changes: dict[str, Change]) -> None:
    edit = changes["src/a.py"]
    assert edit.diff == "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    assert (edit.added, edit.removed, edit.size, edit.kind) == (1, 1, 12, "file")
    assert changes["data.bin"].diff is None
    assert changes["data.bin"].size == 304
    assert changes["src/b.py"].diff == "--- a/src/b.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-keep\n"
    assert changes["new.txt"].diff == "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+new\n"
    assert (changes["run.sh"].old_mode, changes["run.sh"].mode) == (0o644, 0o755)
    assert changes["run.sh"].flags == (EXECUTABLE,)
    assert changes["link"].target == "src"
    assert all(change.conflict is None for change in changes.values())


def test_what_is_as_it_was_is_not_told(tmp_path: Path) -> None:
    with mounted(tmp_path, project) as box:
        box.do("""
        import os
        os.utime("src/a.py")
        os.chmod("run.sh", 0o700); os.chmod("run.sh", 0o644)
        data = open("data.bin", "rb").read(); open("data.bin", "wb").write(data)
        open("gone", "w").close(); os.remove("gone")
        os.mkdir("src/tmp"); os.rmdir("src/tmp")
        os.link("src/b.py", "src/b2.py")
        """)
        assert operations(find([box.layer])) == {"src/b2.py": "create"}


def test_whole_directories(tmp_path: Path) -> None:
    """A directory that is gone lists what was in it; one in its place is compared with it."""
    with mounted(tmp_path, project) as box:
        box.sh("rm -r src; mkdir src; printf 'keep\\n' > src/b.py; echo other > src/a.py")
        assert operations(find([box.layer])) == {"src/a.py": "update", "src/deep": "delete", "src/deep/c.py": "delete"}
        box.sh("rm -r src")
        assert operations(find([box.layer])) == {
            "src": "delete",
            "src/a.py": "delete",
            "src/b.py": "delete",
            "src/deep": "delete",
            "src/deep/c.py": "delete",
        }


def test_kinds_that_change(tmp_path: Path) -> None:
    with mounted(tmp_path, project) as box:
        box.sh("rm -r src; echo file > src; rm data.bin; mkdir data.bin; echo x > data.bin/x; rm link; echo l > link")
        found = by_path(find([box.layer]))
    assert {path: (change.operation, change.kind, change.old_kind) for path, change in found.items()} == {
        "data.bin": ("update", "directory", "file"),
        "data.bin/x": ("create", "file", None),
        "link": ("update", "file", "link"),
        "src": ("update", "file", "directory"),
        "src/a.py": ("delete", "file", "file"),
        "src/b.py": ("delete", "file", "file"),
        "src/deep": ("delete", "directory", "directory"),
        "src/deep/c.py": ("delete", "file", "file"),
    }


def test_renames(tmp_path: Path) -> None:
    """Proven by what is in it, each file once; the same name first."""

    def fill(top: Path) -> None:
        (top / "a").mkdir()
        for name in ("a/one", "two"):
            (top / name).write_text("the same\n")
        (top / "empty").touch()

    with mounted(tmp_path, fill) as box:
        box.sh("mkdir b; mv a/one b/one; rmdir a; mv two three; cp three four; mv empty void; chmod 755 three")
        found = by_path(find([box.layer]))
    assert {path: (change.operation, change.old_path) for path, change in found.items()} == {
        "a": ("delete", None),
        "b": ("create", None),
        "b/one": ("rename", "/workspace/a/one"),
        "empty": ("delete", None),
        "four": ("rename", "/workspace/two"),
        "three": ("create", None),
        "void": ("create", None),
    }
    assert found["b/one"].size == 9


def test_special_files(tmp_path: Path) -> None:
    """They are told and never opened; a file beside them is read."""
    with mounted(tmp_path, project) as box:
        box.do("""
        import os, socket
        os.mkfifo("pipe")
        os.remove("run.sh"); os.mkfifo("run.sh")
        socket.socket(socket.AF_UNIX).bind("socket")
        open("file", "w").write("file")
        """)
        found = by_path(find([box.layer]))
    assert {path: (change.kind, change.flags) for path, change in found.items()} == {
        "file": ("file", ()),
        "pipe": ("other", (NOT_APPLICABLE,)),
        "run.sh": ("other", (NOT_APPLICABLE,)),
        "socket": ("other", (NOT_APPLICABLE,)),
    }


@pytest.mark.parametrize(
    ("target", "out"),
    [
        ("a.py", False),
        ("../link", False),
        ("deep/../a.py", False),
        ("nowhere", False),
        ("../../x", True),
        ("/etc/passwd", True),
        ("/workspace/src/a.py", True),
        ("root/../x", True),
        ("away/x", True),
    ],
)
def test_links_that_lead_out(tmp_path: Path, target: str, out: bool) -> None:
    def fill(top: Path) -> None:
        project(top)
        (top / "src" / "root").symlink_to("..")
        (top / "src" / "away").symlink_to("/etc")

    with mounted(tmp_path, fill) as box:
        box.do(f"import os; os.symlink({target!r}, 'src/new')")
        (change,) = find([box.layer])
    assert change.flags == ((LEADS_OUT,) if out else ())
    assert change.target == target


HOSTILE = ["new\nline", "\x1b[31mred", "\u202egnp.exe", "-rf", "bytes-\udcff", " ", "it's", '"', "*"]


def test_hostile_names(tmp_path: Path) -> None:
    with mounted(tmp_path, project) as box:
        box.do(f"""
        import os
        for name in {HOSTILE!r}:
            open(os.fsencode(name), "w").write("x\\n")
        """)
        found = find([box.layer])
    assert sorted(by_path(found)) == sorted(HOSTILE)
    assert all(change.diff is not None and change.diff.count("\n") == 4 for change in found)
    assert all(
        change.diff is not None and "\x1b" not in change.diff and "\u202e" not in change.diff for change in found
    )


def test_deep_trees(tmp_path: Path) -> None:
    """Deeper than a path can be long."""
    name = "d" * 20
    with mounted(tmp_path, project) as box:
        box.do(f"""
        import os
        here = os.getcwd()
        for level in range(720):
            os.mkdir({name!r}); os.chdir({name!r})
        open("file", "w").write("at the bottom\\n")
        os.chdir(here)
        """)
        found = find([box.layer])
        assert len(found) == 721
        assert found[-1].path == "/workspace/" + f"{name}/" * 720 + "file"
        assert found[-1].diff is not None
        box.do(f"""
        import os
        here = os.getcwd()
        os.chdir({name!r})
        for level in range(5):
            while True:
                try:
                    os.chdir({name!r})
                except OSError:
                    break
            for more in range(900):
                os.mkdir({name!r}); os.chdir({name!r})
        os.chdir(here)
        """)
        with pytest.raises(TooLargeError, match="levels deep"):
            find([box.layer])


def test_deep_trees_with_long_names(tmp_path: Path) -> None:
    """What is looked at has to fit into memory: a path counts for as much as it is long."""
    with mounted(tmp_path) as box:
        box.do("""
            import os
            for _ in range(300):
                os.mkdir("d" * 250); os.chdir("d" * 250)
            for number in range(40):
                open(f"{number}", "w").close()
        """)
        found = look([box.layer], Bounds(entries=100_000))
        assert len(found.found) == 340
        with pytest.raises(TooLargeError, match="files and directories"):
            look([box.layer], Bounds(entries=50_000))


def test_a_directory_with_too_many_is_not_looked_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with mounted(tmp_path) as box:
        box.sh("mkdir d; touch d/1 d/2 d/3")
        assert len(find([box.layer])) == 4
        monkeypatch.setattr("paddock.review.bounds.MOST_ENTRIES", 2)
        monkeypatch.setattr("paddock.review.tree._looked", _looked_at_few)
        with pytest.raises(TooLargeError, match="More than 2 files"):
            find([box.layer])


def _looked_at_few(directory: int, names: Iterable[str]) -> dict[str, Seen]:
    assert len(list(names)) <= 2
    return _looked(directory, names)


def test_directories_that_cannot_be_read(tmp_path: Path) -> None:
    with mounted(tmp_path, project) as box:
        box.sh("mkdir shut; echo x > shut/x; mkdir shut/in; echo y > shut/in/y; chmod 000 shut/in shut/x shut")
        found = by_path(find([box.layer]))
        assert {path: (change.operation, change.mode) for path, change in found.items()} == {
            "shut": ("create", 0),
            "shut/in": ("create", 0),
            "shut/in/y": ("create", 0o644),
            "shut/x": ("create", 0),
        }
        assert os.lstat(box.upper / "shut").st_mode & 0o777 == 0


def test_package_scripts(tmp_path: Path) -> None:
    """Flagged when they change, or when the file is too large to be looked into; else not."""

    def fill(top: Path) -> None:
        (top / "package.json").write_text('{"scripts": {"test": "true"}, "version": "1"}')

    with mounted(tmp_path, fill) as box:
        for content, flagged in (
            ('{"scripts": {"test": "true"}, "version": "2"}', False),
            ('{"scripts": {"test": "evil"}, "version": "1"}', True),
            ('{"scripts": {"test": "true"}, "version": "' + "1" * (1 << 20) + '"}', True),
        ):
            box.do(f"open('package.json', 'w').write({content!r})")
            (change,) = find([box.layer])
            assert change.flags == ((EXECUTABLE,) if flagged else ())


def test_large_files(tmp_path: Path) -> None:
    """Text above 1 MiB has a hash and no diff; what is endless is told with the rest, and not read."""
    with mounted(tmp_path, project) as box:
        box.sh("yes | head -c 1048577 > large; yes | head -c 1048576 > fits")
        found = by_path(find([box.layer]))
        assert (found["large"].diff, found["large"].size, found["large"].sha256 is None) == (None, 1048577, False)
        assert found["fits"].added == 524288
        box.sh("truncate -s 1T endless src/a.py")
        bounds = Bounds()
        found = by_path(find([box.layer], bounds))
        assert bounds.size < 1 << 22
        assert found["fits"].added == 524288
        for name, operation in (("endless", "create"), ("src/a.py", "update")):
            change = found[name]
            assert (change.operation, change.size, change.sha256) == (operation, 1 << 40, None)
            assert change.flags == (NOT_APPLICABLE,)


@pytest.mark.parametrize("files", [10, 100, 1000])
def test_the_cost_is_that_of_the_changes(tmp_path: Path, files: int) -> None:
    def fill(top: Path) -> None:
        for directory in range(10):
            (top / f"d{directory}").mkdir()
            for number in range(files):
                (top / f"d{directory}" / f"f{number}").write_text(f"{number}\n")

    with mounted(tmp_path, fill) as box:
        box.sh("for d in 1 2 3 4 5; do echo changed > d$d/f1; rm d$d/f2; done")
        bounds = Bounds()
        found = find([box.layer], bounds)
    assert len(found) == 10
    assert (bounds.entries, bounds.size) == (15, 5 * len("changed\n") + 5 * len("1\n") + 5 * len("2\n"))


def test_bounds(tmp_path: Path) -> None:
    """Too many, too large, too long, or nobody waits any more; just enough is found."""

    class GoneError(Exception):
        """Nobody waits."""

    def gone() -> None:
        raise GoneError

    with mounted(tmp_path, project) as box:
        box.sh("mkdir many; cd many; for i in $(seq 50); do echo $i > $i; done")
        with pytest.raises(TooLargeError, match="files and directories"):
            find([box.layer], Bounds(entries=50))
        with pytest.raises(TooLargeError, match="bytes"):
            find([box.layer], Bounds(size=50))
        with pytest.raises(LimitReachedError, match="seconds"):
            find([box.layer], Bounds(seconds=0))
        with pytest.raises(GoneError):
            find([box.layer], Bounds(check=gone))
        assert len(find([box.layer], Bounds(entries=51, size=1000))) == 51
