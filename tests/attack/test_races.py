"""Every file call, while somebody swaps directories and files for links that lead outside.

The control at the end does what these calls must not: check the real path, then open. It has to be caught.
"""

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio

from attack.swapping import swapping
from paddock import Sandbox, SandboxError
from paddock.dirs import descriptor, syscalls

SECONDS = 10.0 if os.environ.get("PADDOCK_SOAK") else 1.0
SECRET, INSIDE = "outside-secret", "inside"

Attempt = Callable[[Sandbox, Path], Awaitable[object]]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    (outside / "sub").mkdir(parents=True)
    for name in ("f", "marker", "sub/f"):
        (outside / name).write_text(SECRET)
    return outside


@pytest_asyncio.fixture
async def sb(tmp_path: Path, outside: Path) -> AsyncIterator[Sandbox]:
    workspace = tmp_path / "workspace"
    (workspace / "d/sub").mkdir(parents=True)
    for name in ("d/f", "d/sub/f", "f"):
        (workspace / name).write_text(INSIDE)
    (workspace / "d-link").symlink_to("../outside")
    (workspace / "f-link").symlink_to("../outside/f")
    async with Sandbox.create("local", workspace=workspace) as sandbox:
        yield sandbox


async def read(sb: Sandbox, scratch: Path) -> object:
    return await sb.read("d/f"), await sb.read("f"), await sb.read_bytes("d/sub/f", offset=0, limit=100)


async def stat(sb: Sandbox, scratch: Path) -> object:
    for path in ("d/f", "f"):
        assert (await sb.stat(path)).size != len(SECRET)
    return None


async def exists(sb: Sandbox, scratch: Path) -> object:
    assert not await sb.exists("d/marker")
    return None


async def list_names(sb: Sandbox, scratch: Path) -> object:
    assert "marker" not in await sb.list("d")
    assert "marker" not in [entry.name for entry in await sb.scan("d")]
    return None


async def glob(sb: Sandbox, scratch: Path) -> object:
    assert not [path for path in await sb.glob("d/**") if "marker" in path]
    return None


async def grep(sb: Sandbox, scratch: Path) -> object:
    assert await sb.grep(SECRET) == []
    return await sb.grep(SECRET, "d")


async def write(sb: Sandbox, scratch: Path) -> object:
    await sb.write("f", INSIDE)
    await sb.write("d/new/deep", INSIDE)
    await sb.write("d/f", INSIDE)
    return None


async def write_large(sb: Sandbox, scratch: Path) -> object:
    await sb.write("d/large", INSIDE * 100_000)
    return None


async def write_files(sb: Sandbox, scratch: Path) -> object:
    await sb.write_files({"d/f": INSIDE, "d/one": INSIDE, "f": INSIDE, "d/sub/two": INSIDE})
    return None


async def mkdir(sb: Sandbox, scratch: Path) -> object:
    await sb.mkdir("d/made/below")
    return None


async def delete(sb: Sandbox, scratch: Path) -> object:
    with suppress(SandboxError):
        await sb.delete("d/f")
    with suppress(SandboxError):
        await sb.delete("d/sub", recursive=True)
    await sb.write_files({"d/f": INSIDE, "d/sub/f": INSIDE})
    return None


async def delete_whole(sb: Sandbox, scratch: Path) -> object:
    (scratch / "workspace/t/u/v").mkdir(parents=True, exist_ok=True)
    with suppress(OSError):
        os.replace(scratch / "workspace/d-link", scratch / "workspace/t/u/d-link")
    with suppress(SandboxError):
        await sb.delete("t", recursive=True)
    with suppress(OSError):
        (scratch / "workspace/d-link").symlink_to("../outside")
    with suppress(OSError):
        (scratch / "workspace/d").mkdir()
    return None


async def move(sb: Sandbox, scratch: Path) -> object:
    with suppress(SandboxError):
        await sb.move("d/f", "moved", overwrite=True)
        assert SECRET not in await sb.read("moved")
    await sb.write("source", INSIDE)
    await sb.move("source", "d/f", overwrite=True)
    return None


async def copy(sb: Sandbox, scratch: Path) -> object:
    await sb.write("source", INSIDE)
    with suppress(SandboxError):
        await sb.copy("source", "d/copied", overwrite=True)
    await sb.copy("d/f", "copied", overwrite=True)
    first = await sb.read("copied")
    with suppress(SandboxError):
        await sb.delete("tree", recursive=True)
    await sb.copy("d/sub", "tree")
    return first, await sb.read("tree/f")


async def upload(sb: Sandbox, scratch: Path) -> object:
    (scratch / "up").mkdir(exist_ok=True)
    (scratch / "up/f").write_text(INSIDE)
    await sb.upload(scratch / "up/f", "d/f")
    await sb.upload(scratch / "up", "d/uploaded")
    return None


async def download(sb: Sandbox, scratch: Path) -> object:
    one = await sb.download("d/f", scratch / "down/one")
    tree = await sb.download("d/sub", scratch / "down/tree")
    return Path(one).read_text(), Path(tree, "f").read_text()


async def resolve(sb: Sandbox, scratch: Path) -> object:
    assert Path(sb.resolve("d/f")).parts[:-2] == (scratch / "workspace").parts
    return None


async def view(sb: Sandbox, scratch: Path) -> object:
    inner = sb.restrict("/workspace/d", read_only=False)
    await inner.write("/workspace/d/f", INSIDE)
    return await inner.read("/workspace/d/f")


async def set_workdir(sb: Sandbox, scratch: Path) -> object:
    try:
        await sb.set_workdir("/workspace/d")
        assert not await sb.exists("marker")
        return await sb.read("f")
    finally:
        await sb.set_workdir("/workspace")


async def watch(sb: Sandbox, scratch: Path) -> object:
    async with sb.watch("d") as changes:
        assert not any("marker" in name for names in (changes._known or {}).values() for name in names)
    return None


ATTEMPTS: list[Attempt] = [
    read, stat, exists, list_names, glob, grep, write, write_large, write_files, mkdir,
    delete, delete_whole, move, copy, upload, download, resolve, view, set_workdir, watch,
]  # fmt: skip


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.__name__)
async def test_nothing_escapes(sb: Sandbox, tmp_path: Path, outside: Path, attempt: Attempt) -> None:
    assert not await _escapes(sb, tmp_path, outside, attempt, SECONDS)


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.__name__)
async def test_nothing_escapes_without_openat2(
    sb: Sandbox, tmp_path: Path, outside: Path, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syscalls, "has_openat2", lambda: False)
    assert not await _escapes(sb, tmp_path, outside, attempt, SECONDS / 4)


SHOWN_BY_OTHERS = (delete_whole, resolve, watch)  # the control opens what they open in another module


@pytest.mark.parametrize(
    "attempt", [a for a in ATTEMPTS if a not in SHOWN_BY_OTHERS], ids=lambda attempt: attempt.__name__
)
async def test_control_escapes_are_seen(
    sb: Sandbox, tmp_path: Path, outside: Path, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same attack on the same call, with links allowed when a path is opened: it has to be noticed."""

    def careless(root: int, path: bytes, flags: int) -> int:
        return os.open(path or b".", flags & ~os.O_NOFOLLOW, dir_fd=root)

    monkeypatch.setattr(descriptor, "open_beneath", careless)
    assert await _escapes(sb, tmp_path, outside, attempt, 60)


async def _escapes(sb: Sandbox, scratch: Path, outside: Path, attempt: Attempt, seconds: float) -> bool:
    """Whether the attacker got anything within that time. Afterwards, in peace, the same call has to work."""
    before, turns = _picture(outside), 0
    with swapping(scratch / "workspace"):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            turns += 1
            try:
                if SECRET in repr(await attempt(sb, scratch)):
                    return True
            except SandboxError:
                pass  # refused, or the file was gone at that moment
            except AssertionError:
                return True
            if turns % 20 == 0 and _picture(outside) != before:
                return True
    if _picture(outside) != before:
        return True
    _put_right(scratch / "workspace")
    await attempt(sb, scratch)
    return False


def _put_right(workspace: Path) -> None:
    for name in ("d", "f"):
        if (workspace / name).is_symlink():
            (workspace / name).unlink()
    (workspace / "d/sub").mkdir(parents=True, exist_ok=True)
    for name in ("d/f", "d/sub/f", "f"):
        (workspace / name).write_text(INSIDE)


def test_control_a_naive_check_is_caught(sb: Sandbox, tmp_path: Path, outside: Path) -> None:
    workspace = os.path.realpath(tmp_path / "workspace")

    def naive_read(name: str) -> str:
        path = os.path.realpath(os.path.join(workspace, name))
        if not path.startswith(workspace + "/"):
            raise PermissionError
        return Path(workspace, name).read_text()

    caught = False
    with swapping(tmp_path / "workspace"):
        deadline = time.monotonic() + 60
        while not caught and time.monotonic() < deadline:
            with suppress(OSError):
                caught = naive_read("d/f") == SECRET
    assert caught


def _picture(directory: Path) -> dict[str, tuple[int, bytes | None]]:
    found = [directory, *directory.rglob("*")]
    return {str(p): (p.lstat().st_mode, p.read_bytes() if p.is_file() else None) for p in found}
