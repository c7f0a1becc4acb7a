"""The backend's spec: what can be asked of it, and what it can do."""

import os
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from paddock import records
from paddock.backends.docker import detached
from paddock.backends.docker.engine import Engine, normalised, reached
from paddock.backends.docker.launch import Launch
from paddock.backends.namespaces.sources import Sources
from paddock.backends.supervised.driver import SupervisedDriver
from paddock.config import setting
from paddock.driver import Capabilities, Plan
from paddock.errors import ConfigError, UnavailableError
from paddock.finishing import to_the_end
from paddock.records import SandboxRecord
from paddock.types import Mount
from paddock.types.mounts import IMAGE_ROOT

_SECONDS_BETWEEN_SWEEPS = 300.0
_swept: dict[str | None, float] = {}


@dataclass(frozen=True, slots=True)
class Docker:
    """Commands run in a container of Docker or Podman, on an image of your choice; with gVisor, on a kernel of its own."""

    name: ClassVar[str] = "docker"
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
        images=True,
        detached=True,
        lifetimes=True,
        limits=frozenset({"memory", "cpu", "pids", "disk", "tmp", "open_files", "file_size"}),
    )

    runtime: str | None = None
    """The engine's runtime for it, as the engine knows it: `runsc` is gVisor."""
    socket: str | os.PathLike[str] | None = None
    """The engine, by its socket's path or an address. Else it is that of `DOCKER_HOST`, of the context, or the usual one."""
    read_only: bool = True
    """Whether the image's root is read-only, as it is unless programs must write elsewhere than to /tmp, home and mounts."""

    def __post_init__(self) -> None:
        if self.runtime is not None and not isinstance(self.runtime, str):
            raise ConfigError(f"runtime={self.runtime!r} is not the name of a runtime.", hint="Such as 'runsc'.")
        object.__setattr__(self, "socket", normalised(self.socket))

    async def launch(self, plan: Plan) -> SupervisedDriver:
        """Start it; all parts of the boundary, or an error that says which cannot be had."""
        if sys.platform != "linux":
            raise UnavailableError("The backend 'docker' needs Linux in this version.", hint="Use 'memory', for tests.")
        image = plan.image or setting("image").value
        address = None if self.socket is None else os.fspath(self.socket)
        with Sources(plan) as sources:
            launch: Launch | None = None
            try:
                async with reached(address) as engine:
                    await _sweep_at_times(engine)
                    launch = Launch(plan, sources, engine, image, self.runtime, self.read_only)
                    driver = await launch.run(engine)
            except BaseException:  # also while the engine's connection is closed, when all is done
                if launch is not None:
                    await to_the_end(launch.end())
                raise
            return driver

    def host_directories(self) -> tuple[str, ...]:
        """What is shown of this host besides the mounts: nothing."""
        return ()

    def root_mounts(self, image: str | None) -> tuple[Mount, ...]:
        """The image's root, for file calls too, where an image was asked for; only to read."""
        return () if image is None else (Mount(*IMAGE_ROOT),)

    async def connect(self, record: SandboxRecord) -> SupervisedDriver:
        """A detached one that runs."""
        return await detached.connect(record)

    async def remove(self, record: SandboxRecord) -> None:
        """End a detached one, and remove what it had."""
        await detached.remove(record)

    async def living(self, found: Iterable[SandboxRecord]) -> list[SandboxRecord]:
        """Those that run, as the engine knows."""
        return await detached.living(found)


def _is_ours(record: SandboxRecord) -> bool:
    return record.info.backend == Docker.name


async def _sweep_at_times(engine: Engine) -> None:
    import asyncio

    now = time.monotonic()
    if now - _swept.get(engine.address, -_SECONDS_BETWEEN_SWEEPS) >= _SECONDS_BETWEEN_SWEEPS:
        _swept[engine.address] = now
        await detached.sweep(engine)
        await detached.living(record for record in await asyncio.to_thread(records.living) if _is_ours(record))
