"""Somebody swaps directories for links, in the sandbox's layer and on the host, as fast as a process can."""

import os
import time
from pathlib import Path

import pytest

from attack.swapping import swapping_pairs as swapping
from paddock.errors import SandboxError
from paddock.review import find
from review.layers import changes, copied

SECRET = "the secret outside\n"
SECONDS = 20.0 if os.environ.get("PADDOCK_SOAK") else 2.0


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    place = tmp_path / "outside"
    place.mkdir()
    (place / "file").write_text(SECRET)
    (place / "only-outside").write_text(SECRET)
    return place


def project(top: Path) -> None:
    (top / "d").mkdir()
    (top / "d" / "file").write_text("inside\n")
    (top / "f").write_text("inside\n")


def test_links_in_the_layer_while_it_is_looked_at(tmp_path: Path, outside: Path) -> None:
    """Nothing from outside is ever shown; what is inside is."""
    layer = copied(tmp_path, project)
    upper = Path(layer.upper)
    for name, target in (("d", outside), ("f", outside / "file")):
        (upper / f"{name}-link").symlink_to(target)
    (upper / "d" / "file").write_text("changed\n")
    (upper / "f").write_text("changed\n")
    seen = set()
    with swapping(upper / "d", upper / "d-link", upper / "f", upper / "f-link"):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            for change in find([layer]):
                assert SECRET not in (change.diff or "")
                assert "only-outside" not in change.path
                seen.add((change.path, change.kind))
    assert {("/workspace/f", "file"), ("/workspace/f", "link"), ("/workspace/d/file", "file")} <= seen


async def test_links_in_the_layer_while_it_is_applied(tmp_path: Path, outside: Path) -> None:
    """What is applied is what was shown, or nothing is."""
    done = refused = 0
    end = time.monotonic() + SECONDS
    for number in range(10_000):
        if time.monotonic() > end and done and refused:
            break
        layer = copied(tmp_path / f"{number}", project)
        upper, lower = Path(layer.upper), Path(layer.lower)
        (upper / "f").write_text("changed\n")
        (upper / "f-link").symlink_to(outside / "file")
        (upper / "d" / "file").write_text("changed\n")
        (upper / "d-link").symlink_to(outside)
        found = changes(layer)
        with swapping(upper / "f", upper / "f-link", upper / "d", upper / "d-link"):
            for _ in range(40):
                try:
                    await found.apply(["/workspace/f", "/workspace/d"])
                    done += 1
                except SandboxError:
                    refused += 1
        assert (lower / "f").read_text() in ("inside\n", "changed\n")
        assert (lower / "d" / "file").read_text() in ("inside\n", "changed\n")
        assert not (lower / "f").is_symlink()
    assert done
    assert refused
    assert (outside / "file").read_text() == SECRET


async def test_links_on_the_host_while_it_is_applied(tmp_path: Path, outside: Path) -> None:
    """Nothing outside is ever written, made or removed."""
    done = refused = 0
    end = time.monotonic() + SECONDS
    for number in range(10_000):
        if time.monotonic() > end and done and refused:
            break
        layer = copied(tmp_path / f"{number}", project)
        upper, lower = Path(layer.upper), Path(layer.lower)
        (upper / "d" / "file").write_text("changed\n")
        (upper / "d" / "new").write_text("new\n")
        (lower / "d-link").symlink_to(outside)
        with swapping(lower / "d", lower / "d-link"):
            for _ in range(20):
                try:
                    await changes(layer).apply(overwrite=True)
                    done += 1
                except SandboxError:
                    refused += 1
        assert sorted(path.name for path in outside.iterdir()) == ["file", "only-outside"]
        assert (outside / "file").read_text() == SECRET
        inside = lower / ("d-link" if (lower / "d").is_symlink() else "d")
        assert {path.name for path in inside.iterdir()} <= {"file", "new"}
    assert done
    assert refused


async def test_without_anybody_swapping(tmp_path: Path) -> None:
    """The same works."""
    layer = copied(tmp_path, project)
    (Path(layer.upper) / "d" / "file").write_text("changed\n")
    await changes(layer).apply()
    assert (Path(layer.lower) / "d" / "file").read_text() == "changed\n"
