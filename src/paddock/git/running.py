"""Programs of this host that the gate starts: by an absolute path, with nothing but what they need, bounded and ended."""

import os
import resource
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Self

from paddock.errors import GitError, UnavailableError
from paddock.git.stopping import Stop

PATH = "/usr/local/bin:/usr/bin:/bin"
"""What programs that are started here find others by."""
SYSTEM = PATH
MOST_OUTPUT = 8 << 20
MOST_WRITTEN = 2 << 30
"""Bytes of one file: a server that never stops sending fills no disk."""
_LOOK = 0.1
_DRAIN = 1.0
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Done:
    """How a program ended."""

    code: int
    out: bytes
    err: bytes


def program(name: str, hint: str) -> str:
    """Where a program is: the system's own comes first, whatever a project's directory in the search path has to offer."""
    search = [*SYSTEM.split(os.pathsep), *os.environ.get("PATH", "").split(os.pathsep)]
    found = shutil.which(name, path=os.pathsep.join(entry for entry in search if os.path.isabs(entry)))
    if found is None:
        raise UnavailableError(f"The program {name} is not installed.", hint=hint)
    return found


def run(
    argv: Sequence[str],
    environment: Mapping[str, str],
    *,
    cwd: str,
    seconds: float,
    stop: Stop,
    inherited: Iterable[int] = (),
) -> Done:
    """Run it to its end. One that takes too long, says too much, or is not wanted any more is ended with all it started."""
    child = subprocess.Popen(
        list(argv),
        env=dict(environment),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=tuple(inherited),
        start_new_session=True,
    )
    try:
        _limit(child.pid)
        with _Output(child) as output:
            try:
                _follow(child, output, time.monotonic() + seconds, stop, os.path.basename(argv[0]))
            finally:
                _end(child)
            output.drain()
            return Done(child.returncode, *output.said())
    finally:
        _end(child)


def _limit(pid: int) -> None:
    if hasattr(resource, "prlimit"):  # not on every system
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (MOST_WRITTEN, MOST_WRITTEN))
            resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))


def _follow(child: "subprocess.Popen[bytes]", output: "_Output", deadline: float, stop: Stop, name: str) -> None:
    while not _has_ended(child):
        output.read(_LOOK)
        if stop():
            raise GitError(f"{name} was stopped.", hint="Try again.", operation="run")
        if time.monotonic() > deadline:
            raise GitError(
                f"{name} took too long and was ended.", hint="Try again, with a larger timeout.", operation="run"
            )
        if output.size > MOST_OUTPUT:
            raise GitError(f"{name} said more than can be kept.", hint="Look at the repository.", operation="run")


def _has_ended(child: "subprocess.Popen[bytes]") -> bool:
    """Where that can be asked, it is not waited for here, so its number is still its own."""
    if not hasattr(os, "waitid"):
        return child.poll() is not None
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(child: "subprocess.Popen[bytes]") -> None:
    """The whole group, and only then it is waited for."""
    if child.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


class _Output:
    """What a program says on both streams."""

    def __init__(self, child: "subprocess.Popen[bytes]") -> None:
        self._selector = selectors.DefaultSelector()
        self._said: dict[int, bytearray] = {}
        self._streams: list[IO[bytes]] = []
        for stream in (child.stdout, child.stderr):
            if stream is not None:
                self._streams.append(stream)
                self._said[stream.fileno()] = bytearray()
                self._selector.register(stream.fileno(), selectors.EVENT_READ)

    @property
    def size(self) -> int:
        """How much it was."""
        return sum(map(len, self._said.values()))

    def read(self, seconds: float) -> None:
        """Take what there is, or wait for it."""
        if not self._selector.get_map():
            time.sleep(seconds / 10)
            return
        for key, _ in self._selector.select(seconds):
            data = os.read(key.fd, _PIECE)
            self._said[key.fd] += data
            if not data:
                self._selector.unregister(key.fd)

    def drain(self) -> None:
        """What is left in the pipes; nobody who still holds one is waited for long."""
        deadline = time.monotonic() + _DRAIN
        while self._selector.get_map() and time.monotonic() < deadline and self.size <= MOST_OUTPUT:
            self.read(_LOOK)

    def said(self) -> tuple[bytes, bytes]:
        """Both, whole."""
        out, err = (bytes(self._said[stream.fileno()]) for stream in self._streams)
        return out, err

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        for stream in self._streams:
            stream.close()
