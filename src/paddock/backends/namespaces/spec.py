"""The backend's spec: from a plan to a running sandbox, or an error and nothing left."""

import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar

from paddock import cgroups
from paddock.backends.namespaces import holding, system
from paddock.backends.namespaces.bwrap import find
from paddock.backends.namespaces.identity import Identity, choose
from paddock.backends.namespaces.order import Order, build, in_memory
from paddock.backends.namespaces.start import Command, Process, channel, failure, start
from paddock.backends.supervised.driver import Root, SupervisedDriver
from paddock.backends.supervised.launch import Supervisor
from paddock.backends.supervised.roots import open_roots
from paddock.dirs.descriptor import DescriptorDir
from paddock.dirs.owned import OwnedDir, User
from paddock.dirs.protocol import Dir
from paddock.driver import Capabilities, Plan
from paddock.errors import ConfigError, SandboxDiedError, SandboxError, UnavailableError
from paddock.paths import below, name, within
from paddock.state import PrivateDirectory
from paddock.types import Guarantee, Isolation
from paddock.types.mounts import host_path
from paddock.wire.binary import filter_path, supervisor_path
from paddock.wire.channel import SocketChannel, hello


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Commands run behind a kernel boundary: namespaces of their own, a system that they cannot change, no network."""

    name: ClassVar[str] = "namespaces"
    capabilities: ClassVar[Capabilities] = Capabilities(  # noqa: S604 - what it can do, not a call of a shell
        commands=True,
        shell=True,
        pty=True,
        host_mounts=True,
        resolve=True,
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
            raise UnavailableError("The backend 'namespaces' needs Linux.", hint='Use backend="docker".')
        sandbox = _Launch(self, plan, choose(plan.mounts), PrivateDirectory(plan.id))
        try:
            return await sandbox.run()
        except BaseException:
            await sandbox.end()
            raise


def _directory(path: str | os.PathLike[str], option: str) -> str:
    real = os.path.realpath(host_path(path))
    if not os.path.isdir(real):
        raise ConfigError(f"{option}: {os.fspath(path)!r} is not a directory of this host.", hint="Correct the path.")
    return real


@dataclass(slots=True)
class _Launch:
    """One sandbox, with all that was made for it so far."""

    spec: Namespaces
    plan: Plan
    identity: Identity
    private: PrivateDirectory
    group: cgroups.Group | None = None
    process: Process | None = None
    supervisor: "Supervisor | None" = None
    roots: dict[str, Root] = field(default_factory=dict)

    async def run(self) -> SupervisedDriver:
        """All steps of it."""
        make = _dirs(self.identity)
        on_disk = self._private_mounts()
        paths = {**on_disk, **{m.target: os.fspath(m.source) for m in self.plan.mounts if m.source is not None}}
        self.group = self._cgroups()
        holding.check(self.plan.limits, self.plan.mounts, self.group.held)
        running = self._start(on_disk)
        greeted = hello(running.channel)
        targets = {mount.target: mount.target for mount in self.plan.mounts}
        try:
            self.roots = await open_roots(running.channel, targets, paths, make)
            await greeted()
        except SandboxDiedError:
            raise await self._failure(paths) from None
        _check_protected(self.plan, self.roots)
        return SupervisedDriver(running.channel, self.roots, self._isolation(), _environment(self.spec), self.end)

    async def end(self) -> None:
        """The end of the sandbox: first of its processes, then of its files."""
        import asyncio

        if self.supervisor is not None:
            if self.supervisor.channel.foreign:
                self.private.remove()  # which leaves it to its owner, and only lets go
                return
            await self.supervisor.end()
        try:
            await asyncio.to_thread(self._remove)
        except RuntimeError:  # at the end of the program there are no more threads
            self._remove()

    def _remove(self) -> None:
        try:
            if self.group is not None:
                self.group.remove()
        except OSError as error:
            raise SandboxError(
                f"Processes of the sandbox could not be ended: {error.strerror}.",
                hint="The next sandbox that is made tries again.",
            ) from error
        finally:
            self.private.remove()

    def _private_mounts(self) -> dict[str, str]:
        """The private directories that are on disk, made, and where they are."""
        found = {}
        for number, mount in enumerate(self.plan.mounts):
            if mount.source is None and not in_memory(mount, self.plan):
                path = self.private.make(f"{number}-{name(mount.target)[:32]}")
                if not self.identity.ours:
                    os.chown(path, self.identity.uid, self.identity.gid)
                found[mount.target] = os.fspath(path)
        return found

    def _cgroups(self) -> cgroups.Group:
        owner = None if self.identity.ours else (self.identity.uid, self.identity.gid)
        return cgroups.make(
            f"{cgroups.NAME}{self.plan.id}",
            self.plan.limits,
            owner=owner,
            note=self.private.note_cgroups,
        )

    def _start(self, on_disk: Mapping[str, str]) -> Supervisor:
        import asyncio

        group = self.group
        assert group is not None  # noqa: S101 - it is made before
        command = Command(find(), self.identity, Order(self.identity))
        ours, theirs = channel()
        try:
            rootfs = None if self.spec.rootfs is None else os.fspath(self.spec.rootfs)
            host_paths = [os.fspath(path) for path in self.spec.host_paths]
            build(command.order, self.plan, on_disk, supervisor_path(), host_paths, rootfs)
            command.give("--channel", theirs.detach())
            command.give("--owner", os.pidfd_open(os.getpid()))
            for fd in command.order.held:
                command.give("--hold", os.dup(fd))
            command.give("--filter", os.open(filter_path("commands"), os.O_RDONLY | os.O_CLOEXEC))
            if group.directory is not None:
                command.give("--own-cgroup", os.open(group.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            command.options += holding.options(self.plan.limits, group.held)
            command.order.add("--die-with-parent")
            self.process = start(command, group, filter_path("base"))
        except BaseException as error:
            ours.close()
            if isinstance(error, OSError):
                raise UnavailableError(
                    f"The sandbox cannot be started: {error.strerror}.", hint="Try again."
                ) from error
            raise
        finally:
            theirs.close()
            command.close()
        self.supervisor = Supervisor(self.process, SocketChannel(ours, asyncio.get_running_loop()))
        return self.supervisor

    async def _failure(self, paths: Mapping[str, str]) -> UnavailableError:
        """Why it does not speak: whoever stood in its way has said so."""
        if self.supervisor is None or self.process is None:
            raise RuntimeError("it was not started")
        await self.supervisor.end()
        return failure(self.process.last_words(), {path: target for target, path in paths.items()})

    def _isolation(self) -> Isolation:
        held = {} if self.group is None else self.group.held
        user = "your own user" if self.identity.ours else f"user {self.identity.uid}, who is nobody else"
        return Isolation(
            files=Guarantee(True, "a mount namespace: a read-only system, private /tmp and home, and the mounts"),
            processes=Guarantee(True, f"pid, ipc and user namespaces, without capabilities, as {user}"),
            network=Guarantee(True, "a network namespace with nothing but its own loopback"),
            syscalls=Guarantee(True, "seccomp: an allowlist for every process, and more for commands"),
            limits=holding.guarantees(self.plan.limits, self.plan.mounts, held),
        )


def _dirs(identity: Identity) -> "type[DescriptorDir] | _Owned":
    if identity.ours:
        return DescriptorDir
    user = User(identity.uid, identity.gid)
    if not user.can_be():
        raise UnavailableError(
            "Root cannot make file calls as another user here.",
            hint="It needs CAP_SETUID and CAP_SETGID; or do not start as root.",
        )
    return _Owned(user)


@dataclass(frozen=True, slots=True)
class _Owned:
    user: User

    def __call__(self, fd: int) -> Dir:
        return OwnedDir(fd, self.user)


def _check_protected(plan: Plan, roots: Mapping[str, Root]) -> None:
    """What is protected is what was meant: looked at in the sandbox itself, in case somebody moved it meanwhile."""
    for path in plan.protected:
        target = next(mount.target for mount in plan.mounts if within(path, mount.target))
        directory = roots[target].dir
        if not isinstance(directory, DescriptorDir) or not directory.is_read_only(below(path, target)):
            raise UnavailableError(f"{path!r} could not be protected.", hint="Try again, or use a private workspace.")


def _environment(spec: Namespaces) -> dict[str, str]:
    prefix = system.interpreter() if spec.rootfs is None else None
    return {} if prefix is None else {"PATH": f"/usr/local/bin:/usr/bin:/bin:{prefix}/bin"}
