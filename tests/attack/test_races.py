"""Every file call, while somebody swaps directories and files for links that lead outside.

The control at the end does what these calls must not: check the real path, then open. It has to be caught.
"""

import os
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio

from attack.attempts import (
    ATTEMPTS,
    SECRET,
    Attempt,
    delete_whole,
    outside_of,
    picture,
    put_right,
    resolve,
    watch,
    workspace_of,
)
from attack.swapping import swapping
from paddock import Sandbox, SandboxError
from paddock.dirs import descriptor, syscalls

SECONDS = 10.0 if os.environ.get("PADDOCK_SOAK") else 1.0


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    return outside_of(tmp_path)


@pytest_asyncio.fixture
async def sb(tmp_path: Path, outside: Path) -> AsyncIterator[Sandbox]:
    async with Sandbox.create("local", workspace=workspace_of(tmp_path)) as sandbox:
        yield sandbox


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
    before, turns = picture(outside), 0
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
            if turns % 20 == 0 and picture(outside) != before:
                return True
    if picture(outside) != before:
        return True
    put_right(scratch / "workspace")
    await attempt(sb, scratch)
    return False


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
