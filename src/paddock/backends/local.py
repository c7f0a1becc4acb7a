"""`local`: directories and commands of this host, as you. It isolates nothing but the paths of file calls."""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from paddock import cgroups, places
from paddock.backends.supervised.driver import SupervisedDriver
from paddock.backends.supervised.launch import Cgroup, Supervisor, clearing, start
from paddock.backends.supervised.roots import open_roots
from paddock.driver import HOME, SOCKETS, Capabilities, Plan
from paddock.errors import OutsideError, SandboxError, UnavailableError
from paddock.finishing import to_the_end
from paddock.paths import below, name, within
from paddock.state import PrivateDirectory
from paddock.types import Guarantee, Isolation
from paddock.wire.binary import supervisor_path

_BRIDGE = "paddock-bridge"
_IN_PLACE = "s"  # short: a socket's path has little room
_NOTHING = Guarantee(False, "nothing: commands run as you, on this host, and can even kill their own supervisor")


@dataclass(frozen=True, slots=True)
class Local:
    """File calls stay inside the mounts. Commands run as you and reach all that you reach: it is only used by name."""

    name: ClassVar[str] = "local"
    capabilities: ClassVar[Capabilities] = Capabilities(  # noqa: S604 - what it can do, not a call of a shell
        commands=True,
        shell=True,
        pty=True,
        host_mounts=True,
        same_paths=False,
        resolve=True,
        relays=True,
        tools=True,
    )

    frames: bool = False
    """Speak to the supervisor as backends must that share no kernel with it: no descriptors, all in frames."""
    cgroup: bool = True
    """Give each command a cgroup of its own where this host lets us; else a process keeps its tree together."""

    async def launch(self, plan: Plan) -> SupervisedDriver:
        """Make or find every directory of the plan, and start the supervisor."""
        if sys.platform != "linux":
            raise UnavailableError("The backend 'local' needs Linux.", hint='Use backend="memory" here.')
        private = PrivateDirectory(plan.id)
        try:
            paths = _paths(plan, private)
            cgroup = self._cgroup(plan, private)
            supervisor = await start(frames=self.frames, cgroup=cgroup, pids=plan.limits.pids)
        except BaseException:
            with suppress(SandboxError):  # what cannot be removed now, a sweep removes: why it failed is what is told
                private.remove()
            raise
        sockets = _Sockets(plan.id, paths)
        closing = _Closing(supervisor, private, cgroup, sockets)
        try:
            roots = await open_roots(supervisor.channel, paths, paths)
        except BaseException:
            with suppress(SandboxError):
                await to_the_end(closing.end())
            raise
        environment = _environment(paths) | sockets.environment()
        return SupervisedDriver(
            supervisor.channel, roots, _isolation(), environment, closing.end, socket_path=sockets.real
        )

    def _cgroup(self, plan: Plan, private: PrivateDirectory) -> Cgroup | None:
        parent = cgroups.parent() if self.cgroup else None
        if parent is None:
            return None
        cgroup = Cgroup(parent, f"{cgroups.NAME}{plan.id}")
        private.note_cgroups([cgroup.path])
        return cgroup


@dataclass(slots=True)
class _Closing:
    """The end of a sandbox: first of its processes, then of its files."""

    supervisor: Supervisor
    private: PrivateDirectory
    cgroup: Cgroup | None
    sockets: "_Sockets"

    async def end(self) -> None:
        import asyncio

        if self.supervisor.channel.foreign:
            self.private.remove()  # which leaves it to its owner, and only lets go
            return
        await self.supervisor.end()
        self.sockets.remove()
        try:
            await asyncio.to_thread(self._remove)
        except RuntimeError:  # at the end of the program there are no more threads
            self._remove()

    def _remove(self) -> None:
        with clearing(self.private):
            if self.cgroup is not None:
                cgroups.remove(self.cgroup.path)  # only there if the supervisor was killed


class _Sockets:
    """Where the sockets of a sandbox really are: in its mounts, or in a short directory of its own, made when first used."""

    def __init__(self, sandbox: str, paths: Mapping[str, str]) -> None:
        self._sandbox = sandbox
        self._paths = paths

    def environment(self) -> dict[str, str]:
        """What tells commands. A host without a place for sockets is told so when one is wanted."""
        with suppress(SandboxError):
            return {"PADDOCK_SOCKETS": str(places.path_for(self._sandbox, make=False) / _IN_PLACE)}
        return {}

    def real(self, path: str) -> str:
        """The path on this host of a path inside."""
        if within(path, SOCKETS):
            own = places.path_for(self._sandbox) / _IN_PLACE
            os.makedirs(own, mode=0o700, exist_ok=True)
            with suppress(FileExistsError):
                os.symlink(supervisor_path(), own / _BRIDGE)
            return os.path.join(own, below(path, SOCKETS))
        for target in sorted((t for t in self._paths if within(path, t)), key=len, reverse=True):
            return os.path.join(self._paths[target], below(path, target))
        raise OutsideError(
            "The path of a socket inside leads outside.", path=path, hint=f"Use {SOCKETS}, or a path in a mount."
        )

    def remove(self) -> None:
        """It goes, with what commands put there."""
        with suppress(SandboxError):
            places.remove(places.path_for(self._sandbox, make=False))


def _paths(plan: Plan, private: PrivateDirectory) -> dict[str, str]:
    """The host directory of every mount; private ones are made."""
    found = {}
    for number, mount in enumerate(plan.mounts):
        source = mount.source
        if source is None:
            source = private.make(f"{number}-{name(mount.target)[:32]}")
        found[mount.target] = os.fspath(source)
    return found


def _isolation() -> Isolation:
    paths_only = Guarantee(False, "file calls are held beneath the mounts by the kernel; commands by nothing")
    return Isolation(files=paths_only, processes=_NOTHING, network=_NOTHING, syscalls=_NOTHING, secrets=_NOTHING)


def _environment(paths: Mapping[str, str]) -> dict[str, str]:
    """Commands see real paths: these say where the sandbox's own are."""
    known = {"HOME": HOME, "TMPDIR": "/tmp", "PADDOCK_WORKSPACE": "/workspace", "PADDOCK_CACHE": "/cache"}  # noqa: S108
    return {variable: paths[target] for variable, target in known.items() if target in paths}
