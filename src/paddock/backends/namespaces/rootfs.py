"""Another root file system: what of it is shown, to commands and to file calls. Nobody ever writes to it."""

import os
from collections.abc import Iterator

from paddock.types import Mount

_HIDDEN = frozenset({"proc", "dev", "sys", "run", "tmp", "home", "workspace", "cache"})
"""What a sandbox has of its own."""


def entries(rootfs: str) -> Iterator[tuple[str, str]]:
    """The names at its top that are shown, and where each is on this host."""
    for name in sorted(os.listdir(rootfs)):
        if name not in _HIDDEN:
            yield name, os.path.join(rootfs, name)


def mounts(rootfs: str) -> tuple[Mount, ...]:
    """Its directories as file calls reach them. A link at the top, such as /bin, is the directory that it leads to."""
    found = []
    for name, path in entries(rootfs):
        source = _linked(rootfs, path) if os.path.islink(path) else path
        if source is not None and os.path.isdir(source):
            found.append(Mount(source, f"/{name}", "ro"))
    return tuple(found)


def _linked(rootfs: str, path: str) -> str | None:
    """Where a link leads inside, if that is a place without more links in what is shown."""
    inside = os.path.normpath(os.path.join("/", os.readlink(path)))
    top = inside.split("/")[1]
    source = rootfs + inside
    return source if top and top not in _HIDDEN and os.path.realpath(source) == source else None
