"""Which place a sandbox path means, and what may be done there: every rule about paths is decided in this file."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, NoReturn

from paddock import paths
from paddock.dirs.protocol import Dir
from paddock.errors import (
    OutsideError,
    PermissionDeniedError,
    ReadOnlyError,
    TooLargeError,
    visible,
)
from paddock.sandbox.layout import CACHE
from paddock.types import Mount

_KERNELS = ("/proc", "/sys", "/dev", "/run/paddock")
"""What a root has besides an image's files: the kernel's, and Paddock's own."""


class Place(NamedTuple):
    """A sandbox path with the mount that holds it; made for every call, and so a tuple."""

    path: str
    mount: Mount
    dir: Dir
    relative: str
    """The path below the mount; '' is the mount itself."""
    read_only: bool


@dataclass(frozen=True, slots=True)
class Scope:
    """A part of the tree that a view reaches."""

    path: str
    read_only: bool


class MountTable:
    """The mounts of a sandbox, or of a view that reaches less of them. Never changed: a view has a table of its own."""

    def __init__(
        self,
        mounts: Iterable[tuple[Mount, Dir]],
        protected: tuple[str, ...] = (),
        scopes: tuple[Scope, ...] = (),
    ) -> None:
        self._mounts = sorted(mounts, key=lambda pair: -len(pair[0].target))  # the longest target wins
        self._lookup = [(mount.target, _prefix(mount.target), mount, directory) for mount, directory in self._mounts]
        self._protected = protected
        self._scopes = scopes

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """What is reachable, as mounts with their true modes."""
        if not self._scopes:
            return tuple(sorted((mount for mount, _ in self._mounts), key=lambda mount: mount.target))
        return tuple(self._scoped(scope) for scope in self._scopes)

    def locate(self, path: str, *, write: bool = False) -> Place:
        """The place that normalised `path` means, if it is reachable (and may be changed, with `write`)."""
        for target, prefix, mount, directory in self._lookup:
            if path.startswith(prefix) or path == target:
                if target == "/" and any(paths.within(path, own) for own in _KERNELS):
                    break
                scoped = bool(self._scopes) and self._scope(path).read_only  # a view that does not reach it ends here
                read_only = scoped or mount.mode == "ro"
                if write and (read_only or self._protected):
                    self._check_writable(path, read_only)
                return Place(path, mount, directory, path[len(prefix) :], read_only)
        return self._outside(path)

    def virtual(self, path: str) -> list[str] | None:
        """The names below a directory that exists only because something reachable lies below it; None if it is not one."""
        tops = [scope.path for scope in self._scopes] or [mount.target for mount, _ in self._mounts]
        if any(paths.within(path, top) for top in tops):
            return None
        names = {paths.below(top, path).split("/")[0] for top in tops if paths.within(top, path)}
        return sorted(names) or None

    def mounted_in(self, path: str) -> set[str]:
        """The names of mounts that lie directly in the directory `path` of another mount."""
        if len(self._mounts) <= 1 or path == "/":
            return set()
        targets = (mount.target for mount, _ in self._mounts)
        return {paths.name(target) for target in targets if paths.parent(target) == path and self._reaches(target)}

    def is_scope(self, path: str) -> bool:
        """Whether a view begins exactly here."""
        return any(scope.path == path for scope in self._scopes)

    @property
    def sources(self) -> list[tuple[str, str]]:
        """The host directories behind it, each with its target; a view's too."""
        return [(str(mount.source), mount.target) for mount, _ in self._mounts if mount.source is not None]

    def nested(self, path: str) -> bool:
        """Whether another mount lies somewhere below `path`, and hides what is there."""
        return any(mount.target != path and paths.within(mount.target, path) for mount, _ in self._mounts)

    def narrow(self, scopes: Iterable[Scope]) -> "MountTable":
        """A table that reaches only these parts, each at most as writable as it is here."""
        narrowed = tuple(part for scope in scopes for part in self._parts(scope))
        return MountTable(self._mounts, self._protected, narrowed)

    def check_content(self, place: Place, size: int | None = None) -> None:
        """A mount's own rules about files: the endings it takes and their largest size."""
        suffixes = place.mount.suffixes
        if suffixes is not None and not place.path.lower().endswith(suffixes):
            raise PermissionDeniedError(
                f"'{visible(place.path)}' has an ending that {place.mount.target} does not take.",
                path=place.path,
                hint=f"Files there end in {', '.join(suffixes)}.",
            )
        largest = place.mount.max_file_bytes
        if largest is not None and size is not None and size > int(largest):
            raise TooLargeError(
                f"'{visible(place.path)}' has {size} bytes.",
                path=place.path,
                hint=f"Files below {place.mount.target} have at most {largest} bytes.",
            )

    def roots(self, *, writable: bool = False) -> str:
        """What is reachable, in words."""
        found = [mount.target for mount in self.mounts if not (writable and mount.read_only)]
        return ", ".join(found) or "nothing"

    def _check_writable(self, path: str, read_only: bool) -> None:
        if any(paths.within(path.casefold(), protected.casefold()) for protected in self._protected):
            raise ReadOnlyError(
                f"'{visible(path)}' belongs to the project's own git directory, which is read-only here.",
                path=path,
                hint="Work on the files; the user commits them.",
            )
        if read_only:
            raise ReadOnlyError(
                f"'{visible(path)}' is read-only.", path=path, hint=f"Writable: {self.roots(writable=True)}."
            )

    def _scope(self, path: str) -> Scope:
        best: Scope | None = None
        for scope in self._scopes:
            if paths.within(path, scope.path) and (best is None or len(scope.path) > len(best.path)):
                best = scope
        return best or self._outside(path)

    def _reaches(self, path: str) -> bool:
        return not self._scopes or any(paths.within(path, scope.path) for scope in self._scopes)

    def _parts(self, scope: Scope) -> list[Scope]:
        """A scope as this table allows it: '/' and other virtual directories stand for all that is below them."""
        if self.virtual(scope.path) is not None:
            inside = self._scopes or [Scope(mount.target, mount.read_only) for mount, _ in self._mounts]
            below = [known for known in inside if paths.within(known.path, scope.path)]
            if not scope.read_only:
                for known in below:
                    self._refuse_widening(known.path, known.read_only)
            return [replace(known, read_only=known.read_only or scope.read_only) for known in below]
        place = self.locate(scope.path)
        if not scope.read_only:
            protected = any(paths.within(scope.path, known) for known in self._protected)
            self._refuse_widening(scope.path, place.read_only or protected)
        return [scope]

    def _refuse_widening(self, path: str, read_only: bool) -> None:
        if read_only:
            raise ReadOnlyError(
                f"A view cannot make '{visible(path)}' writable: it is read-only here.",
                path=path,
                hint="Leave read_only=True.",
            )

    def _scoped(self, scope: Scope) -> Mount:
        place = self.locate(scope.path)
        source = None if place.mount.source is None else paths.join(str(place.mount.source), place.relative)
        mode = "ro" if place.read_only else "rw"
        return Mount(source, scope.path, mode, place.mount.suffixes, place.mount.max_file_bytes)  # type: ignore[arg-type]

    def _outside(self, path: str) -> NoReturn:
        hint = f"Reachable: {self.roots()}."
        if paths.within(path, CACHE) and not any(mount.target == CACHE for mount, _ in self._mounts):
            hint = 'No cache is configured: create the sandbox with cache="DIR" to have /cache.'
        raise OutsideError(f"'{visible(path)}' is outside of what this sandbox reaches.", path=path, hint=hint)


def _prefix(target: str) -> str:
    return target if target == "/" else f"{target}/"


def table(mounts: Iterable[Mount], dirs: Mapping[str, Dir], protected: tuple[str, ...]) -> MountTable:
    """The table of a whole sandbox."""
    return MountTable([(mount, dirs[mount.target]) for mount in mounts], protected)
