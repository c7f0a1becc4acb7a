"""Starting a sandbox: the supervisor, in bubblewrap, by way of the launcher where something has to be done before that."""

import os
import re
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from paddock.backends.namespaces import lean, system
from paddock.backends.namespaces.bwrap import Bubblewrap
from paddock.backends.namespaces.identity import Identity
from paddock.backends.namespaces.lasting import in_lasting_thread
from paddock.backends.namespaces.order import SUPERVISOR, Order
from paddock.cgroups import Group
from paddock.errors import UnavailableError
from paddock.paths import within
from paddock.wire.binary import filter_path, supervisor_path

_PID = re.compile(rb"paddock-launch: pid: (\d+)\n")
_MOST_WORDS = 16 << 10
_SECONDS_TO_SAY = 5.0
FILTERS = ("allow", "refuse")


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
            for pid in (*children(self._pid), self._pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, 9)  # our child, and not waited for yet; or its child, which it has not waited for

    def see_off(self) -> None:
        """Wait until it has ended, which it is about to; if it does not, end it."""
        for _ in range(2):
            deadline = time.monotonic() + _SECONDS_TO_SAY
            while self.poll() is None and time.monotonic() < deadline:
                time.sleep(0.001)
            self.kill()

    @property
    def pid(self) -> int:
        """Its number on this host. Before the sandbox has spoken it may be that of the launcher, which ends at once."""
        self._read()
        return self._pid or self._started.pid

    def let_go(self) -> None:
        """It goes on without us. Once it has ended, it is collected when another one is started or let go."""
        self.settle()
        self._close()
        self._started.returncode = 0  # or Python would complain that it still runs
        _let_go.add(self._pid)

    def settle(self) -> None:
        """From now on `pid` is its own: the launcher has said the number, which is the last thing it does."""
        if self._pid != self._started.pid:
            with suppress(subprocess.TimeoutExpired):
                self._started.wait(_SECONDS_TO_SAY)
            self._read()
        if not self._pid:
            raise UnavailableError("The sandbox cannot be started: its launcher says nothing.", hint="Try again.")

    def last_words(self) -> str:
        """What it said on its standard error."""
        self._read()
        return self._words.decode("utf-8", "replace")

    def _ended(self) -> int | None:
        launcher = self._started.poll()
        self._read()  # after that: if the launcher has ended, its last words are here
        if self._pid == self._started.pid:
            return launcher
        if not self._pid:
            return None if launcher is None else launcher or 1  # it failed before there was another
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
        if not self._pid and (match := _PID.search(self._words)):
            self._pid = int(match[1])

    def _close(self) -> None:
        if self._words_fd >= 0:
            os.close(self._words_fd)
            self._words_fd = -1


_let_go: set[int] = set()


def collect() -> None:
    """Those that were let go and have ended are no children of ours any more."""
    for pid in list(_let_go):
        try:
            ended = os.waitpid(pid, os.WNOHANG)[0] != 0
        except ChildProcessError:  # a forked child has none of its parent's, and somebody else may wait for all of ours
            ended = True
        if ended:
            _let_go.discard(pid)


def children(pid: int) -> list[int]:
    """The processes that this one has started."""
    with suppress(OSError), open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]
    return []


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


def start(command: Command, group: Group) -> Process:
    """Start it, told everything. What is wrong with it shows when it does not speak."""
    _add_filters(command)
    command.inherited.append(os.memfd_create("options", os.MFD_CLOEXEC))
    with open(command.inherited[-1], "wb", closefd=False) as file:
        file.write(_order(command))
    os.lseek(command.inherited[-1], 0, os.SEEK_SET)
    return _started(command, group, command.inherited[-1], ours=False)


def start_early(command: Command, group: Group, meanwhile: Callable[[], object]) -> Process:
    """The same for one that ends if we are killed on the way.

    bubblewrap takes its time to begin, and then waits to be told what to build: that is when `meanwhile` has returned.
    """
    _add_filters(command)
    telling, told = socket.socketpair()
    with telling:
        with told:
            process = _started(command, group, told.fileno(), ours=True)
        try:
            meanwhile()
        except BaseException:
            telling.close()  # told nothing, it finds nothing to run
            process.see_off()
            raise
        with suppress(OSError):  # it has ended, and why shows elsewhere
            telling.sendall(_order(command))
            telling.shutdown(socket.SHUT_WR)  # closing it would not do: a child that was just forked has it too
    return process


def _add_filters(command: Command) -> None:
    for name in FILTERS:
        command.inherited.append(os.open(filter_path(name), os.O_RDONLY | os.O_CLOEXEC))
        command.order.add("--add-seccomp-fd", str(command.inherited[-1]))


def _order(command: Command) -> bytes:
    return _packed(os.fsencode("\0".join(command.order.words)).split(b"\0"))


def _packed(words: list[bytes]) -> bytes:
    """The words as bubblewrap reads them, each with a NUL at its end."""
    return b"\0".join((*words, b""))


def _started(command: Command, group: Group, order: int, *, ours: bool) -> Process:
    """One of ours waits to be told; one that is detached knows all. A session of its own takes the kernel longer."""
    program, environment = _program(command)
    words = [program, "--args", str(order), "--", SUPERVISOR, *command.options]
    launcher = _launcher(command, group, ["--after", str(order)] if ours else [])
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        started = in_lasting_thread(
            lambda: subprocess.Popen(
                [*launcher, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=writing,
                pass_fds=[*_passed(command), order],
                env=environment,
                cwd="/",
                process_group=0 if ours else None,  # Ctrl-C and the end of a terminal are for this process to handle
                start_new_session=not ours,  # what is not ours has nothing to do with our terminal
            )
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return Process(started, reading, born=group.directory is not None)


def _passed(command: Command) -> list[int]:
    order = command.order
    return [
        *command.inherited,
        *order.passed,
        *(shown for shown, _, _ in order.shown if isinstance(shown, int)),
        *order.layers.values(),
    ]


def _program(command: Command) -> tuple[str, dict[str, str]]:
    """Where bubblewrap is for whoever runs it, and what it needs in its environment: nothing, as a rule."""
    bubblewrap = command.bubblewrap
    if command.identity.ours or bubblewrap.libraries is None:
        return bubblewrap.path, {}
    libraries = command.order.source(bubblewrap.libraries)
    return command.order.source(bubblewrap.path), {"LD_LIBRARY_PATH": libraries}


def _launcher(command: Command, group: Group, after: list[str]) -> list[str]:
    """What comes before bubblewrap, if anything has to. Its descriptors are the command's."""
    identity = command.identity
    if identity.ours and group.directory is None and not group.joined and not command.order.layers:
        return []
    words = [supervisor_path(), "launch"]
    if not identity.ours:
        words += ["--user", str(identity.uid), str(identity.gid), *after]
        kept = _kept(command)
        words += [word for path in kept for word in ("--keep", path)]
        words += lean.words(kept, command.inherited)
    for number, entry in enumerate(command.order.shown):
        layer = command.order.layers.get(number)
        words += ["--show"] if layer is None else ["--layer", str(layer)]
        words += map(str, entry)
    if group.directory is not None:
        command.inherited.append(os.open(group.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        words += ["--cgroup", str(command.inherited[-1])]
    for path in group.joined:
        command.inherited.append(os.open(os.path.join(path, "cgroup.procs"), os.O_WRONLY | os.O_CLOEXEC))
        words += ["--join", str(command.inherited[-1])]
    return [*words, "--"]


def _kept(command: Command) -> tuple[str, ...]:
    """The mounts of this host that bubblewrap needs besides what is shown to it; none, if that cannot be said."""
    kept, bubblewrap = system.kept(), command.bubblewrap
    shown = bubblewrap.libraries is not None
    return kept if shown or any(within(bubblewrap.path, path) for path in kept) else ()
