"""One sandbox, from its plan to its end: whatever is made for it is known here, and goes with it."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress

from paddock import cgroups
from paddock.backends.namespaces import holding, system
from paddock.backends.namespaces.bwrap import find
from paddock.backends.namespaces.failing import failure
from paddock.backends.namespaces.identity import Identity, choose
from paddock.backends.namespaces.order import Order, build, in_memory
from paddock.backends.namespaces.start import Command, Process, start
from paddock.backends.supervised.driver import Root, SupervisedDriver
from paddock.backends.supervised.launch import Supervisor, socket_pair
from paddock.backends.supervised.roots import open_roots
from paddock.dirs.descriptor import DescriptorDir
from paddock.dirs.owned import OwnedDir, User
from paddock.dirs.protocol import Dir
from paddock.driver import Plan
from paddock.errors import SandboxDiedError, SandboxError, UnavailableError
from paddock.paths import below, name, within
from paddock.state import PrivateDirectory
from paddock.types import Guarantee, Isolation
from paddock.wire.binary import filter_path, supervisor_path
from paddock.wire.channel import Channel, SocketChannel, hello


class Launch:
    """A sandbox that is being made, and then runs until `end`."""

    def __init__(self, plan: Plan, host_paths: tuple[str, ...], rootfs: str | None) -> None:
        self._plan = plan
        self._host_paths = host_paths
        self._rootfs = rootfs
        self._identity = choose(plan.mounts)
        self._private = PrivateDirectory(plan.id)
        self._group: cgroups.Group | None = None
        self._supervisor: Supervisor | None = None

    async def run(self) -> SupervisedDriver:
        """Start it. Whatever fails, `end` is still to be called."""
        plan, make = self._plan, _dirs(self._identity)
        on_disk = self._private_mounts()
        group = self._group = self._cgroups()
        holding.check(plan.limits, plan.mounts, group.held)
        process, channel = self._start(on_disk, group)
        greeted = hello(channel)
        paths = {**on_disk, **{m.target: os.fspath(m.source) for m in plan.mounts if m.source is not None}}
        try:
            roots = await open_roots(channel, {m.target: m.target for m in plan.mounts}, paths, make)
            await greeted()
        except SandboxDiedError:
            with suppress(SandboxError):  # its answer has to be taken, whatever it is
                await greeted()
            await self._end_processes()
            raise failure(process.last_words(), paths) from None
        _check_protected(plan, roots)
        return SupervisedDriver(
            channel, roots, self._isolation(group), _environment(self._rootfs), self.end, hits=group.hits
        )

    async def end(self) -> None:
        """The end of the sandbox: first of its processes, then of its files."""
        import asyncio

        if self._supervisor is not None and self._supervisor.channel.foreign:
            self._private.remove()  # which leaves it to its owner, and only lets go
            return
        await self._end_processes()
        if self._remove_little():
            return
        try:
            await asyncio.to_thread(self._remove)
        except RuntimeError:  # at the end of the program there are no more threads
            self._remove()

    async def _end_processes(self) -> None:
        if self._supervisor is not None:
            await self._supervisor.end()

    def _remove_little(self) -> bool:
        """Remove everything if that is soon done: a thread for it would take longer. Whether it was."""
        if not self._private.is_small or (self._group is not None and not self._group.remove_empty()):
            return False
        self._private.remove()
        return True

    def _remove(self) -> None:
        try:
            if self._group is not None:
                self._group.remove()
        except OSError as error:
            raise SandboxError(
                f"Processes of the sandbox could not be ended: {error.strerror}.",
                hint="The next sandbox that is made tries again.",
            ) from error
        finally:
            self._private.remove()

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

        command = Command(find(), self._identity, Order(self._identity))
        ours, theirs = socket_pair()
        try:
            build(command.order, self._plan, on_disk, supervisor_path(), self._host_paths, self._rootfs)
            command.order.add("--die-with-parent")
            command.give("--channel", theirs.detach())
            command.give("--owner", os.pidfd_open(os.getpid()))
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
        return process, self._supervisor.channel

    def _isolation(self, group: cgroups.Group) -> Isolation:
        user = "as you" if self._identity.ours else f"as user {self._identity.uid}"
        return Isolation(
            files=Guarantee(True, "a mount namespace: a read-only system, private /tmp and home, and the mounts"),
            processes=Guarantee(True, f"pid, ipc and user namespaces; {user}, without capabilities"),
            network=Guarantee(True, "a network namespace with nothing but its own loopback"),
            syscalls=Guarantee(True, "seccomp: an allowlist for every process, and less for commands"),
            limits=holding.guarantees(self._plan.limits, self._plan.mounts, group.held),
        )


def _dirs(identity: Identity) -> Callable[[int], Dir]:
    """How the host works on the sandbox's files: never with more rights than the sandbox has."""
    if identity.ours:
        return DescriptorDir
    user = User(identity.uid, identity.gid)
    if not user.can_be():
        raise UnavailableError(
            "Root cannot make file calls as another user here.",
            hint="It needs CAP_SETUID and CAP_SETGID; or do not start as root.",
        )
    return lambda fd: OwnedDir(fd, user)


def _check_protected(plan: Plan, roots: Mapping[str, Root]) -> None:
    """What is protected is what was meant: looked at in the sandbox itself, in case somebody moved it meanwhile."""
    for path in plan.protected:
        target = next(mount.target for mount in plan.mounts if within(path, mount.target))
        directory = roots[target].dir
        if not isinstance(directory, DescriptorDir) or not directory.is_read_only(below(path, target)):
            raise UnavailableError(f"{path!r} could not be protected.", hint="Try again, or use a private workspace.")


def _environment(rootfs: str | None) -> dict[str, str]:
    prefix = system.interpreter() if rootfs is None else None
    return {} if prefix is None else {"PATH": f"/usr/local/bin:/usr/bin:/bin:{prefix}/bin"}
