"""Starting a supervisor as a process of this host, and seeing it off."""

import errno
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from paddock.errors import LimitReachedError, SandboxDiedError, SandboxError, UnavailableError
from paddock.finishing import to_the_end
from paddock.state import PrivateDirectory
from paddock.wire.binary import supervisor_path
from paddock.wire.channel import Channel, SocketChannel, StreamChannel, greet

if TYPE_CHECKING:
    import asyncio

_SECONDS_TO_END = 5.0


class Started(Protocol):
    """A child of this process."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def kill(self) -> None: ...


@dataclass(slots=True)
class Supervisor:
    """A supervisor that runs, and the channel to it."""

    process: Started
    channel: Channel

    async def end(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Hang up, and return when it is gone with everything that it started. `meanwhile` is called when it is ending."""
        import asyncio

        self.channel.close()
        try:
            async with asyncio.timeout(_SECONDS_TO_END):
                await self.channel.ended()
                meanwhile()
                await self._gone()
        except TimeoutError:
            self.process.kill()  # its children's keepers end what is left
            await self._gone()

    async def _gone(self) -> None:
        """It has hung up, and is about to be gone."""
        while self.process.poll() is None:
            await _ended(self.process.pid)


async def _ended(pid: int) -> None:
    """Returns when a child of this process may have ended, at once: looking every millisecond would be too slow."""
    import asyncio

    loop = asyncio.get_running_loop()
    try:
        fd = os.pidfd_open(pid)
    except OSError:  # somebody else has waited for it; or there are no more descriptors
        await asyncio.sleep(0.001)
        return
    ended = loop.create_future()
    try:
        loop.add_reader(fd, lambda: None if ended.done() else ended.set_result(None))
        await ended
    finally:
        loop.remove_reader(fd)
        os.close(fd)


@dataclass(frozen=True, slots=True)
class Cgroup:
    """A cgroup for the supervisor to make, in a directory of cgroup2."""

    parent: str
    name: str

    @property
    def path(self) -> str:
        """Where it will be."""
        return os.path.join(self.parent, self.name)


def cannot_start(what: str, error: OSError) -> SandboxError:
    """Why there is no new sandbox, in words of this host's."""
    words = f"The {what} cannot be started: {error.strerror}."
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return LimitReachedError(
            words,
            hint="A sandbox takes about eight descriptors of this process: raise the limit (ulimit -n), or close some.",
            limit="open_files",
        )
    return UnavailableError(words, hint="Try again.")


async def start(*, frames: bool, cgroup: Cgroup | None, pids: int | None) -> Supervisor:
    """Start it and say hello. It lives as long as this process and the channel do, and not with any thread."""
    import asyncio

    loop = asyncio.get_running_loop()
    inherited: list[int] = []
    options: list[str] = []
    try:
        _pass(inherited, options, "--owner", os.pidfd_open(os.getpid()))
        if cgroup is not None:
            _pass(inherited, options, "--cgroup", os.open(cgroup.parent, os.O_RDONLY | os.O_DIRECTORY))
            options.append(cgroup.name)
        if pids is not None:
            options += ["--pids", str(pids)]
        supervisor = _over_stdio(loop, options, inherited) if frames else _over_socket(loop, options, inherited)
    except OSError as error:
        raise cannot_start("supervisor", error) from error
    finally:
        for fd in inherited:
            os.close(fd)
    try:
        await greet(supervisor.channel)
    except BaseException as error:
        await to_the_end(supervisor.end())
        if isinstance(error, SandboxDiedError):
            raise UnavailableError(
                f"The supervisor did not start. {error.message}", hint="See paddock doctor."
            ) from error
        raise
    return supervisor


@contextmanager
def clearing(private: PrivateDirectory) -> Iterator[None]:
    """A block that removes the cgroups of a sandbox. Its files go, whatever comes of that."""
    try:
        yield
    except OSError as error:
        raise SandboxError(
            f"Processes of the sandbox could not be ended: {error.strerror}.",
            hint="The next sandbox that is made tries again.",
        ) from error
    finally:
        private.remove()


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Our end of a channel, and the supervisor's."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def _pass(inherited: list[int], options: list[str], name: str, fd: int) -> None:
    inherited.append(fd)
    options += [name, str(fd)]


def _over_socket(loop: "asyncio.AbstractEventLoop", options: list[str], inherited: list[int]) -> Supervisor:
    ours, theirs = socket_pair()
    try:
        with theirs:
            words = ["--channel", str(theirs.fileno()), *options]
            process = _popen(words, [*inherited, theirs.fileno()], subprocess.DEVNULL, subprocess.DEVNULL)
    except BaseException:
        ours.close()
        raise
    return Supervisor(process, SocketChannel(ours, loop))


def _over_stdio(loop: "asyncio.AbstractEventLoop", options: list[str], inherited: list[int]) -> Supervisor:
    """A socket for each direction, where pipes would do: no command can open those of its supervisor by way of /proc."""
    writing, stdin = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    reading, stdout = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with writing, stdin, reading, stdout:
        process = _popen(["--stdio", *options], inherited, stdin.fileno(), stdout.fileno())
        return Supervisor(process, StreamChannel(reading.detach(), writing.detach(), loop))


def _popen(words: list[str], inherited: list[int], stdin: int, stdout: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [supervisor_path(), *words],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        pass_fds=inherited,
        env={},
        cwd="/",
        start_new_session=True,
    )
