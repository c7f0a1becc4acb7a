"""A real supervisor over its standard streams, and blocking calls on it."""

import ctypes
import errno
import os
import struct
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from types import TracebackType
from typing import Self

from paddock.paths import encode as encode_path
from paddock.wire.binary import supervisor_path
from paddock.wire.calls import Answer, wait
from paddock.wire.dir import WireDir
from paddock.wire.fields import pack_text, pack_u16, pack_u32
from paddock.wire.frames import Decoder, Frame, Reply, Request, encode

LISTS = (Reply.ENTRIES, Reply.WATCHED)
OPENAT2, RENAMEAT2 = 437, {"x86_64": 316, "aarch64": 276}[os.uname().machine]
PROGRAM = supervisor_path()


class Supervised:
    """`paddock-init` and a thread that reads what it says. `refuse` are system calls that its kernel does not have."""

    def __init__(self, *, program: str = PROGRAM, refuse: Sequence[int] = (), user: int | None = None) -> None:
        self.process = _start(program, refuse, user)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdin, self._stdout = self.process.stdin, self.process.stdout
        self._ids = count(1)
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._answers: dict[int, tuple[Answer, list[Frame]]] = {}
        self._heard: dict[int, Callable[[bytes | None], None]] = {}
        self._ended = False
        self.last_words = b""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        wait(self.send([Frame(Request.HELLO, self.new_id(), pack_u16(1) + pack_u32(0))])[0], Reply.HELLO)

    def root(self, path: str) -> WireDir:
        number = self.new_id()
        wait(self.send([Frame(Request.ROOT, number, pack_text(encode_path(path)))])[0], Reply.OK)
        return WireDir(self, number)

    def new_id(self) -> int:
        return next(self._ids)

    def send(self, requests: Sequence[Frame]) -> list[Answer]:
        answers: list[Answer] = [Future() for _ in requests]
        with self._lock:
            if self._ended:
                raise _gone()
            for request, answer in zip(requests, answers, strict=True):
                self._answers[request.id] = (answer, [])
        data = memoryview(b"".join(encode(frame.type, frame.id, frame.payload) for frame in requests))
        with self._sending:
            try:
                while data:
                    data = data[os.write(self._stdin.fileno(), data) :]
            except (OSError, ValueError):
                pass  # the thread that reads notices
        return answers

    def listen(self, id: int, heard: Callable[[bytes | None], None]) -> None:
        with self._lock:
            self._heard[id] = heard

    def unlisten(self, id: int) -> None:
        with self._lock:
            self._heard.pop(id, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stdin.close()
        status = self.process.wait(20)
        self._thread.join()
        self._stdout.close()
        assert status in (0, -9)

    def _run(self) -> None:
        decoder = Decoder()
        while data := os.read(self._stdout.fileno(), 1 << 18):
            for frame in decoder.feed(data):
                self._take(frame)
        with self._lock:
            self._ended = True
            left, listeners = list(self._answers.values()), list(self._heard.values())
        for answer, _ in left:
            answer.set_exception(_gone())
        for heard in listeners:
            heard(None)

    def _take(self, frame: Frame) -> None:
        if frame.type == Reply.ERROR:
            self.last_words = frame.payload
            return
        if frame.type == Reply.CHANGED:
            heard = self._heard.get(frame.id)
            if heard is not None:
                heard(frame.payload)
            return
        answer, frames = self._answers[frame.id]
        frames.append(frame)
        if not (frame.type in LISTS and frame.payload[0]):
            del self._answers[frame.id]
            answer.set_result(frames)


def _gone() -> OSError:
    return OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))


def _start(program: str, refuse: Sequence[int], user: int | None) -> subprocess.Popen[bytes]:
    """From a thread that ends with it, since a filter is a thread's own. To fork with a function to call takes far longer."""

    def start() -> subprocess.Popen[bytes]:
        if refuse:
            _refuse(refuse)
        pipe = subprocess.PIPE
        return subprocess.Popen([program, "--stdio"], stdin=pipe, stdout=pipe, bufsize=0, user=user)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(start).result()


def _refuse(calls: Sequence[int]) -> None:
    """A seccomp filter under which these system calls are ENOSYS, as on an old kernel."""
    program = [struct.pack("HBBI", 0x20, 0, 0, 0)]  # the call's number
    for call in calls:
        program.append(struct.pack("HBBI", 0x15, 0, 1, call))
        program.append(struct.pack("HBBI", 0x06, 0, 0, 0x00050000 | errno.ENOSYS))
    program.append(struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000))
    code = ctypes.create_string_buffer(b"".join(program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, header):
        raise OSError(ctypes.get_errno(), "no filter")
