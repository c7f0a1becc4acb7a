"""Calls that are cancelled, closed, starved or interrupted in the middle: nothing outlives them, nothing half-done stays."""

import asyncio
import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from paddock import (
    ConfigError,
    Limits,
    Mount,
    NotFoundError,
    PermissionDeniedError,
    QuotaExceededError,
    Sandbox,
    SandboxError,
    TooLargeError,
    UnavailableError,
)
from paddock.dirs import descriptor
from paddock.dirs.descriptor import DescriptorDir
from paddock.dirs.protocol import Write
from paddock.state import sweep


def _watchers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "paddock-watch"]


async def test_however_often_it_is_cancelled_a_thread_ends_first() -> None:
    async with Sandbox.create("local") as sb:
        files: dict[str, str | bytes] = {f"d{n % 50}/f{n}": "x" for n in range(5_000)}
        task = asyncio.ensure_future(sb.write_files(files))
        while not sb._core.threads:
            await asyncio.sleep(0)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0.001)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not sb._core.threads
        assert await sb.glob("**/f*") == []
        assert await sb.list() == []


async def test_a_lease_does_not_stop_the_loop(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    (workspace / "d").mkdir(parents=True)
    (workspace / "d/f").write_text("x")
    hold = "import fcntl,os,signal,sys; signal.signal(signal.SIGIO, signal.SIG_IGN); f=open(sys.argv[1],'r+');"
    hold += "fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK); print('held', flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, str(workspace / "d/f")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        async with asyncio.timeout(20), Sandbox.create("local", workspace=workspace) as sb:
            with pytest.raises(PermissionDeniedError, match="locked"):
                await sb.read("d/f")
    finally:
        holder.kill()
        holder.communicate()


async def test_watching_many_deletions_is_not_quadratic() -> None:
    async with asyncio.timeout(60), Sandbox.create("local") as sb:
        await sb.write_files({f"many/{n}": "" for n in range(10_000)})
        async with sb.watch() as watch:
            await sb.delete("many", recursive=True)
            seen = 0
            async for event in watch:
                seen += event.kind == "deleted"
                if event.kind == "overflow" or seen == 10_001:
                    break


@pytest.mark.parametrize("backend", ["memory", "local"])
async def test_a_watch_ends_with_its_directory(backend: str) -> None:
    async with asyncio.timeout(20), Sandbox.create(backend) as sb:
        for end in ("delete", "move"):
            await sb.write("d/f", "x")
            async with sb.watch("d") as watch:
                await (sb.delete("d", recursive=True) if end == "delete" else sb.move("d", "e"))
                seen = [(event.kind, event.path) async for event in watch]
            assert seen[-1] == ("deleted", "/workspace/d")
    assert not _watchers()


async def test_a_watch_that_is_given_up_while_it_starts() -> None:
    async with Sandbox.create("local") as sb:
        for wait in (0, 0.001):
            watch = sb.watch()
            task = asyncio.ensure_future(anext(watch))
            await asyncio.sleep(wait)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await watch.aclose()
        missing = sb.watch("missing")
        for _ in range(2):
            with pytest.raises(NotFoundError):
                await anext(missing)
        started = sb.watch()
        waiting = asyncio.ensure_future(anext(started))
        await asyncio.sleep(0)
    with pytest.raises((StopAsyncIteration, SandboxError)):
        await waiting
    assert not _watchers()


@pytest.mark.parametrize("pattern", ["/".join(["**"] * 2_000), "/".join(["*a"] * 65), "x" * 5_000])
async def test_patterns_are_bounded(pattern: str) -> None:
    async with Sandbox.create("memory") as sb:
        await sb.write("f", "x")
        try:
            assert await sb.grep("x", glob=pattern) is not None
        except SandboxError as error:
            assert error.code == "INVALID_PATH"  # noqa: PT017 - either is fine, at once
        with pytest.raises(ConfigError):
            await sb.grep("x", limit=10**9)


@contextmanager
def tiny(path: Path, size: str) -> Iterator[Path]:
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(path)], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
async def test_a_full_disk_leaves_nothing_half_done(tmp_path: Path) -> None:
    with tiny(tmp_path / "small", "size=256k") as small:
        (small / "w").mkdir()
        async with Sandbox.create("local", workspace=small / "w") as sb:
            await sb.write("keep", "old")
            for attempt in (
                sb.write("large", b"x" * 500_000),
                sb.write_files({"keep": "new", "a/b/c": b"x" * 500_000}),
                sb.write_files({"keep": "new", "deep/er/one": b"x" * 100_000, "two": b"x" * 200_000}),
            ):
                with pytest.raises(QuotaExceededError):
                    await attempt
            assert await sb.list() == ["keep"]
            assert await sb.read("keep") == "old"
            await sb.write("source", b"x" * 150_000)
            with pytest.raises(QuotaExceededError):
                await sb.copy("source", "new/place/copy")
            assert await sb.list() == ["keep", "source"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
async def test_no_room_for_the_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_AUDIT", "off")
    with tiny(tmp_path / "small", "nr_inodes=4") as small:
        monkeypatch.setenv("PADDOCK_STATE", str(small / "s"))
        for _ in range(3):
            with pytest.raises(UnavailableError) as caught:
                await Sandbox.create("local")
            assert str(tmp_path) not in str(caught.value)
        assert [p.name for p in (small / "s/sandboxes").iterdir()] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
async def test_what_cannot_be_removed_is_told_and_tried_again() -> None:
    sb = await Sandbox.create("local")
    real = Path(sb.resolve("/workspace"))
    with tiny(real / "mounted", "size=64k") as other:
        (other / "precious").write_text("x")
        with pytest.raises(SandboxError, match="could not be removed"):
            await sb.close()
        await sb.close()
        assert (other / "precious").read_text() == "x"
        assert sweep() == 0
    assert sweep() == 1
    assert not real.exists()


def test_rollback_goes_on_when_one_file_is_gone(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text("old")
    tree = DescriptorDir.at(str(tmp_path))
    stage = tree.stage([Write(name, b"new") for name in "abc"])
    stage.commit()
    (tmp_path / "c").unlink()
    stage.rollback()
    stage.finish()
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a": "old", "b": "old"}
    tree.close()


def test_without_renameat2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(descriptor, "rename", refused)
    tree = DescriptorDir.at(str(tmp_path))
    (tmp_path / "a").write_text("old")
    stage = tree.stage([Write("a", b"new"), Write("b", b"new")])
    stage.commit()
    stage.rollback()
    stage.finish()
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a": "old"}
    with pytest.raises(FileExistsError):
        tree.write("a", b"x", None, replace=False)
    tree.rename("a", "c", replace=False)
    assert (tmp_path / "c").read_text() == "old"
    tree.close()


async def test_rules_hold_for_what_is_renamed_or_grows(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "secret.exe").write_text("secret")
    mount = Mount(notes, "/notes", "rw", suffixes=(".md",), max_file_bytes=1_000)
    async with Sandbox.create("local", mounts=[mount]) as sb:
        with pytest.raises(PermissionDeniedError):
            await sb.move("/notes/secret.exe", "/notes/s.md")
        source = Path(sb.resolve("/workspace")) / "f.md"
        stop = threading.Event()

        def toggle() -> None:
            while not stop.is_set():
                source.write_bytes(b"x")
                source.write_bytes(b"x" * 5_000)

        thread = threading.Thread(target=toggle)
        thread.start()
        try:
            for number in range(200):
                try:
                    await sb.copy("f.md", f"/notes/{number}.md")
                except (TooLargeError, NotFoundError):
                    continue
        finally:
            stop.set()
            thread.join()
        assert all(entry.size <= 1_000 for entry in await sb.scan("/notes"))


async def test_nested_mounts_do_not_show_what_they_hide(tmp_path: Path) -> None:
    for name in ("data/x", "inner"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "data/x/shadowed").write_text("hidden")
    mounts = [Mount(tmp_path / "data", "/data"), Mount(tmp_path / "inner", "/data/x")]
    async with Sandbox.create("local", mounts=mounts) as sb:
        for refused in (sb.download("/data", tmp_path / "out"), sb.copy("/data", "copy"), anext(sb.watch("/data"))):
            with pytest.raises(SandboxError, match="another mount"):
                await refused
        assert not (tmp_path / "out").exists()


async def test_a_destination_on_the_sandboxs_own_ground(tmp_path: Path) -> None:
    (tmp_path / "proj").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "proj/dist").symlink_to("../outside")
    async with Sandbox.create("local", workspace=tmp_path / "proj") as sb:
        await sb.write("out/f", "x")
        for place in ("dist", "new"):
            with pytest.raises(ConfigError, match="lies in /workspace"):
                await sb.download("out", tmp_path / "proj" / place)
            with pytest.raises(ConfigError, match="lies in /workspace"):
                await sb.upload(tmp_path / "proj/dist", "up")
    assert list((tmp_path / "outside").iterdir()) == []


async def test_state_and_log_are_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Sandbox.create("local"):
        with pytest.raises(ConfigError, match="PADDOCK_STATE"):
            await Sandbox.create("local", mounts=[Mount(tmp_path / "state/sandboxes", "/x", "rw")])
    monkeypatch.setenv("PADDOCK_AUDIT", str(tmp_path / "w/audit.jsonl"))
    with pytest.raises(ConfigError, match="PADDOCK_AUDIT"):
        await Sandbox.create("local", workspace=tmp_path / "w")


async def test_a_git_directory_that_is_elsewhere(tmp_path: Path) -> None:
    for kind in ("link", "file"):
        project = tmp_path / kind
        (project / "real/hooks").mkdir(parents=True)
        if kind == "link":
            (project / ".git").symlink_to("real")
        else:
            (project / ".git").write_text("gitdir: real\n")
        async with Sandbox.create("local", workspace=project) as sb:
            for path in ("real/config", "real/hooks/post-checkout", ".git/x"):
                with pytest.raises(PermissionError):
                    await sb.write(path, "evil")
            await sb.write("fine", "x")


async def test_the_log_cannot_be_flooded_or_stalled(tmp_path: Path) -> None:
    async with asyncio.timeout(60), Sandbox.create("local") as sb:
        with pytest.raises(SandboxError):
            await sb.read("/" + "a" * 5_000_000)
        await sb.list()
        lock = os.open(tmp_path / "state/audit.jsonl.lock", os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_EX)
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.01)

        ticking = asyncio.ensure_future(tick())
        await sb.close()
        ticking.cancel()
        os.close(lock)
        assert ticks > 5
    assert max(map(len, (tmp_path / "state/audit.jsonl").read_text().splitlines())) < 10_000


async def test_few_descriptors() -> None:
    code = """
import asyncio, os, resource
from paddock import Sandbox
async def main():
    async with Sandbox.create("local") as sb:
        await sb.write("/".join(["d"] * 80) + "/f", "x")
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 24, 4096))
        await sb.delete("d", recursive=True)
        assert await sb.list() == []
asyncio.run(main())
"""
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


WRONG: list[tuple[str, tuple[object, ...], dict[str, object]]] = [
    ("read_bytes", ("f",), {"offset": 2**63}),
    ("read_bytes", ("f",), {"offset": "1"}),
    ("read_bytes", ("f",), {"limit": 1.5}),
    ("read", (5,), {}),
    ("grep", ("\ud800",), {}),
    ("grep", (None,), {}),
    ("grep", (b"x",), {}),
    ("grep", ("x",), {"glob": 5}),
    ("grep", ("x",), {"limit": "5"}),
    ("glob", (5,), {}),
    ("upload", (None, "x"), {}),
    ("upload", ("", "x"), {}),
    ("upload", ("a\0", "x"), {}),
    ("upload", ("\ud800", "x"), {}),
    ("upload", (b"x", "x"), {}),
    ("download", ("f", ""), {}),
    ("download", ("f", "~/x"), {}),
    ("exec", ("x",), {"env": 5}),
    ("exec", ("x",), {"stdin": 5}),
    ("write", ("f", ""), {"mode": "755"}),
    ("write_files", (7,), {}),
    ("set_workdir", (None,), {}),
]


@pytest.mark.parametrize("backend", ["memory", "local"])
@pytest.mark.parametrize(("call", "arguments", "options"), WRONG, ids=lambda value: ascii(value)[:30])
async def test_wrong_values_are_typed_errors(
    backend: str, call: str, arguments: tuple[object, ...], options: dict[str, object]
) -> None:
    async with Sandbox.create(backend) as sb:
        await sb.write("f", "x")
        with pytest.raises(SandboxError):
            await getattr(sb, call)(*arguments, **options)
        with pytest.raises(SandboxError):
            sb.restrict(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        {"name": 5.5, "labels": None},
        {"workdir": None},
        {"labels": 5},
        {"labels": {"a": 5}},
        {"env": 5},
        {"mounts": None},
        {"mounts": Mount("/etc", "/x")},
        {"tools": None},
        {"workspace": 5},
        {"workspace": "\ud800"},
        {"root": ""},
        {"root": "~/zz"},
    ],
    ids=str,
)
async def test_wrong_values_at_create(options: dict[str, object]) -> None:
    with pytest.raises(SandboxError):
        await Sandbox.create("local", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [{"memory": "9" * 400}, {"memory": 10**5000}, {"cpu": float("nan")}, {"cpu": float("inf")}, {"pids": 1.5}],
)
def test_wrong_limits(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Limits(**options)  # type: ignore[arg-type]
