"""What tests of layers share: a project of the host's, and a picture of it in which nothing can change unseen."""

import os
import stat
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from paddock import Sandbox
from paddock.backends.namespaces.layers import Layers
from paddock.types.review import Layer


def project(path: Path, owner: int | None = None) -> Path:
    """A directory with some of everything in it."""
    for name in ("src/deep", ".git/hooks", "empty"):
        (path / name).mkdir(parents=True)
    for name, text in {
        "README": "read me\n",
        "src/a.py": "a = 1\n",
        "src/deep/b": "b\n",
        ".git/config": "[core]\n",
    }.items():
        (path / name).write_text(text)
    (path / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (path / "run.sh").chmod(0o755)
    (path / "link").symlink_to("src/a.py")
    (path / "out").symlink_to("/etc/hostname")
    os.link(path / "README", path / "twin")
    os.setxattr(path / "src/a.py", "user.kept", b"value")
    if owner is not None:
        for one in (path, *path.rglob("*")):
            os.chown(one, owner, owner, follow_symlinks=False)
    return path


def fingerprint(path: Path) -> str:
    """A hash over all that is in a directory: names, kinds, modes, owners, times, attributes, contents."""
    return sha256(repr(picture(path)).encode()).hexdigest()


def picture(path: Path) -> list[tuple[Any, ...]]:
    """The same, to be compared by eye."""
    found = []
    for one in (path, *sorted(path.rglob("*"))):
        info = one.lstat()
        content = b""
        if stat.S_ISREG(info.st_mode):
            content = one.read_bytes()
        elif stat.S_ISLNK(info.st_mode):
            content = os.fsencode(os.readlink(one))
        known = [
            (name, os.getxattr(one, name, follow_symlinks=False)) for name in os.listxattr(one, follow_symlinks=False)
        ]
        about = (info.st_mode, info.st_uid, info.st_gid, info.st_nlink, info.st_ino, info.st_mtime_ns, info.st_ctime_ns)
        found.append((str(one.relative_to(path)), *about, sorted(known), content))
    return found


def layers_of(sb: Sandbox) -> dict[str, Layer]:
    """What lies over the host's directories."""
    return dict(getattr(sb._core.launched.driver, "layers"))  # noqa: B009 - a driver need not have any


def only_copies(patch: pytest.MonkeyPatch) -> None:
    """As where no overlay can be had."""
    patch.setattr(Layers, "_unsuitable", lambda *_: "a test wants it so")


def refused_overlays(patch: pytest.MonkeyPatch) -> None:
    """As where that shows only when it is mounted."""
    original: Any = Layers._overlay

    def changed(self: Layers, *arguments: Any) -> Any:
        made = original(self, *arguments)
        os.rmdir(os.path.join(made.path, "work"))
        return made

    patch.setattr(Layers, "_overlay", changed)
    patch.setattr("paddock.backends.namespaces.layers._refused", {})
