"""One sandbox, from its plan to its end: whatever is made for it is known here, and goes with it."""

import os
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from paddock import cgroups
from paddock.backends.namespaces import detached, holding, system
from paddock.backends.namespaces.bwrap import find
from paddock.backends.namespaces.failing import failure, refused_layer
from paddock.backends.namespaces.identity import choose, dirs
from paddock.backends.namespaces.lasting import later
from paddock.backends.namespaces.layers import Layers, NoLayerError, why
from paddock.backends.namespaces.order import Order, build, in_memory
from paddock.backends.namespaces.sources import Sources
from paddock.backends.namespaces.start import Command, Process, start, start_early
from paddock.backends.supervised.checks import check_mounts, check_protected
from paddock.backends.supervised.driver import Root, SupervisedDriver
from paddock.backends.supervised.launch import Supervisor, cannot_start, clearing, socket_pair
from paddock.backends.supervised.roots import open_roots
from paddock.driver import Plan
from paddock.errors import SandboxDiedError, SandboxError, UnavailableError
from paddock.finishing import to_the_end
from paddock.paths import name
from paddock.state import PrivateDirectory
from paddock.types import Guarantee, Isolation
from paddock.wire.binary import filter_path, supervisor_path
from paddock.wire.channel import Channel, SocketChannel, hello
from paddock.wire.frames import Request


class Launch:
    """A sandbox that is being made, and then runs until `end`."""

    def __init__(self, plan: Plan, sources: Sources, host_paths: tuple[str, ...], rootfs: str | None) -> None:
        self._plan = plan
        self._sources = sources
        self._composed: frozenset[str] = frozenset()
        self._host_paths = host_paths
        self._rootfs = rootfs
        self._identity = choose(sources.writable)
        self._private = PrivateDirectory(plan.id, later=not plan.review)
        self._layers = Layers(plan, sources, self._private)
        self._made = False
        self._group: cgroups.Group | None = None
        self._supervisor: Supervisor | None = None
        self._listening: socket.socket | None = None

    async def run(self) -> SupervisedDriver:
        """Start it. Whatever fails, `end` is still to be called."""
        plan = self._plan
        on_disk = self._private_mounts()
        group = self._group = self._cgroups()
        holding.check(plan.limits, plan.mounts, group.held)
        await self._layers.make(self._identity)
        paths = {**on_disk, **{m.target: os.fspath(m.source) for m in plan.mounts if m.source is not None}}
        held = await self._keep(group, self._own(paths))
        while True:
            process, channel = self._start(on_disk, group)
            isolation, environment = self._isolation(group), _environment(self._rootfs)
            try:
                roots = await self._opened(process, channel, paths)
                break
            except NoLayerError as error:
                await self._layers.copy_instead(self._identity, error)
        process.poll()  # the launcher has ended long since: nobody shall see it as a dead process
        check_mounts(self._sources, roots, self._composed | self._layers.targets)
        self._layers.check(roots)
        check_protected(self._sources, plan.protected, roots)
        if plan.record is not None and held is not None:
            process.settle()
            held = replace(held, isolation=isolation, layers=tuple(self._layers.described.values()))
            detached.keep_pid(plan.record, held, process.pid)
            self._let_go(process)
        return SupervisedDriver(
            channel,
            roots,
            isolation,
            environment,
            self.end if held is None else lambda: detached.leave(channel),
            hits=group.hits,
            detached=held is not None,
            layers=self._layers.described,
        )

    async def _opened(self, process: Process, channel: Channel, paths: dict[str, str]) -> dict[str, Root]:
        """The directories of a sandbox that is starting, if it does."""
        make = dirs(self._identity, self._plan.mounts)  # while bubblewrap works
        greeted = hello(channel)
        try:
            targets = {mount.target: mount.target for mount in self._plan.mounts}
            roots = await open_roots(channel, targets, self._own(paths), make)
            await greeted()
        except SandboxDiedError:
            with suppress(SandboxError):  # its answer has to be taken, whatever it is
                await greeted()
            await self._end_processes(clear=False)
            code = refused_layer(process.last_words())
            if code is not None and self._layers.overlays:
                raise NoLayerError(why(code)) from None
            raise failure(process.last_words(), paths) from None
        return roots

    def _own(self, paths: dict[str, str]) -> dict[str, str]:
        """Those where the sandbox's files really are: a layer is nowhere on this host."""
        return {target: path for target, path in paths.items() if target not in self._layers.targets}

    async def _keep(self, group: cgroups.Group, paths: dict[str, str]) -> detached.Held | None:
        """For a detached one: a socket to reach it by, and a record to find that by."""
        import asyncio

        if self._plan.record is None:
            return None
        self._listening = detached.listen(self._private, self._plan.id)
        held = detached.Held(
            socket=self._listening.getsockname(),
            uid=self._identity.uid,
            gid=self._identity.gid,
            ours=self._identity.ours,
            isolation=self._isolation(group),
            environment=_environment(self._rootfs),
            paths=paths,
            counters={limit: list(counter) for limit, counter in group.counters.items()},
            layers=tuple(self._layers.described.values()),
        )
        await to_the_end(
            asyncio.to_thread(detached.keep, self._plan.record, held)
        )  # or it would come when all is removed
        return held

    async def end(self) -> None:
        """The end of the sandbox: first of its processes, then of its files."""
        import asyncio

        if self._supervisor is not None and self._supervisor.channel.foreign:
            self._private.remove()  # which leaves it to its owner, and only lets go
            return
        if self._listening is not None:
            self._listening.close()
        try:
            await self._end_processes()
            if self._remove_empty():
                return  # a thread would take longer than this
            try:
                await asyncio.to_thread(self._remove)
            except RuntimeError:  # at the end of the program there are no more threads
                self._remove()
        finally:
            self._free()

    def _let_go(self, process: Process) -> None:
        """From now on its supervisor alone keeps it."""
        if self._listening is not None:
            self._listening.close()
        process.let_go()
        self._private.let_go()

    async def _end_processes(self, *, clear: bool = True) -> None:
        """With `clear`, private directories that are empty go meanwhile."""
        if self._supervisor is not None:
            if not clear:  # it has ended by itself
                await self._supervisor.end()
            elif self._plan.record is not None:  # to which hanging up means nothing
                self._supervisor.channel.send(Request.END, self._supervisor.channel.new_id())
                await self._supervisor.end()
            else:
                await self._supervisor.end(self._private.clear_empty)

    def _free(self) -> None:
        """What was removed has no name any more. What it took on the disk is freed when nobody waits for it."""
        held, self._private.held = self._private.held, []
        if held:
            later(partial(_close_all, held))

    def _remove_empty(self) -> bool:
        if self._plan.record is not None or (self._group is not None and not self._group.remove_empty()):
            return False
        return self._private.remove_empty()

    def _remove(self) -> None:
        with clearing(self._private):
            if self._group is not None:
                self._group.remove()

    def _private_mounts(self) -> dict[str, str]:
        """The private directories that are on disk, or will be."""
        return {
            mount.target: os.path.join(self._private.path, f"{number}-{name(mount.target)[:32]}")
            for number, mount in enumerate(self._plan.mounts)
            if mount.source is None and not in_memory(mount, self._plan)
        }

    def _make_private(self, paths: Iterable[str]) -> None:
        """Make them; they are there already if this is not the first try."""
        try:
            for path in () if self._made else paths:
                self._private.make(os.path.basename(path))
                if not self._identity.ours:
                    os.chown(path, self._identity.uid, self._identity.gid)
        except OSError as error:
            raise UnavailableError(
                f"A private directory cannot be made: {error.strerror}.", hint="Free some space, and try again."
            ) from error
        self._made = True

    def _cgroups(self) -> cgroups.Group:
        owner = None if self._identity.ours else (self._identity.uid, self._identity.gid)
        own_name = f"{cgroups.NAME}{self._plan.id}"
        return cgroups.make(own_name, self._plan.limits, owner=owner, note=self._private.note_cgroups)

    def _start(self, on_disk: Mapping[str, str], group: cgroups.Group) -> tuple[Process, Channel]:
        import asyncio

        bubblewrap = find()
        command = Command(bubblewrap, self._identity, Order(self._identity, by_descriptor=bubblewrap.binds_descriptors))
        ours, theirs = socket_pair()
        try:
            build(
                command.order,
                self._plan,
                self._sources,
                {**on_disk, **self._layers.copies},
                supervisor_path(),
                self._host_paths,
                self._rootfs,
                self._layers.overlays,
            )
            self._composed = frozenset(command.order.composed)
            command.give("--channel", theirs.detach())
            self._tie(command)
            command.give("--filter", os.open(filter_path("commands"), os.O_RDONLY | os.O_CLOEXEC))
            for fd in command.order.held:
                command.give("--hold", os.dup(fd))
            if group.directory is not None:
                command.give("--own-cgroup", os.open(group.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            command.options += holding.options(self._plan.limits, group.held)
            process = self._started(command, group, on_disk.values())
        except OSError as error:
            ours.close()
            raise cannot_start("sandbox", error) from error
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            command.close()
        try:
            channel = SocketChannel(ours, asyncio.get_running_loop())
        except OSError as error:  # the kernel watches no more descriptors for this user
            ours.close()
            with suppress(UnavailableError):  # it has said nothing, and ends by itself
                process.settle()
            process.kill()
            process.see_off()
            raise cannot_start("sandbox", error) from error
        self._supervisor = Supervisor(process, channel)
        self._supervisor.channel.ends_sandbox = self._plan.record is None
        return process, self._supervisor.channel

    def _started(self, command: Command, group: cgroups.Group, private: Iterable[str]) -> Process:
        """A detached one lives from its start: if we are killed, nobody could tell it from one that waits to be told."""
        if self._plan.record is None:
            return start_early(command, group, lambda: self._make_private(private))
        self._make_private(private)
        return start(command, group)

    def _tie(self, command: Command) -> None:
        """To this process, with which it ends; or to nobody."""
        if self._listening is None:
            command.order.add("--die-with-parent")
            command.give("--owner", os.pidfd_open(os.getpid()))
        else:
            command.give("--listen", os.dup(self._listening.fileno()))
            command.give("--hold", self._private.lock())
        command.options += detached.terms(self._plan)

    def _isolation(self, group: cgroups.Group) -> Isolation:
        user = "as you" if self._identity.ours else f"as user {self._identity.uid}"
        return Isolation(
            files=Guarantee(
                True,
                "a mount namespace: a read-only system, private /tmp and home, and the mounts" + self._layers.words(),
            ),
            processes=Guarantee(True, f"pid, ipc and user namespaces; {user}, without capabilities"),
            network=Guarantee(True, "a network namespace with nothing but its own loopback"),
            syscalls=Guarantee(True, "seccomp: an allowlist for every process, and less for commands"),
            limits=holding.guarantees(self._plan.limits, self._plan.mounts, group.held),
        )


def _close_all(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)


def _environment(rootfs: str | None) -> dict[str, str]:
    prefix = system.interpreter() if rootfs is None else None
    return {} if prefix is None else {"PATH": f"/usr/local/bin:/usr/bin:/bin:{prefix}/bin"}
