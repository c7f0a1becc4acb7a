"""All that has to be there before a container can be made: directories, a socket, and root's own shown to another user."""

import os
from collections.abc import Mapping

from paddock.backends.docker import compose, detached, order, ways
from paddock.backends.docker.engine import Engine
from paddock.backends.docker.images import Image
from paddock.backends.docker.place import Place
from paddock.backends.docker.reach import Caller, Handed
from paddock.backends.docker.volumes import overlay_options
from paddock.backends.docker.ways import Ways
from paddock.backends.namespaces.identity import Identity
from paddock.backends.namespaces.layers import WORK, Layers, NoLayerError
from paddock.backends.namespaces.order import in_memory
from paddock.backends.namespaces.sources import Sources
from paddock.backends.supervised.driver import Root
from paddock.dirs.descriptor import DescriptorDir
from paddock.driver import Plan
from paddock.errors import UnavailableError
from paddock.paths import name
from paddock.state import PrivateDirectory

_MOST_NAMES = 100
_ELSEWHERE = Identity(1000, 1000, ours=False)
"""Who processes are on a host whose users we do not know."""


class Preparation:
    """For one container. What was only needed for its start goes with `close`."""

    def __init__(
        self,
        plan: Plan,
        sources: Sources,
        private: PrivateDirectory,
        engine: Engine,
        ways: Ways,
        identity: Identity,
        layers: Layers,
    ) -> None:
        self._plan, self._sources, self._private, self._layers = plan, sources, private, layers
        self._engine, self._ways = engine, ways
        self.identity = identity if ways.files else _ELSEWHERE
        self.paths: dict[str, str] = {}
        """Where the mounts are on this host, those that are."""
        self.framed: dict[str, compose.Frame] = {}
        self.shown: list[str] = []
        """Targets of what belongs to somebody else on this host, and to the sandbox's user inside."""
        self.caller: Caller | None = None
        self.bound: list[tuple[str, str, int]] = []
        """Targets of what is mounted by its own name: that, and a descriptor of what was meant."""
        self.volumes: dict[str, str] = {}
        """Names of volumes that the engine is to mount, and how."""
        self._mounted: dict[str, str] = {}
        self._place = Place(plan.id, self.identity)

    def told(self, image: Image, secret: str, runtime: str | None, read_only: bool) -> order.Order:
        """What the engine is told."""
        on_disk = [m.target for m in order.own_mounts(self._plan) if m.source is None and not in_memory(m, self._plan)]
        binds = self._binds(on_disk) if self._ways.files else {}
        if self._ways.files and self._ways.calls:
            self.caller = self._called()
        return order.Order(
            plan=self._plan,
            image=image,
            user=self._user(),
            secret=secret,
            labels=detached.labels(self._plan),
            runtime=runtime,
            read_only=read_only,
            binds=binds,
            read_only_binds=frozenset(binds) - self._writable(on_disk),
            elsewhere=not self._ways.files,
            calls=str(self._place.calls) if self.caller is not None else None,
            podman=self._engine.podman,
            options=tuple(detached.terms(self._plan)),
            volumes=self._mounted,
        )

    def names(self, told: order.Order) -> dict[str, str]:
        """What paths of this host are called in errors."""
        own = {str(self._place.path): "the sandbox's own directory", str(self._private.path): "its private files"}
        layered = {layer.lower: target for target, layer in self._layers.described.items()}
        return layered | {path: target for target, path in told.binds.items()} | own

    def check_names(self) -> None:
        """What was mounted by its name is still what that name leads to."""
        for target, path, fd in self.bound:
            try:
                same = os.path.samestat(os.stat(path), os.fstat(fd))
            except OSError:
                same = False
            if not same:
                raise UnavailableError(
                    f"The host directory of {target!r} was replaced meanwhile.", hint="Try again when nobody moves it."
                )

    def check_layers(self, roots: Mapping[str, Root]) -> None:
        """Each overlay inside is made of what is here: it has the time of our upper directory.

        One that the engine mounted has the names of the lower one too: that may lie on a mount which the engine does not see.
        """
        for target in self._layers.overlays:
            directory, upper = roots[target].dir, self._layers.described[target].upper
            if not isinstance(directory, DescriptorDir):
                continue
            same = directory.identity("").st_mtime_ns == os.stat(upper).st_mtime_ns
            if not same or (target in self._mounted and not _has_names(directory, self._sources[target])):
                raise NoLayerError(ways.OTHER_MOUNTS)

    def close(self) -> None:
        """The container has its mounts, and its supervisor has called or will not."""
        if self.caller is not None:
            self.caller.close()
            self.caller = None
        for frame in self.framed.values():
            frame.close()
        self._place.remove()

    def _user(self) -> str:
        """Root of a rootless engine's containers is the user who runs it: us."""
        rootless = self._engine.rootless and self._ways.files
        return "0:0" if rootless else f"{self.identity.uid}:{self.identity.gid}"

    def _binds(self, on_disk: list[str]) -> Mapping[str, str]:
        """Everything that is mounted, by its path inside, and where the engine finds it."""
        private = {target: self._made(number, target) for number, target in enumerate(on_disk)}
        shown = [m for m in self._plan.mounts if m.source is not None and m.target not in self._layers.targets]
        self.paths = private | {mount.target: os.fspath(mount.source or "") for mount in shown}
        binds = order.program_files(self._engine.machine) | private | self._layered()
        framed = dict(compose.needed(self._plan, self._sources))
        for target in (*self._sources.targets, *self._plan.protected):
            if target not in framed and target not in self._layers.targets:
                binds[target] = self._shown(self._sources[target], target)
        for target, inner in framed.items():
            binds |= self._in_frame(target, inner)
        self._place.mount()
        return binds

    def _layered(self) -> dict[str, str]:
        """Copies, and overlays that root shows. Those of anybody else the engine mounts itself, as volumes."""
        binds = dict(self._layers.copies)
        for target, path in self._layers.overlays.items():
            fd, layer = self._sources[target], self._layers.described[target]
            if not self.identity.ours:
                self.shown.append(target)
                binds[target] = self._place.show(fd, path)
                continue
            options = overlay_options(layer, os.path.join(path, WORK))
            if options is None:
                raise NoLayerError("a path has something in it that the engine takes for a separator", [target])
            name = self._mounted[target] = f"paddock-{self._plan.id}-{len(self.volumes)}"
            self.volumes[name] = options
            self.bound.append((target, layer.lower, fd))
        return binds

    def _writable(self, on_disk: list[str]) -> frozenset[str]:
        return frozenset((*on_disk, *(mount.target for mount in self._plan.mounts if not mount.read_only)))

    def _called(self) -> Caller:
        listening = self._place.listen()
        try:
            return Caller(listening, self.identity.uid, self._handed())
        except BaseException:
            listening.close()
            raise

    def _handed(self) -> Handed:
        if self._plan.record is None:
            return Handed.owner()
        with detached.listen(self._private, self._plan.id) as listening:
            return Handed.listening(listening)

    def _made(self, number: int, target: str) -> str:
        """A private directory on disk; it is there already if this is not the first try."""
        path = os.fspath(self._private.path / f"{number}-{name(target)[:32]}")
        if not os.path.isdir(path):
            self._private.make(os.path.basename(path))
        if not self.identity.ours:
            os.chown(path, self.identity.uid, self.identity.gid)
        return path

    def _in_frame(self, target: str, inner: list[str]) -> dict[str, str]:
        """A mount that has no place for the mounts in it."""
        path = self._private.make(f"frame-{len(self.framed)}-{os.urandom(3).hex()}")
        frame = self.framed[target] = compose.Frame(os.fspath(path))
        frame.fill(self._sources[target], target, inner)
        return {target: frame.path} | {entry.target: self._shown(entry.fd, entry.target) for entry in frame.entries}

    def _shown(self, fd: int, target: str) -> str:
        """Where the engine finds what is mounted: where root shows it, or where it is; then it is looked at afterwards."""
        if self.identity.ours:
            path = os.readlink(f"/proc/self/fd/{fd}")
            self.bound.append((target, path, fd))
            return path
        if not self.identity.owns(os.fstat(fd)):
            self.shown.append(target)
        return self._place.show(fd)


def _has_names(directory: DescriptorDir, lower: int) -> bool:
    """Whether what a host directory has is in an overlay over it, as far as a few names tell."""
    try:
        names = os.listdir(f"/proc/self/fd/{lower}")[:_MOST_NAMES]
    except PermissionError:
        return True
    return all(_is_in(directory, name) or not os.path.lexists(f"/proc/self/fd/{lower}/{name}") for name in names)


def _is_in(directory: DescriptorDir, name: str) -> bool:
    try:
        directory.stat(name)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True
