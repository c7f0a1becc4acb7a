"""Hosts that speak the protocol by hand, to a supervisor that may run as somebody else."""

import os
import select
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from paddock.wire.binary import supervisor_path
from paddock.wire.channel import root_payload
from paddock.wire.fields import Fields, pack_text, pack_texts
from paddock.wire.frames import MAX_DESCRIPTORS, VERSION, Decoder, Frame, Reply, Request, encode

NOBODY = 65534
_PATIENCE = 30.0
_ROOT = 1


class Conversation:
    """A host's side of a channel. Frames are kept until somebody asks for them."""

    def __init__(self, input: socket.socket, output: socket.socket) -> None:
        self.input, self.output = input, output
        self._decoder = Decoder()
        self._frames: list[Frame] = []
        self._id = _ROOT

    def greet(self) -> Frame:
        """Say hello, and make the root directory of this machine a root; what it says of itself."""
        self.send(Request.HELLO, 0, struct.pack("<HI", VERSION, 0))
        hello = self.wait(Reply.HELLO, 0)
        self.send(Request.ROOT, _ROOT, root_payload("/"))
        for handle in self.wait(Reply.OK, _ROOT).fds:
            os.close(handle)
        return hello

    def hang_up(self) -> None:
        """End the conversation."""
        self.input.close()
        self.output.close()

    def new_id(self) -> int:
        """A number for one more command."""
        self._id += 1
        return self._id

    def send(self, type: int, id: int, payload: bytes = b"", fds: Sequence[int] = ()) -> None:
        """One frame."""
        data = encode(type, id, payload, len(fds))
        if fds:
            socket.send_fds(self.input, [data], fds)
        else:
            self.input.sendall(data)

    def spawn(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        *,
        flags: int = 0,
        window: int = 1 << 20,
        keep: int = 0,
        fds: Sequence[int] = (),
    ) -> int:
        """Start a command in the root directory of this machine; its number."""
        id = self.new_id()
        head = struct.pack("<HHHIII", flags, 24, 80, window, keep, _ROOT) + pack_text(b"")
        environment = [f"{name}={value}".encode() for name, value in (env or {}).items()]
        words = pack_texts([word.encode() for word in argv])
        self.send(Request.SPAWN, id, head + words + pack_texts(environment), fds)
        return id

    def attach(self, pid: int, window: int = 1 << 20) -> int:
        """Attach to a command; its number from now on."""
        id = self.new_id()
        self.send(Request.ATTACH, id, struct.pack("<II", pid, window))
        return id

    def pid(self, id: int) -> int:
        """The pid of a command that has just started."""
        return Fields(self.wait(Reply.STARTED, id).payload).u32()

    def kill(self, id: int) -> float:
        """End a command and wait until it is gone; how many seconds that took."""
        begin = time.monotonic()
        self.send(Request.KILL, id)
        self.wait(Reply.GONE, id)
        return time.monotonic() - begin

    def wait(self, type: int, id: int, seconds: float = _PATIENCE) -> Frame:
        """The next frame of this type and number, or `OSError` if it failed; others are kept."""
        deadline = time.monotonic() + seconds
        while True:
            for at, frame in enumerate(self._frames):
                if frame.id != id or frame.type not in (type, Reply.FAILED):
                    continue
                del self._frames[at]
                if frame.type == type:
                    return frame
                error = Fields(frame.payload).u32()
                raise OSError(error, os.strerror(error))
            self._receive(max(0.0, deadline - time.monotonic()))

    def printed(self, id: int, size: int) -> bytes:
        """So many bytes of standard output, or more."""
        found = b""
        while len(found) < size:
            found += self.wait(Reply.OUTPUT, id).payload[1:]
        return found

    def quiet(self, type: int, id: int, seconds: float = 0.3) -> bool:
        """Whether no such frame comes for a while."""
        try:
            self.wait(type, id, seconds)
        except TimeoutError:
            return True
        return False

    def _receive(self, seconds: float) -> None:
        if not select.select([self.output], [], [], seconds)[0]:
            raise TimeoutError("the supervisor did not answer")
        try:
            data, fds, _, _ = socket.recv_fds(self.output, 1 << 20, MAX_DESCRIPTORS)
        except ConnectionResetError:  # it did not read all that was sent
            data, fds = b"", []
        if not data:
            raise EOFError("the supervisor has hung up")
        self._frames += self._decoder.feed(data, fds)

    def last_words(self) -> list[Frame]:
        """All that comes until the supervisor hangs up."""
        with suppress(EOFError):
            while True:
                self._receive(_PATIENCE)
        return self._frames


class Host(Conversation):
    """One supervisor and its only channel."""

    def __init__(
        self,
        *options: str,
        directory: Path,
        user: int | None = None,
        before: Sequence[str] = (),
        pass_fds: Sequence[int] = (),
    ) -> None:
        input, stdin = socket.socketpair()
        output, stdout = socket.socketpair()
        with stdin, stdout:
            self.process = subprocess.Popen(
                [*before, program_in(directory), "--stdio", *options],
                stdin=stdin.fileno(),
                stdout=stdout.fileno(),
                user=user,
                group=user,
                extra_groups=None if user is None else [],
                env={},
                cwd="/",
                pass_fds=pass_fds,
            )
        super().__init__(input, output)
        try:
            self.hello = self.greet()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Host":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> int:
        """Hang up, and wait for the supervisor; its status."""
        self.hang_up()
        try:
            return self.process.wait(_PATIENCE)
        finally:
            self.process.kill()


def exit_code(frame: Frame) -> int:
    """The exit code in an `ENDED`."""
    fields = Fields(frame.payload)
    fields.u32()
    return fields.u32()


def program_in(directory: Path) -> str:
    """The supervisor where everybody may run it."""
    path = directory / "paddock-init"
    if not path.exists():
        shutil.copy(supervisor_path(), path)
        path.chmod(0o755)
    return os.fspath(path)
