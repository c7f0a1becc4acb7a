"""One sandbox, from its plan to its end: whatever is made for it is known here, and goes with it."""

import os
import socket
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress

from paddock import cgroups
from paddock.backends.namespaces import detached, holding, system
from paddock.backends.namespaces.bwrap import find
from paddock.backends.namespaces.failing import failure
from paddock.backends.namespaces.identity import choose, dirs
from paddock.backends.namespaces.order import Order, build, in_memory
from paddock.backends.namespaces.sources import Sources
from paddock.backends.namespaces.start import Command, Process, start
from paddock.backends.supervised.driver import Root, SupervisedDriver
from paddock.backends.supervised.launch import Supervisor, clearing, socket_pair
from paddock.backends.supervised.roots import open_roots
from paddock.dirs.descriptor import DescriptorDir
from paddock.driver import Plan
from paddock.errors import SandboxDiedError, SandboxError, UnavailableError
from paddock.finishing import to_the_end
from paddock.paths import below, name
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
        self._private = PrivateDirectory(plan.id)
        self._group: cgroups.Group | None = None
        self._supervisor: Supervisor | None = None
        self._listening: socket.socket | None = None

    async def run(self) -> SupervisedDriver:
        """Start it. Whatever fails, `end` is still to be called."""
        plan, make = self._plan, dirs(self._identity, self._plan.mounts)
        on_disk = self._private_mounts()
        group = self._group = self._cgroups()
        holding.check(plan.limits, plan.mounts, group.held)
        paths = {**on_disk, **{m.target: os.fspath(m.source) for m in plan.mounts if m.source is not None}}
        held = await self._keep(group, paths)
        process, channel = self._start(on_disk, group)
        greeted = hello(channel)
        try:
            roots = await open_roots(channel, {m.target: m.target for m in plan.mounts}, paths, make)
            await greeted()
        except SandboxDiedError:
            with suppress(SandboxError):  # its answer has to be taken, whatever it is
                await greeted()
            await self._end_processes()
            raise failure(process.last_words(), paths) from None
        process.poll()  # the launcher has ended long since: nobody shall see it as a dead process
        _check_mounts(self._sources, roots, self._composed)
        _check_protected(self._sources, plan.protected, roots)
        if plan.record is not None and held is not None:
            process.settle()
            detached.keep_pid(plan.record, held, process.pid)
            self._let_go(process)
        return SupervisedDriver(
            channel,
            roots,
            self._isolation(group),
            _environment(self._rootfs),
            self.end if held is None else lambda: detached.leave(channel),
            hits=group.hits,
            detached=held is not None,
        )

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
        await self._end_processes()
        if self._remove_empty():
            return  # a thread would take longer than this
        try:
            await asyncio.to_thread(self._remove)
        except RuntimeError:  # at the end of the program there are no more threads
            self._remove()

    def _let_go(self, process: Process) -> None:
        """From now on its supervisor alone keeps it."""
        process.let_go()
        self._private.let_go()

    async def _end_processes(self) -> None:
        if self._listening is not None:
            self._listening.close()
        if self._supervisor is not None:
            if self._plan.record is not None:  # to which hanging up means nothing
                self._supervisor.channel.send(Request.END, self._supervisor.channel.new_id())
            await self._supervisor.end()

    def _remove_empty(self) -> bool:
        if self._plan.record is not None or (self._group is not None and not self._group.remove_empty()):
            return False
        return self._private.remove_empty()

    def _remove(self) -> None:
        with clearing(self._private):
            if self._group is not None:
                self._group.remove()

    def _private_mounts(self) -> dict[str, str]:
        """The private directories that are on disk, made, and where they are."""
        found = {}
        for number, mount in enumerate(self._plan.mounts):
            if mount.source is None and not in_memory(mount, self._plan):
                path = self._private.make(f"{number}-{name(mount.target)[:32]}")
                if not self._identity.ours:
                    os.chown(path, self._identity.uid, self._identity.gid)
                found[mount.target] = os.fspath(path)
        return found

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
            build(command.order, self._plan, self._sources, on_disk, supervisor_path(), self._host_paths, self._rootfs)
            self._composed = frozenset(command.order.composed)
            command.give("--channel", theirs.detach())
            self._tie(command)
            command.give("--filter", os.open(filter_path("commands"), os.O_RDONLY | os.O_CLOEXEC))
            for fd in command.order.held:
                command.give("--hold", os.dup(fd))
            if group.directory is not None:
                command.give("--own-cgroup", os.open(group.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            command.options += holding.options(self._plan.limits, group.held)
            process = start(command, group)
        except OSError as error:
            ours.close()
            raise UnavailableError(f"The sandbox cannot be started: {error.strerror}.", hint="Try again.") from error
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            command.close()
        self._supervisor = Supervisor(process, SocketChannel(ours, asyncio.get_running_loop()))
        self._supervisor.channel.ends_sandbox = self._plan.record is None
        return process, self._supervisor.channel

    def _tie(self, command: Command) -> None:
        """To this process, with which it ends; or to nobody."""
        if self._listening is None:
            command.order.add("--die-with-parent")
            command.give("--owner", os.pidfd_open(os.getpid()))
        else:
            command.give("--listen", self._listening.detach())
            command.give("--hold", self._private.lock())
        command.options += detached.terms(self._plan)

    def _isolation(self, group: cgroups.Group) -> Isolation:
        user = "as you" if self._identity.ours else f"as user {self._identity.uid}"
        return Isolation(
            files=Guarantee(True, "a mount namespace: a read-only system, private /tmp and home, and the mounts"),
            processes=Guarantee(True, f"pid, ipc and user namespaces; {user}, without capabilities"),
            network=Guarantee(True, "a network namespace with nothing but its own loopback"),
            syscalls=Guarantee(True, "seccomp: an allowlist for every process, and less for commands"),
            limits=holding.guarantees(self._plan.limits, self._plan.mounts, group.held),
        )


def _check_mounts(sources: Sources, roots: Mapping[str, Root], composed: Container[str]) -> None:
    """What is in the sandbox is what was opened: looked at in the sandbox itself."""
    for target in sources.targets:
        if target not in composed and not _is_there(sources[target], roots[target], ""):
            raise UnavailableError(
                f"The host directory of {target!r} was replaced meanwhile.", hint="Try again when nobody moves it."
            )


def _check_protected(sources: Sources, protected: Iterable[str], roots: Mapping[str, Root]) -> None:
    """What is protected is what was meant, in case somebody moved it meanwhile; and it is read-only."""
    for path in protected:
        target = sources.target_of(path)
        if not _is_there(sources[path], roots[target], below(path, target), read_only=True):
            raise UnavailableError(f"{path!r} could not be protected.", hint="Try again, or use a private workspace.")


def _is_there(source: int, root: Root, path: str, *, read_only: bool = False) -> bool:
    directory = root.dir
    if not isinstance(directory, DescriptorDir):
        return False
    try:
        same = os.path.samestat(os.fstat(source), directory.identity(path))
        return same and (directory.is_read_only(path) or not read_only)
    except OSError:
        return False


def _environment(rootfs: str | None) -> dict[str, str]:
    prefix = system.interpreter() if rootfs is None else None
    return {} if prefix is None else {"PATH": f"/usr/local/bin:/usr/bin:/bin:{prefix}/bin"}
