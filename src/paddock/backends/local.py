"""`local`: directories of this host, opened by this process. It isolates nothing but paths."""

import os
import sys
from dataclasses import dataclass
from typing import ClassVar

from paddock.dirs.descriptor import DescriptorDir
from paddock.dirs.protocol import Dir
from paddock.driver import Capabilities, Plan, Running, Spawn
from paddock.errors import UnavailableError, UnsupportedError
from paddock.paths import name
from paddock.state import PrivateDirectory
from paddock.types import Guarantee, Isolation, ProcessInfo

_NOTHING = Guarantee(False, "nothing: commands would run as you, on this host")


@dataclass(frozen=True, slots=True)
class Local:
    """File calls stay inside the mounts; there is no isolation beyond that, and so it is only used by name."""

    name: ClassVar[str] = "local"
    capabilities: ClassVar[Capabilities] = Capabilities(host_mounts=True, same_paths=False, resolve=True)

    async def launch(self, plan: Plan) -> "LocalDriver":
        """Open or make every directory of the plan."""
        if sys.platform != "linux":
            raise UnavailableError("The backend 'local' needs Linux.", hint='Use backend="memory" here.')
        return LocalDriver(plan)


class LocalDriver:
    """The directories of one sandbox."""

    def __init__(self, plan: Plan) -> None:
        self._dirs: dict[str, DescriptorDir] = {}
        self._paths: dict[str, str] = {}
        self._private = PrivateDirectory(plan.id)
        try:
            for number, mount in enumerate(plan.mounts):
                source = mount.source
                if source is None:
                    source = self._private.make(f"{number}-{name(mount.target)[:32]}")
                self._paths[mount.target] = os.fspath(source)
                self._dirs[mount.target] = DescriptorDir.at(os.fspath(source))
        except OSError as error:
            self._release()
            raise UnavailableError(
                f"The directory for {mount.target!r} cannot be opened: {error.strerror}.", hint="Check its permissions."
            ) from error

    @property
    def isolation(self) -> Isolation:
        paths_only = Guarantee(False, "file calls are held beneath the mounts by the kernel; commands by nothing")
        return Isolation(files=paths_only, processes=_NOTHING, network=_NOTHING, syscalls=_NOTHING)

    def dir(self, target: str) -> Dir:
        return self._dirs[target]

    def host_path(self, target: str) -> str | None:
        return self._paths[target]

    async def spawn(self, command: Spawn) -> Running:
        raise _no_commands()

    async def processes(self) -> list[ProcessInfo]:
        raise _no_commands()

    async def attach(self, pid: int) -> Running:
        raise _no_commands()

    async def close(self) -> None:
        import asyncio

        try:
            await asyncio.to_thread(self._release)
        except RuntimeError:  # at the end of the program there are no more threads
            self._release()

    def _release(self) -> None:
        while self._dirs:
            self._dirs.popitem()[1].close()
        self._private.remove()


def _no_commands() -> UnsupportedError:
    return UnsupportedError(
        "The backend 'local' runs no commands in this version.", backend="local", capability="commands"
    )
