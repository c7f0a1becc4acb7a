"""The backend's spec: what can be asked of it, and what it can do."""

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from paddock.backends.namespaces import detached, rootfs
from paddock.backends.namespaces.launch import Launch
from paddock.backends.namespaces.sources import Sources
from paddock.backends.supervised.driver import SupervisedDriver
from paddock.driver import Capabilities, Plan
from paddock.errors import ConfigError, UnavailableError
from paddock.finishing import to_the_end
from paddock.records import SandboxRecord
from paddock.types import Mount
from paddock.types.mounts import host_path


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Commands run behind a kernel boundary: namespaces of their own, a system they cannot change, no network unasked."""

    name: ClassVar[str] = "namespaces"
    capabilities: ClassVar[Capabilities] = Capabilities(  # noqa: S604 - what it can do, not a call of a shell
        commands=True,
        shell=True,
        pty=True,
        host_mounts=True,
        resolve=True,
        relays=True,
        tools=True,
        network=True,
        secrets=True,
        review=True,
        detached=True,
        lifetimes=True,
        limits=frozenset({"memory", "cpu", "pids", "disk", "tmp", "open_files", "file_size"}),
    )

    rootfs: str | os.PathLike[str] | None = None
    """A directory with another root file system, instead of this host's /usr and what belongs to it. It is only read."""
    host_paths: Iterable[str | os.PathLike[str]] = ()
    """Directories of this host that are shown too, read-only, where they are: tool chains below a home directory, say."""

    def __post_init__(self) -> None:
        if isinstance(self.host_paths, (str, bytes, os.PathLike)):
            raise ConfigError("host_paths= is a list of paths.", hint='Such as host_paths=["/opt/tools"].')
        object.__setattr__(self, "host_paths", tuple(_directory(path, "host_paths") for path in self.host_paths))
        if self.rootfs is not None:
            object.__setattr__(self, "rootfs", _directory(self.rootfs, "rootfs"))

    async def launch(self, plan: Plan) -> SupervisedDriver:
        """Start it; all parts of the boundary, or an error that says which cannot be had."""
        if sys.platform != "linux":
            raise UnavailableError("The backend 'namespaces' needs Linux.", hint="Use 'memory', for tests.")
        other = None if self.rootfs is None else os.fspath(self.rootfs)
        with Sources(plan) as sources:
            launch = Launch(plan, sources, self.host_directories(), other)
            try:
                return await launch.run()
            except BaseException:
                await to_the_end(launch.end())
                raise

    def host_directories(self) -> tuple[str, ...]:
        """What is shown where it is."""
        return tuple(os.fspath(path) for path in self.host_paths)

    def root_mounts(self, image: str | None) -> tuple[Mount, ...]:
        """What file calls reach of another root, as the sandbox's user and only to read."""
        return () if self.rootfs is None else rootfs.mounts(os.fspath(self.rootfs))

    async def connect(self, record: SandboxRecord) -> SupervisedDriver:
        """A detached one that runs."""
        return await detached.connect(record)

    async def remove(self, record: SandboxRecord) -> None:
        """End a detached one, and remove what it had."""
        await detached.remove(record)


def _directory(path: str | os.PathLike[str], option: str) -> str:
    real = os.path.realpath(host_path(path))
    if not os.path.isdir(real):
        raise ConfigError(f"{option}: {os.fspath(path)!r} is not a directory of this host.", hint="Correct the path.")
    return real
