"""Snapshots of a sandbox's workspace, and what they need to know about it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from paddock import paths, review
from paddock.dirs.descriptor import DescriptorDir
from paddock.dirs.owned import OwnedDir, User
from paddock.dirs.protocol import Dir
from paddock.driver import ReviewingDriver
from paddock.errors import ConfigError
from paddock.review.tree import Tree
from paddock.sandbox.budget import Budget
from paddock.sandbox.create import Launched
from paddock.sandbox.failures import typed
from paddock.sandbox.layout import WORKSPACE
from paddock.snapshots import Base, Store, diff, restore, take
from paddock.types.files import Kind
from paddock.types.review import Change, Layer
from paddock.types.snapshots import Snapshot

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Copies:
    """The snapshots of one sandbox. Every call blocks, and is made in a thread."""

    launched: Launched
    budget: Budget

    def take(self, name: str | None) -> Snapshot:
        """Keep the workspace as it is."""
        return self._on(
            lambda base: take(
                self._dir, Store(), self.launched.id, name, base=base, left_out=self._left_out, work=self.budget
            )
        )

    def all(self, *, everywhere: bool) -> list[Snapshot]:
        """Those of this sandbox, or of every one on this host."""
        return Store().snapshots(None if everywhere else self.launched.id)

    def restore(self, snapshot: Snapshot | str) -> None:
        """Make the workspace what it was."""
        wanted = self.found(snapshot)
        self._on(
            lambda base: restore(
                self._dir,
                Store(),
                wanted,
                sandbox=self.launched.id,
                base=base,
                left_out=self._left_out,
                work=self.budget,
            )
        )

    def diff(self, a: Snapshot | str, b: Snapshot | str | None) -> list[Change]:
        """How `b`, or the workspace, differs from `a`."""
        one, other = self.found(a), None if b is None else self.found(b)
        return self._on(
            lambda base: diff(
                Store(),
                one,
                other,
                dir=self._dir,
                sandbox=self.launched.id,
                base=base,
                left_out=self._left_out,
                work=self.budget,
            )
        )

    def forget(self, snapshot: Snapshot | str) -> None:
        """Remove a snapshot."""
        Store().remove(self.found(snapshot).id)

    def found(self, snapshot: Snapshot | str) -> Snapshot:
        """The snapshot that is meant."""
        if not isinstance(snapshot, (Snapshot, str)):
            raise ConfigError(f"{snapshot!r} is no snapshot.", hint="Give one of snapshots(), its id or its name.")
        return Store().find(snapshot.id if isinstance(snapshot, Snapshot) else snapshot, self.launched.id)

    @property
    def _dir(self) -> Dir:
        return self.launched.driver.dir(WORKSPACE)

    @property
    def _left_out(self) -> tuple[str, ...]:
        """What nobody may change stays as it is."""
        protected = self.launched.layout.protected
        return tuple(paths.below(path, WORKSPACE) for path in protected if paths.within(path, WORKSPACE))

    def _on(self, work: Callable[[Base | None], T]) -> T:
        """Something done with the workspace, over its host directory if it is under review."""
        layer = layers(self.launched).get(WORKSPACE)
        try:
            if layer is None:
                return work(None)
            with lower(layer) as directory:
                return work(Base(layer.lower, directory, lambda: delta(layer, self.budget)))
        except OSError as error:
            raise typed(error, _inside(error)) from error


def layers(launched: Launched) -> dict[str, Layer]:
    """What lies over host directories, by target."""
    driver = launched.driver
    return dict(driver.layers) if launched.plan.review and isinstance(driver, ReviewingDriver) else {}


@contextmanager
def lower(layer: Layer) -> Iterator[Dir]:
    """The host directory below a layer, to read from as its owner. On the way to it no link may be."""
    fd = Tree.at(layer.lower).fd
    info = os.fstat(fd)
    if os.geteuid() == 0 and info.st_uid != 0:
        directory: Dir = OwnedDir(fd, User(info.st_uid, info.st_gid), private=False)
    else:
        directory = DescriptorDir(fd)
    try:
        yield directory
    finally:
        directory.close()


def delta(layer: Layer, budget: Budget) -> Iterator[tuple[str, Kind | None]]:
    """What differs from the host directory, as snapshots want to know it."""
    for change in review.find([layer], budget):
        if change.old_path is not None:
            yield paths.below(change.old_path, layer.target), None
        yield paths.below(change.path, layer.target), None if change.operation == "delete" else change.kind


def _inside(error: OSError) -> str:
    """The sandbox path that an error is about."""
    name = error.filename if isinstance(error.filename, str) else ""
    return name if name.startswith("/") else paths.join(WORKSPACE, name) if name else WORKSPACE
