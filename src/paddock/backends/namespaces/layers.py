"""Layers over host directories that a sandbox works on without writing to them: overlays, and copies where there are none."""

import errno
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, time_ns

from paddock.backends.namespaces.copies import copied
from paddock.backends.namespaces.identity import Identity
from paddock.backends.namespaces.order import MERGED
from paddock.backends.namespaces.sources import Sources
from paddock.backends.supervised.driver import Root
from paddock.dirs.copying import Copy
from paddock.dirs.descriptor import DescriptorDir
from paddock.driver import Plan
from paddock.errors import UnavailableError
from paddock.state import PrivateDirectory
from paddock.types.review import Layer

UPPER, WORK = "upper", "work"
_KERNELS = [f"{WORK}/work{name}" for name in ("/incompat/volatile/dirty", "/incompat/volatile", "/incompat", "")]
"""What an overlay makes for itself, and leaves."""
_BASE = "base"
_MARK = "user.overlay.paddock"
_FOREIGN = "its files belong to another user"
_MOUNTED = "other file systems are mounted in it"
_NO_MARKS = "the file system of the state directory cannot mark what is deleted"
_PERMITTED = 0o1777
_SECOND = 10**9
_ESCAPES = ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\"))

_SECONDS_TO_REMEMBER = 300.0
_refused: dict[tuple[int, int, bool, str], tuple[str, float]] = {}
"""Why no overlay can be made, by the file systems below and above it, whether the user is ours, and who would mount it.

And until when that is taken for granted: the number of a file system may be another's later.
"""


class NoLayerError(Exception):
    """An overlay cannot be mounted here; with `targets`, not over these."""

    def __init__(self, reason: str, targets: Iterable[str] | None = None) -> None:
        super().__init__(reason)
        self.reason, self.targets = reason, targets


@dataclass(frozen=True, slots=True)
class _Made:
    layer: Layer
    path: str
    """The directory with all that belongs to it."""
    reason: str = ""
    """Of a copy: why it is one."""


class Layers:
    """Those of one sandbox. Where `Plan.review` was not asked for there are none."""

    def __init__(self, plan: Plan, sources: Sources, private: PrivateDirectory, mounter: str = "") -> None:
        """`mounter` is a name for whoever mounts them: what one is refused, another may not be."""
        mounts = (mount for mount in plan.mounts if mount.source is not None and not mount.read_only)
        self._lowers = {mount.target: os.fspath(mount.source or "") for mount in mounts} if plan.review else {}
        self._sources, self._private, self._mounter = sources, private, mounter
        self._made: dict[str, _Made] = {}
        self._tries = 0

    @property
    def targets(self) -> frozenset[str]:
        """Where they are inside."""
        return frozenset(self._lowers)

    @property
    def described(self) -> dict[str, Layer]:
        """What they are, by their targets."""
        return {target: made.layer for target, made in self._made.items()}

    @property
    def overlays(self) -> dict[str, str]:
        """Of each overlay, the directory with what it is made of, and a place for it."""
        return {target: made.path for target, made in self._made.items() if made.layer.kind == "overlay"}

    @property
    def copies(self) -> dict[str, str]:
        """Where each copy is."""
        return {target: made.layer.upper for target, made in self._made.items() if made.layer.kind == "copy"}

    async def make(self, identity: Identity) -> None:
        """All that is not there yet: what an overlay needs, or a copy where there can be none."""
        for target in self._lowers:
            if target not in self._made:
                reason = self._unsuitable(target, identity)
                if reason is None:
                    self._made[target] = self._overlay(target, identity)
                else:
                    self._made[target] = await self._copy(target, identity, reason)

    def forget_overlays(self) -> None:
        """Make them anew next time: what was mounted once cannot be mounted again."""
        for target in self.overlays:
            del self._made[target]

    async def copy_instead(self, identity: Identity, refused: NoLayerError) -> None:
        """There can be no overlays after all. From now on that is known."""
        for target in list(self.overlays) if refused.targets is None else refused.targets:
            _refused[self._key(target, identity)] = (refused.reason, monotonic() + _SECONDS_TO_REMEMBER)
            self._made[target] = await self._copy(target, identity, refused.reason)

    def check(self, roots: Mapping[str, Root]) -> None:
        """Whether what is in the sandbox is a layer, and not what it lies over; and that is still where it was."""
        for target, made in self._made.items():
            self._check_lower(target)
            directory = roots[target].dir
            if not isinstance(directory, DescriptorDir):
                continue
            there = directory.identity("")
            if os.path.samestat(there, os.fstat(self._sources[target])):
                raise UnavailableError(
                    f"The directory at {target!r} would be the host's own, and not a layer over it.", hint="Try again."
                )
            if made.layer.kind == "copy" and not os.path.samestat(there, os.stat(made.layer.upper)):
                raise UnavailableError(
                    f"The directory at {target!r} is not the copy that was made for it: whoever mounted it sees other files.",
                    hint="Set PADDOCK_STATE to a directory that both see.",
                )

    def _check_lower(self, target: str) -> None:
        try:
            same = os.path.samestat(os.lstat(self._lowers[target]), os.fstat(self._sources[target]))
        except OSError:
            same = False
        if not same:
            raise UnavailableError(
                f"The host directory of {target!r} was replaced meanwhile.", hint="Try again when nobody moves it."
            )

    def words(self) -> str:
        """What holds, for `Isolation.files`: nothing, where there are none."""
        kinds = {target: _kind(made) for target, made in self._made.items()}
        if not kinds:
            return ""
        first, *others = dict.fromkeys(kinds.values())
        if not others:
            return f"; changes go to {first}, the host's directories are not written"
        told = ", ".join(f"of {target} to {kind}" for target, kind in kinds.items())
        return f"; changes go elsewhere, {told}; the host's directories are not written"

    def _key(self, target: str, identity: Identity) -> tuple[int, int, bool, str]:
        lower, upper = os.fstat(self._sources[target]).st_dev, os.stat(self._private.path).st_dev
        return lower, upper, identity.ours, self._mounter

    def _unsuitable(self, target: str, identity: Identity) -> str | None:
        """Why there is no use in an overlay here, as far as that can be seen; the rest shows when it is mounted."""
        info = os.fstat(self._sources[target])
        if identity.ours and info.st_uid != identity.uid:
            return _FOREIGN
        if _has_mounts(self._lowers[target]):
            return _MOUNTED
        reason, until = _refused.get(self._key(target, identity), ("", 0.0))
        if monotonic() < until:
            return reason
        return None if _takes_marks(self._private.path) else _NO_MARKS

    def _directory(self) -> Path:
        self._tries += 1
        return self._private.make(f"layer-{self._tries}")

    def _overlay(self, target: str, identity: Identity) -> _Made:
        path, since = self._directory(), time_ns()
        for name in (UPPER, WORK, MERGED):
            os.mkdir(path / name, 0o700)
            if not identity.ours:
                os.chown(path / name, identity.uid, identity.gid)
        os.chmod(path / UPPER, os.fstat(self._sources[target]).st_mode & _PERMITTED)  # which is that of the whole
        sign = since - _SECOND - since % _SECOND + secrets.randbelow(_SECOND)
        os.utime(path / UPPER, ns=(sign, sign))  # that of the whole too: by it an overlay shows what it is made of
        self._private.expect(*(path / name for name in (*_KERNELS, WORK, UPPER, MERGED)))
        return _Made(Layer(target, self._lowers[target], os.fspath(path / UPPER), "overlay", since), os.fspath(path))

    async def _copy(self, target: str, identity: Identity, reason: str) -> _Made:
        path, since = self._directory(), time_ns()
        upper, base = os.fspath(path / UPPER), os.fspath(path / _BASE)
        owner = None if identity.ours else (identity.uid, identity.gid)
        left_out = await copied(Copy(self._sources[target], upper, base, owner), target)
        if left_out:
            reason += f" ({left_out} that cannot be read are left out)"
        return _Made(Layer(target, self._lowers[target], upper, "copy", since, base), os.fspath(path), reason)


def _kind(made: _Made) -> str:
    return "an overlay" if made.layer.kind == "overlay" else f"a copy, because {made.reason}"


def why(code: int) -> str:
    """The words for an overlay that could not be mounted."""
    if code in (errno.EPERM, errno.EACCES):
        return "this host does not permit an overlay here"
    if code == errno.ENODEV:
        return "this kernel has no overlays"
    if code == errno.EINVAL:
        return "an overlay cannot be had on these file systems"
    return f"an overlay cannot be had here ({os.strerror(code)})"


def _has_mounts(lower: str) -> bool:
    """Whether something else is mounted in a directory: an overlay would show what lies below that."""
    inside = os.fsencode(lower.rstrip("/") + "/")
    with open("/proc/self/mountinfo", "rb") as file:
        return any(_unescaped(line.split(b" ", 5)[4]).startswith(inside) for line in file)


def _unescaped(path: bytes) -> bytes:
    if b"\\" in path:
        for escape, character in _ESCAPES:
            path = path.replace(escape.encode(), character.encode())
    return path


def _takes_marks(path: Path) -> bool:
    try:
        os.setxattr(path, _MARK, b"y")
    except OSError:
        return False
    return True
