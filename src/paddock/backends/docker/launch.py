"""One sandbox in a container, from its plan to its end: whatever is made for it is known here, and goes with it."""

import os
import secrets
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, TypeVar

from paddock import cgroups, state
from paddock.backends.docker import detached, images, order, ways
from paddock.backends.docker.engine import SECONDS_TO_REMOVE, Engine, reached, refusals, remove
from paddock.backends.docker.prepare import Preparation
from paddock.backends.docker.reach import meet
from paddock.backends.docker.volumes import NOT_THIS_ENGINE, fill, make_overlays, remove_volume
from paddock.backends.docker.ways import NotOursError, NotSeenError, Ways
from paddock.backends.namespaces import holding
from paddock.backends.namespaces.identity import Identity, choose, dirs
from paddock.backends.namespaces.layers import Layers, NoLayerError
from paddock.backends.namespaces.order import check_targets
from paddock.backends.namespaces.sources import Sources
from paddock.backends.supervised.checks import check_entries, check_mounts, check_protected
from paddock.backends.supervised.connect import hang_up
from paddock.backends.supervised.driver import Root, SupervisedDriver
from paddock.backends.supervised.roots import open_roots
from paddock.driver import Plan
from paddock.errors import SandboxDiedError, SandboxError, UnavailableError
from paddock.finishing import to_the_end
from paddock.state import PrivateDirectory
from paddock.types import Guarantee, Isolation, Limits
from paddock.wire.channel import Channel, SocketChannel, hello

_SECONDS_TO_START = 120.0
_UNSEEN = ("bind source path does not exist", "no such file or directory", "mounts denied", "not shared from the host")
_LIMITS = {"memory": "Memory", "cpu": "NanoCpus", "pids": "PidsLimit"}


T = TypeVar("T")


class Launch:
    """A sandbox that is being made, and then runs until `end`."""

    def __init__(
        self, plan: Plan, sources: Sources, engine: Engine, image: str, runtime: str | None, read_only: bool
    ) -> None:
        self._plan, self._sources = plan, sources
        self._image, self._runtime, self._read_only = image, runtime, read_only
        self._secret = secrets.token_hex(16)
        self._address: str | None = None
        self._identity = choose(sources.writable)
        self._private = PrivateDirectory(plan.id)
        self._layers = Layers(plan, sources, self._private, f"container engine {engine.address} {runtime or ''}")
        self._volumes: list[str] = []
        self._prepared: Preparation | None = None
        self._container: str | None = None
        self._channel: Channel | None = None
        self._is_kept = False
        self._engine = ""

    async def run(self, engine: Engine) -> SupervisedDriver:
        """Start it. Whatever fails, `end` is still to be called."""
        self._address = engine.address
        mounts = order.own_mounts(self._plan)
        check_targets(tuple(mount.target for mount in mounts), ())
        holding.check(self._plan.limits, mounts, _held(self._plan.limits, self._runtime))
        image = await images.found(engine, self._image)
        order.check_volumes(image, self._plan)
        known = ways.known(engine.address, self._runtime)
        while True:
            if not known.files:
                self._refuse_host_mounts()
            try:
                return await self._try(engine, image, known)
            except NotSeenError:
                known.files = known.calls = False
            except NotOursError:
                known.calls = False
                self._layers.forget_overlays()
            except NoLayerError as error:
                await to_the_end(self._remove_container())
                await self._layers.copy_instead(self._identity, error)
            await to_the_end(self._remove_container())

    async def _try(self, engine: Engine, image: images.Image, known: Ways) -> SupervisedDriver:
        import asyncio

        if known.files:
            await self._layers.make(self._identity)
        prepared = self._prepared = Preparation(
            self._plan, self._sources, self._private, engine, known, self._identity, self._layers
        )
        told = await to_the_end(asyncio.to_thread(prepared.told, image, self._secret, self._runtime, self._read_only))
        await self._keep(engine, prepared, image)
        container = await self._create(engine, prepared, told)
        ending = asyncio.ensure_future(
            container.wait(condition="next-exit")
        )  # asked before: it is removed when it ends
        try:
            await self._started(container, prepared, told)
            channel = self._channel = await meet(engine, container, prepared.caller, self._secret, ending)
        finally:
            ending.cancel()
            await asyncio.wait([ending])
        known.calls = known.calls and isinstance(channel, SocketChannel)
        prepared.check_names()
        await self._check_limits(container)
        roots = await self._roots(channel, prepared)
        prepared.close()
        return await self._driver(channel, roots, engine, prepared, image)

    async def _driver(
        self, channel: Channel, roots: dict[str, Root], engine: Engine, prepared: Preparation, image: images.Image
    ) -> SupervisedDriver:
        group, layers = _counters(channel, self._plan.limits), self._layers.described
        isolation, environment = self._isolation(prepared.identity), _environment(image)
        if self._plan.record is None:
            return SupervisedDriver(channel, roots, isolation, environment, self.end, hits=group.hits, layers=layers)
        held = self._held(engine, prepared, image, group, called=isinstance(channel, SocketChannel))
        await to_the_end(detached.keep_again(self._plan.record, held))
        self._private.let_go()
        channel.ends_sandbox = False
        return SupervisedDriver(
            channel,
            roots,
            isolation,
            environment,
            lambda: detached.leave(channel),
            hits=group.hits,
            detached=True,
            layers=layers,
        )

    async def _keep(self, engine: Engine, prepared: Preparation, image: images.Image) -> None:
        """A detached one is known before it is there: whoever is killed meanwhile leaves one that can be found, or ends."""
        if self._plan.record is not None and not self._is_kept:
            self._engine = await engine.identity()
            held = self._held(engine, prepared, image, _no_counters(), called=prepared.caller is not None)
            self._private.note_elsewhere()
            await to_the_end(detached.keep(self._plan.record, held))
            self._is_kept = True

    def _held(
        self, engine: Engine, prepared: Preparation, image: images.Image, group: cgroups.Group, *, called: bool
    ) -> detached.Held:
        return detached.Held(
            address=engine.address,
            engine=self._engine,
            container=f"paddock-{self._plan.id}",
            secret=self._secret,
            socket=detached.socket_path(self._plan.id) if called else None,
            uid=prepared.identity.uid,
            gid=prepared.identity.gid,
            ours=prepared.identity.ours,
            isolation=self._isolation(prepared.identity),
            environment=_environment(image),
            paths=prepared.paths,
            counters={limit: list(counter) for limit, counter in group.counters.items()},
            layers=tuple(self._layers.described.values()),
        )

    async def end(self) -> None:
        """The end of the sandbox: first of its processes, then of its files."""
        import asyncio

        if self._channel is not None and self._channel.foreign:
            self._private.remove()  # which leaves it to its owner, and only lets go
            return
        try:
            await self._remove_container()
        finally:
            await asyncio.to_thread(self._remove_files)

    def _remove_files(self) -> None:
        self._private.remove()
        if self._is_kept:  # and may have been let go of already
            state.forget(self._plan.id)

    async def _remove_container(self) -> None:
        if self._prepared is not None:
            self._prepared.close()
            self._prepared = None
        if self._channel is not None:
            await hang_up(
                self._channel
            )  # which ends the sandbox, if it is the only channel; the container goes in any case
            self._channel = None
        if self._container is not None:
            async with reached(self._address, SECONDS_TO_REMOVE) as engine:
                await remove(engine, self._container)
                while self._volumes:
                    await remove_volume(engine, self._volumes[-1])
                    self._volumes.pop()
            self._container = None

    async def _started(self, container: Any, prepared: Preparation, told: order.Order) -> None:
        import aiodocker

        with refusals("start the container", prepared.names(told)):
            try:
                await to_the_end(_in_time(container.start()))
            except aiodocker.DockerError as error:
                if prepared.volumes and "mount" in error.message:
                    raise NoLayerError(NOT_THIS_ENGINE) from None
                raise

    async def _create(self, engine: Engine, prepared: Preparation, told: order.Order) -> Any:
        import aiodocker

        self._container = f"paddock-{self._plan.id}"
        self._volumes = list(prepared.volumes)
        await to_the_end(make_overlays(engine, prepared.volumes, self._image, told.labels))
        making = engine.containers.create(order.container(told), name=self._container)
        with refusals("make the container", prepared.names(told)):
            try:  # to the end: an engine that has been asked makes it, whether we wait or not
                container = await to_the_end(_in_time(making))
            except aiodocker.DockerError as error:
                if told.binds and any(words in error.message for words in _UNSEEN):
                    _refuse_vanished(told)
                    raise NotSeenError from None
                if prepared.volumes and "volume" in error.message:
                    raise NoLayerError(NOT_THIS_ENGINE) from None
                raise
        if told.elsewhere:
            await fill(container, engine.machine)
        return container

    def _refuse_host_mounts(self) -> None:
        for target in self._sources.targets:
            raise UnavailableError(
                f"The container engine does not see this host's directories, such as the one for {target!r}.",
                hint="Use a private workspace and upload(), or an engine on this host.",
            )

    async def _roots(self, channel: Channel, prepared: Preparation) -> dict[str, Root]:
        """The directories of the mounts: by their handles, or over the wire where these cannot travel."""
        targets = {mount.target: mount.target for mount in self._plan.mounts}
        if not isinstance(channel, SocketChannel):
            roots = await open_roots(channel, targets, prepared.paths)
            self._try_writing(roots, prepared.shown)
            return roots
        greeted = hello(channel)
        try:
            make = dirs(prepared.identity, order.own_mounts(self._plan))
            roots = await open_roots(channel, targets, prepared.paths, make)
            await greeted()
        except SandboxDiedError as error:
            with suppress(SandboxError):  # its answer has to be taken, whatever it is
                await greeted()
            raise UnavailableError(
                f"The sandbox did not start. {error.message}", hint="See `paddock doctor`."
            ) from None
        self._check(roots, prepared)
        return roots

    def _try_writing(self, roots: dict[str, Root], shown: list[str]) -> None:
        """A kernel that is not this host's may not know what an id-mapped mount is: gVisor's does not."""
        for mount in self._plan.mounts:
            if mount.target in shown and not mount.read_only:
                try:
                    _write_and_remove(roots[mount.target])
                except OSError as error:
                    if mount.target in self._layers.overlays:
                        raise NoLayerError(f"the runtime {self._runtime!r} cannot write to an overlay") from None
                    raise UnavailableError(
                        f"The directory for {mount.target!r} belongs to root, and the runtime {self._runtime!r} cannot show "
                        f"it to another user ({error.strerror}).",
                        hint="Give it to another user (chown), use a private workspace, or do not start as root.",
                    ) from None

    def _check(self, roots: dict[str, Root], prepared: Preparation) -> None:
        try:
            for mount in order.own_mounts(self._plan):
                if mount.source is None:
                    _look(roots[mount.target])
            check_mounts(self._sources, roots, {*prepared.framed, *self._layers.targets}, ways.sees_otherwise)
            prepared.check_layers(roots)
            self._layers.check(roots)
            for frame in prepared.framed.values():
                check_entries(frame.entries, roots)
            check_protected(self._sources, self._plan.protected, roots)
        except BaseException:
            for root in roots.values():
                root.dir.close()
            raise

    async def _check_limits(self, container: Any) -> None:
        """An engine that cannot hold a limit leaves it out, and says so only here."""
        limits = self._plan.limits
        asked = [name for name in _LIMITS if name in limits.asked() and getattr(limits, name) is not None]
        if limits.best_effort or not asked:
            return
        with refusals("show the container"):
            told = (await container.show())["HostConfig"]
        for name in asked:
            if not told.get(_LIMITS[name]):
                raise UnavailableError(
                    f"The limit on {name} cannot be held here: the container engine left it out.",
                    hint="Give the engine a cgroup that it may use, or pass Limits(..., best_effort=True).",
                )

    def _isolation(self, identity: Identity) -> Isolation:
        kernel = "gVisor's kernel" if order.is_gvisor(self._runtime) else "the container engine"
        user = "as you" if identity.ours else f"as user {identity.uid}"
        root = "a read-only root" if self._read_only else "a root of its own"
        limits = self._plan.limits
        return Isolation(
            files=Guarantee(
                True,
                f"{kernel}: {root} from the image, private /tmp and home, and the mounts" + self._layers.words(),
            ),
            processes=Guarantee(True, f"{kernel}: namespaces of its own; {user}, without capabilities"),
            network=Guarantee(True, f"{kernel}: no network but its own loopback"),
            syscalls=Guarantee(True, "seccomp: the engine's filter, an allowlist for every process, less for commands"),
            limits=holding.guarantees(limits, order.own_mounts(self._plan), _held(limits, self._runtime)),
        )


def _held(limits: Limits, runtime: str | None) -> dict[str, str]:
    held = {name: "the container engine's cgroup" for name in _LIMITS if getattr(limits, name) is not None}
    if "pids" in held and order.is_gvisor(runtime):
        held["pids"] += ", roughly: it counts gVisor's threads, with room for several for each process"
    return held


def _counters(channel: Channel, limits: Limits) -> cgroups.Group:
    """What the kernel counts of limits that were met, where it is this host's."""
    pid = channel.peer if isinstance(channel, SocketChannel) else 0
    return cgroups.watch(pid, limits) if pid else _no_counters()


def _no_counters() -> cgroups.Group:
    return cgroups.Group(None, (), {}, (), {})


def _environment(image: images.Image) -> dict[str, str]:
    """What the image says, but for the home, which is ours."""
    return {key: value for key, value in image.environment.items() if key != "HOME"}


def _refuse_vanished(told: order.Order) -> None:
    """What is not there any more nobody sees, and that says nothing about the engine."""
    for target, path in told.binds.items():
        if not os.path.lexists(path):
            raise UnavailableError(
                f"The host directory of {target!r} was moved meanwhile.", hint="Try again when nobody moves it."
            )


async def _in_time(work: Awaitable[T]) -> T:
    """What an engine was asked for, if it comes at all."""
    import asyncio

    try:
        async with asyncio.timeout(_SECONDS_TO_START):
            return await work
    except TimeoutError:
        raise UnavailableError(
            f"The container engine did not finish within {_SECONDS_TO_START:g} seconds.", hint="See its log."
        ) from None


def _look(root: Root) -> None:
    """Whether the handle is of any use to us."""
    try:
        root.dir.stat(".paddock")
    except FileNotFoundError:
        pass
    except PermissionError:
        raise NotOursError from None


def _write_and_remove(root: Root) -> None:
    name = f".paddock-{secrets.token_hex(4)}"
    root.dir.write(name, b"", None)
    root.dir.remove(name)
