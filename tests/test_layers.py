"""Layers over host directories in `namespaces`: what is seen in them, what they are made of, and that nothing stays."""

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import paddock
from layers import fingerprint, layers_of, only_copies, project, refused_overlays
from paddock import (
    ExistsError,
    LimitReachedError,
    Mount,
    NotEmptyError,
    NotFileError,
    NotFoundError,
    Sandbox,
    UnavailableError,
    UnsupportedError,
)
from paddock.backends.namespaces import launch as launching
from paddock.backends.namespaces import layers as layering
from paddock.dirs import copying
from paddock.dirs.remove import remove_tree
from paddock.progress import reporting
from paddock.review.bounds import Bounds
from paddock.sandbox import copies
from paddock.state import is_held, state_directory, sweep
from paddock.types.review import Layer
from security.test_crash import alive, descendants, mounts
from supervisor.marks import Mark, until

ROOT = os.geteuid() == 0
ODD = ["with space", "a,b", "a:b", "a\\b", "a\nb", "quote'\"", "-o", "ünïcode", "lowerdir=x,upperdir=y"]


@pytest.fixture(params=["overlay", "copy", "refused"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each kind of layer, and a copy because an overlay that was tried was refused."""
    ways: dict[str, Callable[[pytest.MonkeyPatch], None]] = {"copy": only_copies, "refused": refused_overlays}
    if request.param in ways:
        ways[request.param](monkeypatch)
    return "overlay" if request.param == "overlay" else "copy"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    return project(tmp_path / "host")


def private_files() -> list[str]:
    """What is left of sandboxes."""
    return [path.name for path in (state_directory() / "sandboxes").iterdir() if not path.name.startswith(".")]


async def done(*words: str) -> None:
    process = await asyncio.create_subprocess_exec(*words)
    assert await process.wait() == 0


async def test_files_and_commands_agree(kind: str, host: Path) -> None:
    before, began = fingerprint(host), time.time_ns()
    async with Sandbox.create("namespaces", workspace=host, review=True) as sb:
        layer = layers_of(sb)["/workspace"]
        assert (layer.kind, layer.lower, layer.target) == (kind, str(host), "/workspace")
        assert began < layer.since < time.time_ns()
        assert await sb.list(".") == [".git", "README", "empty", "link", "out", "run.sh", "src", "twin"]
        assert await sb.read("link") == "a = 1\n"
        await sb.write("README", "by a file call\n")
        await sb.write("src/new/deep", "made\n", mode=0o600)
        assert (await sb.exec("cat README src/new/deep; stat -c %a:%U README src/new/deep src/new")).stdout == (
            "by a file call\nmade\n644:agent\n600:agent\n755:agent\n"
        )
        assert (await sb.exec("echo by a command > README; mv src/a.py src/b.py; rm twin; mkdir made")).exit_code == 0
        assert await sb.read("README") == "by a command\n"
        assert await sb.list("src") == ["b.py", "deep", "new"]
        await sb.move("src/b.py", "src/c.py")
        await sb.move("src/new", "made/new")
        await sb.copy("made", "made-too")
        await sb.delete("src/deep", recursive=True)
        await sb.mkdir("src/deep")
        assert (await sb.exec("ls src src/deep made/new made-too/new; ./run.sh")).stdout == (
            "made-too/new:\ndeep\n\nmade/new:\ndeep\n\nsrc:\nc.py\ndeep\n\nsrc/deep:\nran\n"
        )
        owners = {
            path.lstat().st_uid for path in Path(layer.upper).rglob("*") if not stat.S_ISCHR(path.lstat().st_mode)
        }
        assert owners == {Path(layer.upper).stat().st_uid}
        assert not ROOT or owners != {0}
    assert fingerprint(host) == before
    assert private_files() == []


async def test_errors_are_those_of_other_mounts(kind: str, host: Path) -> None:
    async with Sandbox.create("namespaces", workspace=host, review=True) as sb:
        with pytest.raises(NotFoundError):
            await sb.read("none")
        with pytest.raises(ExistsError):
            await sb.move("README", "run.sh")
        with pytest.raises(NotEmptyError):
            await sb.delete("src")
        with pytest.raises(NotFileError):
            await sb.read("src")
        with pytest.raises(UnsupportedError):
            sb.resolve("src")
        await sb.delete("README")
        with pytest.raises(NotFoundError):
            await sb.read("README")
        await sb.write("README", "again")
        assert (await sb.exec("cat README")).stdout == "again"


async def test_what_holds_is_told(kind: str, host: Path, tmp_path: Path) -> None:
    async with Sandbox.create("namespaces", workspace=host, review=True) as sb:
        told = sb.isolation.files.by
    words = "an overlay" if kind == "overlay" else "a copy, because "
    assert f"; changes go to {words}" in told
    assert told.endswith(", the host's directories are not written")
    assert str(tmp_path) not in told
    async with Sandbox.create("namespaces", workspace=host) as sb:
        assert "changes go" not in sb.isolation.files.by
        assert layers_of(sb) == {}


@pytest.mark.parametrize("name", ODD)
async def test_any_name_of_a_directory(tmp_path: Path, name: str) -> None:
    host = project(tmp_path / name / name)
    before = fingerprint(host)
    async with Sandbox.create("namespaces", mounts=[Mount(host, "/project", mode="rw")], review=True) as sb:
        assert layers_of(sb)["/project"].kind == "overlay"
        assert (await sb.exec("cat README; echo x > README; cat README", cwd="/project")).stdout == "read me\nx\n"
    assert fingerprint(host) == before


async def test_several_layers(tmp_path: Path) -> None:
    hosts = [project(tmp_path / str(number)) for number in range(5)]
    shown = [Mount(host, f"/m/{host.name}", mode="rw") for host in hosts]
    async with Sandbox.create("namespaces", mounts=shown, review=True) as sb:
        assert sorted(layers_of(sb)) == [f"/m/{number}" for number in range(5)]
        assert (await sb.exec("for d in /m/*; do echo $d > $d/README; cat $d/README; done")).stdout == "".join(
            f"/m/{number}\n" for number in range(5)
        )
        assert (await sb.exec("cat /m/*/.git/config | wc -l")).stdout == "5\n"
    assert all((host / "README").read_text() == "read me\n" for host in hosts)


@pytest.mark.skipif(not ROOT, reason="only root has files of others")
@pytest.mark.parametrize("owner", [0, 1000])
@pytest.mark.parametrize("mode", [0o700, 0o755])
async def test_whose_it_is(kind: str, tmp_path: Path, owner: int, mode: int) -> None:
    host = project(tmp_path / "host", owner)
    host.chmod(mode)
    before = fingerprint(host)
    async with Sandbox.create("namespaces", workspace=host, review=True) as sb:
        assert (await sb.exec("stat -c %U:%a . README; echo x >> README")).stdout == f"agent:{mode:o}\nagent:644\n"
        await sb.write("src/a.py", "x")
        upper = Path(layers_of(sb)["/workspace"].upper)
        assert (upper / "README").stat().st_uid == (upper / "src/a.py").stat().st_uid != 0
        assert not owner or (upper / "README").stat().st_uid == owner
    assert fingerprint(host) == before


@pytest.mark.skipif(ROOT, reason="root can give files of others to a sandbox")
async def test_files_of_another_user_are_copied(tmp_path: Path) -> None:
    """An overlay could show them, and not change them."""
    others = Path(paddock.__file__).parent / "types"
    if others.stat().st_uid == os.geteuid():
        pytest.skip("this checkout is ours")
    async with Sandbox.create("namespaces", mounts=[Mount(others, "/m", mode="rw")], review=True) as sb:
        assert layers_of(sb)["/m"].kind == "copy"
        assert "because its files belong to another user" in sb.isolation.files.by
        assert (await sb.exec("echo x > /m/review.py; cat /m/review.py")).stdout == "x\n"
    assert (others / "review.py").read_text() != "x\n"


@pytest.mark.skipif(not ROOT, reason="only root can mount")
async def test_what_is_mounted_in_it_is_seen(host: Path) -> None:
    """An overlay would show what lies below."""
    await done("mount", "-t", "tmpfs", "tmpfs", str(host / "empty"))
    try:
        (host / "empty/inner").write_text("inner")
        async with Sandbox.create("namespaces", workspace=host, review=True) as sb:
            assert "because other file systems are mounted in it" in sb.isolation.files.by
            assert (await sb.exec("cat empty/inner; rm empty/inner")).stdout == "inner"
        assert (host / "empty/inner").read_text() == "inner"
    finally:
        await done("umount", str(host / "empty"))


@pytest.mark.skipif(not ROOT, reason="only root can mount")
@pytest.mark.parametrize("part", ["state", "host"])
async def test_where_the_kernel_really_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """An overlay is not the upper side of another, and root's files on one cannot be given away; in memory both can be."""
    made = tmp_path / "made"
    for name in ("lower", "upper", "work"):
        (made / name).mkdir(parents=True)
    options = f"lowerdir={made}/lower,upperdir={made}/upper,workdir={made}/work"
    for number, (kind, words) in enumerate({"copy": ["overlay", "-o", options], "overlay": ["tmpfs"]}.items()):
        there = tmp_path / f"there-{number}"
        there.mkdir()
        await done("mount", "-t", *words, "none", str(there))
        monkeypatch.setattr(layering, "_refused", {})  # this one may have the number of the one before
        try:
            if part == "state":
                monkeypatch.setenv("PADDOCK_STATE", str(there / "state"))
            host = project((tmp_path if part == "state" else there) / f"host-{number}")
            before = fingerprint(host)
            async with Sandbox.create("namespaces", workspace=host, review=True) as sb:
                assert layers_of(sb)["/workspace"].kind == kind
                assert ("cannot be had on these file systems" in sb.isolation.files.by) == (kind == "copy")
                assert (await sb.exec("rm -r src; mkdir src; echo x > README; cat README")).stdout == "x\n"
            assert fingerprint(host) == before
        finally:
            await done("umount", "-l", str(there))


def test_a_link_on_the_way_to_the_host_directory(tmp_path: Path) -> None:
    """Whoever owns a directory above it can put one there for a moment: a restore would bring somebody else's files."""
    host = project(tmp_path / "above/host")
    layer = Layer("/workspace", str(host), str(tmp_path / "upper"), "overlay", 0)
    with copies.lower(layer) as directory:
        assert directory.stat("README").kind == "file"
    (tmp_path / "above").rename(tmp_path / "away")
    (tmp_path / "above").symlink_to(tmp_path / "away")
    with pytest.raises(OSError, match="links"), copies.lower(layer):
        pass


async def test_a_look_has_an_end(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox that makes a look last is no way to hold up who looks."""
    async with Sandbox.create("namespaces", workspace=host, review=True) as sb:
        await sb.write("new", "x\n")
        assert len(await sb.changes()) == 1
        usual: Any = Bounds.__init__
        monkeypatch.setitem(usual.__kwdefaults__, "seconds", -1.0)
        with pytest.raises(LimitReachedError, match="Looking"):
            await sb.changes()


@pytest.mark.parametrize("swap", ["directory", "link"])
async def test_a_directory_that_is_swapped(host: Path, monkeypatch: pytest.MonkeyPatch, swap: str) -> None:
    """It was opened, and then another one was put in its place: of which would changes be told?"""
    original: Any = getattr(launching, "start_early")  # noqa: B009
    aside = host.with_name("aside")

    def swapped(*arguments: Any) -> Any:
        host.rename(aside)
        if swap == "link":
            host.symlink_to("/etc")
        else:
            host.mkdir()
            (host / "README").write_text("another")
        return original(*arguments)

    monkeypatch.setattr(launching, "start_early", swapped)
    with pytest.raises(UnavailableError, match="replaced meanwhile"):
        await Sandbox.create("namespaces", workspace=host, review=True)
    assert private_files() == []


async def test_an_overlay_that_is_refused_is_not_tried_again(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused_overlays(monkeypatch)
    for tries in (2, 1):
        started = 0
        original: Any = getattr(launching, "start_early")  # noqa: B009

        def counted(*arguments: Any, original: Any = original) -> Any:
            nonlocal started
            started += 1
            return original(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(launching, "start_early", counted)
            async with Sandbox.create("namespaces", workspace=host, review=True) as sb:
                assert "because an overlay cannot be had here" in sb.isolation.files.by
        assert started == tries
    assert private_files() == []


async def test_a_state_directory_without_marks(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layering, "_takes_marks", lambda _: False)
    async with Sandbox.create("namespaces", workspace=host, review=True) as sb:
        assert layers_of(sb)["/workspace"].kind == "copy"
        assert "cannot mark what is deleted" in sb.isolation.files.by


@pytest.mark.parametrize("refused", [False, True])
async def test_detached(host: Path, monkeypatch: pytest.MonkeyPatch, refused: bool) -> None:
    before = fingerprint(host)
    if refused:
        refused_overlays(monkeypatch)
    made = await Sandbox.create("namespaces", workspace=host, review=True, detached=True)
    try:
        expected, told = layers_of(made), made.isolation
        assert expected["/workspace"].kind == ("copy" if refused else "overlay")
        await made.exec("echo x > README; rm -r src")
        await made.close()
        async with await Sandbox.connect(made.id) as sb:
            assert (layers_of(sb), sb.isolation) == (expected, told)
            assert (await sb.read("README"), await sb.exists("src")) == ("x\n", False)
            with pytest.raises(UnsupportedError):
                sb.resolve("README")
    finally:
        await Sandbox.remove(made.id)
    assert fingerprint(host) == before
    assert private_files() == []


CREATOR = """
import asyncio, os, sys
from paddock import Sandbox

async def main():
    async with Sandbox.create("namespaces", workspace=sys.argv[1], review=True) as sb:
        await sb.exec("rm -r src README; mkdir src; echo x > src/new; chmod 0 src")
        await sb.start(["sleep", "100"], env=dict([sys.argv[2].split("=")]))
        print(os.getpid(), flush=True)
        await asyncio.sleep(100)

asyncio.run(main())
"""


@pytest.mark.alone  # it compares all mounts of this host
async def test_a_killed_host(host: Path) -> None:
    mark, before, known = Mark(), fingerprint(host), mounts()
    environment = {**os.environ, "PYTHONPATH": str(Path(paddock.__file__).parent.parent)}
    words = [sys.executable, "-c", CREATOR, str(host), "=".join(*mark.env.items())]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        try:
            assert int(process.stdout.readline()) == process.pid
            assert await until(lambda: bool(mark.pids()))
            below = descendants(process.pid) - {process.pid}
        finally:
            process.send_signal(signal.SIGKILL)
    assert await until(lambda: not any(alive(pid) for pid in below))
    (lock,) = [name for name in private_files() if name.endswith(".lock")]
    assert await until(lambda: not is_held(lock.removesuffix(".lock")))
    assert mounts() == known
    assert await until(sweep)
    assert private_files() == []
    assert fingerprint(host) == before


class TestCopies:
    """What is copied, and what is written down about it."""

    def copied(
        self, host: Path, tmp_path: Path, owner: tuple[int, int] | None = None
    ) -> tuple[Path, list[list[Any]], int]:
        target, base = tmp_path / "copy", tmp_path / "base"
        source = os.open(host, os.O_PATH | os.O_DIRECTORY)
        try:
            left_out = copying.copy_tree(copying.Copy(source, str(target), str(base), owner))
        finally:
            os.close(source)
        first, *lines = base.read_text(encoding="ascii").splitlines()
        assert json.loads(first) == {"version": 1}
        assert base.stat().st_mode & 0o777 == 0o600
        return target, [json.loads(line) for line in lines], left_out

    def test_what_is_written_down(self, host: Path, tmp_path: Path) -> None:
        os.mkfifo(host / "fifo")
        (host / os.fsdecode(b"\xff\n")).write_text("odd")
        (host / "run.sh").chmod(0o4755)
        (host / "src/deep").chmod(0o2555)
        (host / ".git").chmod(0o500)
        before = fingerprint(host)
        owner = (12345, 12345) if ROOT else None
        copy, entries, left_out = self.copied(host, tmp_path, owner)
        assert left_out == 0
        assert fingerprint(host) == before
        expected = {path.relative_to(host) for path in host.rglob("*")} - {Path("fifo")}
        assert {Path(entry[0]) for entry in entries} == expected
        assert {path.relative_to(copy) for path in copy.rglob("*")} == expected
        for path, kind, mode, size, lower_ctime, ino, ctime, target in entries:
            below, there = (host / path).lstat(), (copy / path).lstat()
            assert (there.st_ino, there.st_ctime_ns, there.st_size) == (ino, ctime, size)
            assert below.st_ctime_ns == lower_ctime
            assert stat.S_IMODE(there.st_mode) == mode
            assert there.st_mtime_ns == below.st_mtime_ns
            assert (there.st_uid, there.st_gid) == (owner or (os.geteuid(), os.getegid()))
            assert {"file": stat.S_ISREG, "directory": stat.S_ISDIR, "link": stat.S_ISLNK}[kind](there.st_mode)
            if kind == "link":
                assert os.readlink(copy / path) == os.readlink(host / path) == target
            else:
                assert target is None
                assert mode == stat.S_IMODE(below.st_mode) & 0o1777
            if kind == "file":
                assert (copy / path).read_bytes() == (host / path).read_bytes()
                assert (there.st_nlink, os.listxattr(copy / path)) == (1, [])
        (host / ".git").chmod(0o700)
        (copy / ".git").chmod(0o700)

    def test_large_and_sparse_files(self, host: Path, tmp_path: Path) -> None:
        content = os.urandom(3 << 20)
        (host / "large").write_bytes(content)
        with (host / "sparse").open("wb") as file:
            file.seek(20 << 20)
            file.write(b"middle")
            file.truncate(1 << 40)
        copy, _, _ = self.copied(host, tmp_path)
        assert (copy / "large").read_bytes() == content
        assert (copy / "sparse").stat().st_size == 1 << 40
        assert (copy / "sparse").stat().st_blocks < 1000
        with (copy / "sparse").open("rb") as file:
            file.seek((20 << 20) - 3)
            assert file.read(12) == b"\0\0\0middle\0\0\0"

    @pytest.mark.parametrize("missing", [(), ("copy_file_range",), ("copy_file_range", "sendfile")])
    def test_every_way_to_copy(
        self, host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: tuple[str, ...]
    ) -> None:
        def refuse(*_: Any) -> int:
            raise OSError(38, "not here")

        for name in missing:
            monkeypatch.setattr(os, name, refuse)
        content = os.urandom(1 << 20)
        (host / "large").write_bytes(content)
        copy, _, _ = self.copied(host, tmp_path)
        assert (copy / "large").read_bytes() == content

    def test_deep(self, host: Path, tmp_path: Path) -> None:
        """Deeper than any path can say; and not for ever."""
        here = os.open(host, os.O_RDONLY)
        for _ in range(600):
            os.mkdir("d" * 20, dir_fd=here)
            deeper = os.open("d" * 20, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = deeper
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=here))
        os.close(here)
        copy, entries, _ = self.copied(host, tmp_path)
        assert "/".join(["d" * 20] * 600) + "/file" in {entry[0] for entry in entries}
        above = os.open(tmp_path, os.O_RDONLY)
        for made in (copy, host):  # which pytest could not
            remove_tree(above, os.fsencode(made.name))
        os.close(above)

    def test_too_deep(self, host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(copying, "DEEPEST", 2)
        (host / "1/2/3").mkdir(parents=True)
        with pytest.raises(OSError, match="too deep"):
            self.copied(host, tmp_path)

    def test_what_cannot_be_read_is_left_out(self, host: Path, tmp_path: Path) -> None:
        (host / "closed").mkdir()
        (host / "closed/file").write_text("x")
        (host / "secret").write_text("x")
        if ROOT:  # a third user's, in a directory of the second's
            for path in (host, *host.rglob("*")):
                os.chown(path, 1000, 1000, follow_symlinks=False)
            for name in ("closed", "secret"):
                os.chown(host / name, 1001, 1001)
                (host / name).chmod(0o700)
        else:
            for name in ("closed", "secret"):
                (host / name).chmod(0)
        copy, entries, left_out = self.copied(host, tmp_path, (12345, 12345) if ROOT else None)
        assert left_out == 2
        assert not {"closed", "secret"} & {entry[0] for entry in entries}
        assert not (copy / "closed").exists()
        assert (copy / "README").exists()
        (host / "closed").chmod(0o700)

    async def test_progress_and_cancelling(self, host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It says what it does, and when nobody waits any more it ends, and nothing of it is left."""
        only_copies(monkeypatch)
        monkeypatch.setattr("paddock.backends.namespaces.copies._SECONDS_BETWEEN_WORDS", 0.0)
        original = os.readlink

        def slow(*arguments: Any, **options: Any) -> Any:
            time.sleep(0.2)
            return original(*arguments, **options)

        monkeypatch.setattr(os, "readlink", slow)
        for number in range(100):
            (host / f"link-{number}").symlink_to("x")
        said: list[tuple[str, bool]] = []
        told = asyncio.Event()

        def listen(words: str, detail: bool) -> None:
            said.append((words, detail))
            told.set()

        async def make() -> Sandbox:
            return await Sandbox.create("namespaces", workspace=host, review=True)

        with reporting(listen):
            making = asyncio.ensure_future(make())
        await asyncio.wait_for(told.wait(), 30)
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making
        assert said[0] == ("copying /workspace for review", False)
        assert said[1][1]
        assert private_files() == []
