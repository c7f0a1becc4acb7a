"""Putting things into a sandbox that its file calls would not: what a hostile command could do."""

from paddock import paths
from paddock.sandbox import Sandbox


def plant_link(sandbox: Sandbox, path: str, target: str) -> None:
    """A symbolic link with exactly this text, on any backend."""
    full = paths.normalise(path, sandbox.workdir)
    place = sandbox._files.table.locate(full)
    place.dir.link(place.relative, target)
