"""A conversation with a supervisor that runs, byte for byte."""

import os
import socket
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from paddock.wire.fields import pack_u16, pack_u32
from paddock.wire.frames import Decoder, Frame, Request, encode

HELLO = encode(Request.HELLO, 1, pack_u16(1) + pack_u32(0))
SECONDS = 20


class Talk:
    """Bytes in, frames out; over a socket or over standard streams. It says hello unless told not to."""

    def __init__(self, program: Path, *, sock: bool = False, before: Sequence[str] = (), hello: bool = True) -> None:
        self.status: int | None = None
        self._socket, self._data = sock, bytearray()
        ours, theirs = socket.socketpair()
        with theirs:
            words = ["--channel", str(theirs.fileno())] if sock else ["--stdio"]
            self.process = subprocess.Popen(
                [*before, program, *words],
                stdin=subprocess.DEVNULL if sock else theirs.fileno(),
                stdout=subprocess.DEVNULL if sock else theirs.fileno(),
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()] if sock else [],
                env={},
                start_new_session=True,
            )
        self._ours = ours
        ours.settimeout(SECONDS)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        if hello:
            self.send(HELLO)

    def send(self, data: bytes, fds: Sequence[int] = ()) -> None:
        """Send it all, unless the supervisor has ended."""
        try:
            if fds:
                socket.send_fds(self._ours, [data], fds)
            else:
                self._ours.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def finish(self) -> list[Frame]:
        """Say no more; all that it said."""
        self._ours.shutdown(socket.SHUT_WR)
        return self.read_to_end()

    def read_to_end(self) -> list[Frame]:
        """All that it said, when it has ended by itself."""
        self.status = self.process.wait(SECONDS)
        self._reader.join()
        frames = []
        for frame in Decoder().feed(bytes(self._data), self._fds):
            frames.append(frame)
            for fd in frame.fds:
                os.close(fd)
        return frames

    def _read(self) -> None:
        self._fds: list[int] = []
        try:
            while True:
                data, fds, _, _ = socket.recv_fds(self._ours, 1 << 18, 64)
                if not data:
                    return
                self._data += data
                self._fds += fds
        except OSError:
            pass  # reset: it did not read all that was sent

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        self._ours.close()
