"""`local`: directories and commands of this host, as you. It isolates nothing but the paths of file calls."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from paddock import cgroups
from paddock.backends.supervised.driver import SupervisedDriver
from paddock.backends.supervised.launch import Cgroup, Supervisor, clearing, start
from paddock.backends.supervised.roots import open_roots
from paddock.driver import HOME, Capabilities, Plan
from paddock.errors import UnavailableError
from paddock.finishing import to_the_end
from paddock.paths import name
from paddock.state import PrivateDirectory
from paddock.types import Guarantee, Isolation

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
            private.remove()
            raise
        closing = _Closing(supervisor, private, cgroup)
        try:
            roots = await open_roots(supervisor.channel, paths, paths)
        except BaseException:
            await to_the_end(closing.end())
            raise
        return SupervisedDriver(supervisor.channel, roots, _isolation(), _environment(paths), closing.end)

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

    async def end(self) -> None:
        import asyncio

        if self.supervisor.channel.foreign:
            self.private.remove()  # which leaves it to its owner, and only lets go
            return
        await self.supervisor.end()
        try:
            await asyncio.to_thread(self._remove)
        except RuntimeError:  # at the end of the program there are no more threads
            self._remove()

    def _remove(self) -> None:
        with clearing(self.private):
            if self.cgroup is not None:
                cgroups.remove(self.cgroup.path)  # only there if the supervisor was killed


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
    return Isolation(files=paths_only, processes=_NOTHING, network=_NOTHING, syscalls=_NOTHING)


def _environment(paths: Mapping[str, str]) -> dict[str, str]:
    """Commands see real paths: these say where the sandbox's own are."""
    known = {"HOME": HOME, "TMPDIR": "/tmp", "PADDOCK_WORKSPACE": "/workspace", "PADDOCK_CACHE": "/cache"}  # noqa: S108
    return {variable: paths[target] for variable, target in known.items() if target in paths}
