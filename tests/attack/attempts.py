"""Every file call, as an attempt of somebody who is led astray: what each returns must be from inside."""

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from paddock import Sandbox, SandboxError

SECRET, INSIDE = "outside-secret", "inside"

Attempt = Callable[[Sandbox, Path], Awaitable[object]]


def outside_of(scratch: Path) -> Path:
    """What must not be reached."""
    outside = scratch / "outside"
    (outside / "sub").mkdir(parents=True)
    for name in ("f", "marker", "sub/f"):
        (outside / name).write_text(SECRET)
    return outside


def workspace_of(scratch: Path) -> Path:
    """What may be, with links that lead out."""
    workspace = scratch / "workspace"
    workspace.mkdir()
    put_right(workspace)
    (workspace / "d-link").symlink_to("../outside")
    (workspace / "f-link").symlink_to("../outside/f")
    return workspace


def put_right(workspace: Path) -> None:
    """Everything where it belongs again."""
    for name in ("d", "f"):
        if (workspace / name).is_symlink():
            (workspace / name).unlink()
    (workspace / "d/sub").mkdir(parents=True, exist_ok=True)
    for name in ("d/f", "d/sub/f", "f"):
        (workspace / name).write_text(INSIDE)


def picture(directory: Path) -> dict[str, tuple[int, bytes | None]]:
    """All that is in a directory."""
    found = [directory, *directory.rglob("*")]
    return {str(p): (p.lstat().st_mode, p.read_bytes() if p.is_file() else None) for p in found}


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
