"""Starting a sandbox: the supervisor, in bubblewrap, by way of the launcher where something has to be done before that."""

import errno
import os
import re
import socket
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field

from paddock.backends.namespaces.bwrap import Bubblewrap
from paddock.backends.namespaces.identity import Identity
from paddock.backends.namespaces.order import PLACE, SUPERVISOR, Order
from paddock.cgroups import Group
from paddock.errors import UnavailableError, visible
from paddock.wire.binary import supervisor_path

_WORDS = re.compile(rb"paddock-launch: ([a-z -]+): (\d+)\n")
_MOST_WORDS = 16 << 10


class Process:
    """bubblewrap, as a child of this process. Where it was born into a cgroup, it is not the one that Python started."""

    def __init__(self, started: "subprocess.Popen[bytes]", words: int, *, born: bool) -> None:
        self._started = started
        self._words_fd = words
        self._words = b""
        self._pid = 0 if born else started.pid
        self._code: int | None = None

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        if self._code is None:
            self._code = self._ended()
            if self._code is not None:
                self._close()
        return self._code

    def kill(self) -> None:
        """End it, and with it the sandbox."""
        self._read()
        if self._code is None and self._pid:
            with suppress(ProcessLookupError):
                os.kill(self._pid, 9)  # our child, and not waited for yet

    def last_words(self) -> str:
        """What it said on its standard error."""
        self._read()
        return self._words.decode("utf-8", "replace")

    def _ended(self) -> int | None:
        self._read()
        launcher = self._started.poll()
        if self._pid == self._started.pid:
            return launcher
        if not self._pid:
            return launcher or None  # it failed before there was another; or it has not got there yet
        try:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
        except ChildProcessError:  # somebody else waits for all children of this process
            return 0
        return os.waitstatus_to_exitcode(status) if pid else None

    def _read(self) -> None:
        while self._words_fd >= 0 and len(self._words) < _MOST_WORDS:
            try:
                data = os.read(self._words_fd, 4096)
            except BlockingIOError:
                break
            if not data:
                self._close()
                break
            self._words += data
        if not self._pid and (match := re.search(rb"paddock-launch: pid: (\d+)\n", self._words)):
            self._pid = int(match[1])

    def _close(self) -> None:
        if self._words_fd >= 0:
            os.close(self._words_fd)
            self._words_fd = -1


@dataclass(slots=True)
class Command:
    """All that a sandbox is started with. Its descriptors are ours until `close`."""

    bubblewrap: Bubblewrap
    identity: Identity
    order: Order
    options: list[str] = field(default_factory=list)
    """For the supervisor."""
    inherited: list[int] = field(default_factory=list)
    """For the supervisor, or for bubblewrap."""

    def give(self, name: str, fd: int) -> None:
        """An option of the supervisor with a descriptor."""
        self.inherited.append(fd)
        self.options += [name, str(fd)]

    def close(self) -> None:
        """Close what was only for the sandbox."""
        for fd in self.inherited:
            os.close(fd)
        self.inherited = []
        self.order.close()


def start(command: Command, group: Group, filter: str) -> Process:
    """Start it. What is wrong with it shows when it does not speak."""
    program, environment = _program(command)
    base = os.open(filter, os.O_RDONLY | os.O_CLOEXEC)
    command.inherited.append(base)
    command.order.add("--seccomp", str(base))
    arguments = _in_memory([os.fsencode(word) for word in command.order.words])
    command.inherited.append(arguments)
    words = [program, "--args", str(arguments), "--", SUPERVISOR, *command.options]
    launcher, descriptors = _launcher(command, group)
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        started = subprocess.Popen(
            [*launcher, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=writing,
            pass_fds=[*command.inherited, *descriptors],
            env=environment,
            cwd="/",
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
        for fd in descriptors[len(command.order.shown) :]:
            os.close(fd)
    return Process(started, reading, born=group.directory is not None)


def _program(command: Command) -> tuple[str, dict[str, str]]:
    """Where bubblewrap is for whoever runs it, and what it needs in its environment: nothing, as a rule."""
    bubblewrap = command.bubblewrap
    if command.identity.ours or bubblewrap.libraries is None:
        return bubblewrap.path, {}
    libraries = command.order.source(bubblewrap.libraries)
    return command.order.source(bubblewrap.path), {"LD_LIBRARY_PATH": libraries}


def _launcher(command: Command, group: Group) -> tuple[list[str], list[int]]:
    """What comes before bubblewrap, with its descriptors: first those that are shown."""
    identity, shown = command.identity, command.order.shown
    if identity.ours and group.directory is None and not group.joined:
        return [], []
    words = [supervisor_path(), "launch"]
    if not identity.ours:
        words += ["--user", str(identity.uid), str(identity.gid)]
    for entry in shown:
        words += ["--show", *map(str, entry)]
    descriptors = [fd for fd, _, _ in shown]
    if group.directory is not None:
        descriptors.append(os.open(group.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        words += ["--cgroup", str(descriptors[-1])]
    for path in group.joined:
        descriptors.append(os.open(os.path.join(path, "cgroup.procs"), os.O_WRONLY | os.O_CLOEXEC))
        words += ["--join", str(descriptors[-1])]
    return [*words, "--"], descriptors


def _in_memory(words: list[bytes]) -> int:
    fd = os.memfd_create("options", os.MFD_CLOEXEC)
    data = b"".join(word + b"\0" for word in words)
    while data:
        data = data[os.write(fd, data) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def channel() -> tuple[socket.socket, socket.socket]:
    """Our end and the sandbox's."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def failure(words: str, mounts: dict[str, str]) -> UnavailableError:
    """Why the sandbox did not start, from what was said on the way, and what to do about it."""
    match = _WORDS.search(words.encode("utf-8", "replace").replace(b"paddock-launch: pid", b""))
    if match is not None:
        return _launch_failure(match[1].decode(), int(match[2]))
    said = [line for line in words.splitlines() if not line.startswith("paddock-launch: pid")]
    for source, target in mounts.items():
        said = [line.replace(source, target) for line in said]
    text = visible(" ".join(said).strip()) or "it says nothing"
    if any(sign in text for sign in _FORBIDDEN):
        return UnavailableError(f"User namespaces are forbidden here ({text}).", hint=forbidden_hint())
    return UnavailableError(f"The sandbox did not start: {text}.", hint="See paddock doctor.")


_FORBIDDEN = (
    "No permissions to create new namespace",
    "Creating new namespace failed",
    "setting up uid map",
    "No permissions to create a new namespace",
)


def forbidden_hint() -> str:
    """What to do where user namespaces are forbidden, by what forbids them."""
    for path, value, words in _SWITCHES:
        with suppress(OSError):
            with open(path, encoding="ascii") as file:
                if file.read().strip() == value:
                    return words
    return (
        "A container or a policy of this host forbids them: allow user namespaces there, "
        'or use backend="docker", or backend="local" for no isolation.'
    )


_SWITCHES = (
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor forbids them to programs without a profile: install the distribution's bubblewrap with its profile "
        "(Ubuntu: apt-get install bubblewrap apparmor-profiles; then aa-enforce bwrap-userns-restrict), or, for the whole "
        "host, sysctl kernel.apparmor_restrict_unprivileged_userns=0.",
    ),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "The kernel forbids them to ordinary users: sysctl kernel.unprivileged_userns_clone=1.",
    ),
    ("/proc/sys/user/max_user_namespaces", "0", "The kernel has none to give: sysctl user.max_user_namespaces=10000."),
)


def _launch_failure(what: str, code: int) -> UnavailableError:
    words = os.strerror(code)
    if what == "id-mapped mount":
        return UnavailableError(
            f"Root's files can only be given to a sandbox by an id-mapped mount, which this file system or kernel does not "
            f"have ({words}).",
            hint="Give the directory to another user (chown), use one on ext4, xfs, btrfs or tmpfs, or do not start as root.",
        )
    if what == "cgroup" and code in (errno.EACCES, errno.EPERM, errno.ENOSYS):
        return UnavailableError(f"The sandbox's cgroup cannot be entered: {words}.", hint="See paddock doctor.")
    return UnavailableError(
        f"The sandbox did not start ({what}: {words}).", hint=f"See paddock doctor. It uses {PLACE}."
    )
