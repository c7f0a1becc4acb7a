"""A clock that tests turn, and a backend whose sandboxes cost next to nothing and die when told to."""

import asyncio
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from paddock import records, state
from paddock.dirs.descriptor import DescriptorDir
from paddock.dirs.memory import MemoryDir, Quota
from paddock.dirs.protocol import Dir
from paddock.driver import Capabilities, Plan, Running, Spawn
from paddock.errors import SandboxDiedError, SandboxError, UnsupportedError
from paddock.records import SandboxRecord
from paddock.state import PrivateDirectory
from paddock.types import Guarantee, Isolation, Mount, ProcessInfo

NOTHING = Guarantee(False, "it is a fake")


class FakeClock:
    """Time that goes on only when told to."""

    def __init__(self, wall: float = 1_800_000_000.0) -> None:
        self.wall = wall
        self.steady = 1000.0

    def time(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.steady

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


class World:
    """All fake sandboxes of this process: what there is, and what there was at most."""

    def __init__(self) -> None:
        self.held: dict[str, PrivateDirectory] = {}
        self.names: dict[str, str] = {}
        self.busy: set[str] = set()
        self.made = 0
        self.most = 0
        self.fail: list[SandboxError] = []
        self.stuck: set[str] = set()
        self.gone: set[str] = set()
        self.pause = 0.0

    def die(self, sandbox: str) -> None:
        """It ends by itself."""
        self.names.pop(sandbox)
        self.held.pop(sandbox).let_go()

    def end(self) -> None:
        for sandbox in list(self.held):
            self.die(sandbox)
            state.sweep_one(sandbox)


WORLD = World()


class FakeDriver:
    """A sandbox that is nothing but directories."""

    isolation = Isolation(NOTHING, NOTHING, NOTHING, NOTHING)
    environment: Mapping[str, str] = {}

    def __init__(self, sandbox: str, mounts: tuple[Mount, ...]) -> None:
        self._sandbox = sandbox
        self._dirs: dict[str, Dir] = {mount.target: _dir(mount) for mount in mounts}

    @property
    def error(self) -> SandboxError | None:
        return None if self._sandbox in WORLD.held else SandboxDiedError("The sandbox has ended.")

    def dir(self, target: str) -> Dir:
        return self._dirs[target]

    def host_path(self, target: str) -> str | None:
        return None

    async def spawn(self, command: Spawn) -> Running:
        raise UnsupportedError("It runs nothing.", backend="fake", capability="commands")

    async def processes(self) -> list[ProcessInfo]:
        return [ProcessInfo(2, ("sleep",), 0.0)] if self._sandbox in WORLD.busy else []

    async def attach(self, pid: int) -> Running:
        raise UnsupportedError("It runs nothing.", backend="fake", capability="commands")

    async def close(self) -> None:
        for one in self._dirs.values():
            one.close()


def _dir(mount: Mount) -> Dir:
    if mount.source is None:
        return MemoryDir(Quota(None, None))
    return DescriptorDir(os.open(mount.source, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))


@dataclass(frozen=True, slots=True)
class Fake:
    """It can be detached, as long as this process lives."""

    name: ClassVar[str] = "fake"
    capabilities: ClassVar[Capabilities] = Capabilities(
        commands=True, host_mounts=True, detached=True, lifetimes=True, host_effects=False
    )

    async def launch(self, plan: Plan) -> FakeDriver:
        private = PrivateDirectory(plan.id)
        try:
            await asyncio.sleep(WORLD.pause)
            if WORLD.fail:
                raise WORLD.fail.pop()
            if plan.record is not None:
                records.keep(replace(plan.record, held={"is": "fake"}))
            driver = FakeDriver(plan.id, plan.mounts)
        except BaseException:
            private.remove()
            raise
        WORLD.held[plan.id] = private
        WORLD.names[plan.id] = plan.name or plan.id
        assert len(set(WORLD.names.values())) == len(WORLD.names), "two sandboxes of one name"
        WORLD.made += 1
        WORLD.most = max(WORLD.most, len(WORLD.held))
        return driver

    async def connect(self, record: SandboxRecord) -> FakeDriver:
        await asyncio.sleep(0)
        if record.info.id not in WORLD.held:
            raise records.ended(record.info.id)
        return FakeDriver(record.info.id, record.mounts)

    async def remove(self, record: SandboxRecord) -> None:
        await asyncio.sleep(0)
        if record.info.id in WORLD.stuck:
            raise SandboxError("It did not end.")
        with suppress(KeyError):
            WORLD.die(record.info.id)
        state.sweep_one(record.info.id)


@dataclass(frozen=True, slots=True)
class Elsewhere(Fake):
    """One whose sandboxes somebody else keeps, who alone knows that they are gone."""

    name: ClassVar[str] = "elsewhere"

    async def living(self, found: Iterable[SandboxRecord]) -> list[SandboxRecord]:
        await asyncio.sleep(0)
        return [record for record in found if record.info.id not in WORLD.gone]


def check(spec: Any) -> None:
    """A type checker's word that it is a backend."""
    from paddock.driver import DetachableSpec

    assert isinstance(spec, DetachableSpec)
