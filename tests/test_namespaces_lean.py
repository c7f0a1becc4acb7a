"""The namespace that root's launchers hand on: it serves as long as the same is mounted on this host."""

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock import Sandbox
from paddock.backends.namespaces import lean

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has launchers that change what is mounted")


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(lean, "_known", None)
    yield
    if lean._known is not None:
        lean._known.close()


def told(kept: Path, *, give: bool = False) -> str | None:
    """What a launcher is told; one that is to hand a namespace over does so with `give`, and ends."""
    inherited: list[int] = []
    words = lean.words((str(kept),), inherited)
    if give:
        with socket.socket(fileno=os.dup(inherited[0])) as sock, open("/proc/self/ns/mnt", "rb") as file:
            socket.send_fds(sock, [b"\0"], [file.fileno()])
    for fd in inherited:
        os.close(fd)
    return words[0] if words else None


def test_it_is_handed_on(tmp_path: Path) -> None:
    assert told(tmp_path, give=True) == "--give"
    assert told(tmp_path) == "--in"
    assert told(tmp_path) == "--in"


def test_a_launcher_that_ends_without(tmp_path: Path) -> None:
    assert told(tmp_path) == "--give"
    assert told(tmp_path, give=True) == "--give"
    assert told(tmp_path) == "--in"


def test_only_one_hands_it_over(tmp_path: Path) -> None:
    inherited: list[int] = []
    assert lean.words((str(tmp_path),), inherited)[0] == "--give"
    assert told(tmp_path) is None
    os.close(inherited[0])


def test_nothing_is_kept() -> None:
    assert lean.words((), []) == []


def test_something_else_is_mounted(tmp_path: Path) -> None:
    kept, elsewhere = tmp_path / "kept", tmp_path / "elsewhere"
    (kept / "in").mkdir(parents=True)
    elsewhere.mkdir()
    told(kept, give=True)
    with mounted(elsewhere):
        assert told(kept) == "--in"
    with mounted(kept / "in"):
        assert told(kept, give=True) == "--give"
        assert told(kept) == "--in"
    assert told(kept) == "--give"


async def test_sandboxes_find_the_same_in_it() -> None:
    seen = []
    for _ in range(3):
        async with Sandbox.create("namespaces") as sb:
            seen.append((await sb.exec("cut -d' ' -f5,6 /proc/self/mountinfo; ls / /usr /dev /proc/self/ns")).stdout)
    assert len(set(seen)) == 1


class mounted:  # noqa: N801 - reads as a block
    """A block in which a file system is mounted on this host."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "none", self._path], check=True)

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", self._path], check=True)
