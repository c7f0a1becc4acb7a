"""A supervisor that hosts connect to and leave again."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import Self

from paddock.wire.binary import supervisor_path
from paddock.wire.fields import Fields
from paddock.wire.frames import Reply, Request, SpawnFlag
from supervisor.host import Conversation, exit_code

PATIENCE = 30.0


class Connection(Conversation):
    """One host of several. Unless told otherwise it says hello."""

    def __init__(self, sock: socket.socket, *, hello: bool = True) -> None:
        super().__init__(sock, sock)
        if hello:
            self.greet()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()

    def background(
        self, script: str, env: Mapping[str, str] | None = None, *, flags: int = 0, keep: int = 1 << 16
    ) -> tuple[int, int]:
        """A shell script in the background; its number and its pid."""
        id = self.spawn(["/bin/sh", "-c", script], env, flags=flags, keep=keep)
        return id, self.pid(id)

    def foreground(self, script: str, env: Mapping[str, str] | None = None) -> int:
        """A shell script that somebody waits for; its number."""
        return self.spawn(["/bin/sh", "-c", script], env, flags=SpawnFlag.QUIET)

    def ended(self, id: int) -> int:
        """The exit code of a command, when it has ended."""
        return exit_code(self.wait(Reply.ENDED, id))

    def processes(self) -> dict[int, int]:
        """The numbers of the commands that are listed and run, by their pids."""
        id = self.new_id()
        self.send(Request.PROCESSES, id)
        fields = Fields(self.wait(Reply.PROCESSES, id).payload)
        fields.u8()
        found = {}
        for _ in range(fields.u32()):
            number, pid, flags, _, _ = fields.u32(), fields.u32(), fields.u16(), fields.u64(), fields.texts()
            if not flags & 16:
                found[pid] = number
        return found

    def works(self) -> bool:
        """Whether a command runs as it should."""
        id = self.foreground("echo word; exit 7")
        return self.printed(id, 5) == b"word\n" and self.ended(id) == 7


class Listening:
    """A supervisor with a socket. At the end it is ended, if it has not done so itself."""

    def __init__(
        self, *options: str, program: Path | None = None, inherited: tuple[int, ...] = (), user: int | None = None
    ) -> None:
        self._directory = Path(mkdtemp(prefix="pr-"))  # a test's own path may be too long for a socket
        self.path = self._directory / "socket"
        self.status = 0
        """How it has to have ended."""
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(os.fspath(self.path))
            listening.listen(128)
            fd = listening.fileno()
            self.process = subprocess.Popen(
                [program or supervisor_path(), "--listen", str(fd), *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[fd, *inherited],
                user=user,
                group=user,
                extra_groups=None if user is None else [],
                env={},
                cwd="/",
                start_new_session=True,
            )

    def connect(self, *, hello: bool = True) -> Connection:
        """One more host."""
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(os.fspath(self.path))
        return Connection(sock, hello=hello)

    def wait(self) -> int:
        """How it ended, when it has."""
        return self.process.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        try:
            assert self.wait() == self.status
        finally:
            self.process.kill()
            shutil.rmtree(self._directory)


def eventually(condition: Callable[[], object]) -> bool:
    """Whether it becomes true in time."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
