"""`paddock-bridge SOCKET`: a program's standard streams, led to a Unix socket."""

import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from wire.building import Sanitized

USAGE = "usage: paddock-bridge SOCKET"
LARGE = bytes(range(256)) * (32 << 10)  # 8 MiB: more than any buffer on the way
SECONDS = 30


@pytest.fixture
def bridge(sanitized: Sanitized, tmp_path: Path) -> Iterator[Path]:
    link = tmp_path / "paddock-bridge"
    link.symlink_to(sanitized.program)
    with sanitized.clean():
        yield link


@pytest.fixture
def server(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as server:
        server.settimeout(SECONDS)
        server.bind(str(tmp_path / "socket"))
        server.listen()
        yield server


class Bridged:
    """A bridge that runs, and the other end of its connection."""

    def __init__(self, bridge: Path, server: socket.socket) -> None:
        words = [str(bridge), server.getsockname()]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.other = server.accept()[0]
        self.other.settimeout(SECONDS)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def __enter__(self) -> "Bridged":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.stdin.close()
        self.stdout.close()
        self.other.close()


def _read_all(sock: socket.socket, into: bytearray) -> None:
    while data := sock.recv(1 << 16):
        into += data


def test_another_side_that_reads_no_more_until_it_was_heard(bridge: Path, server: socket.socket) -> None:
    """As the bridge of a sandbox does, whose answers are to be taken before it hears more questions."""
    with Bridged(bridge, server) as bridged:
        asking = threading.Thread(target=_write_all, args=(bridged.stdin, LARGE), daemon=True)
        asking.start()
        asking.join(0.3)  # nothing more goes in
        answering = threading.Thread(target=bridged.other.sendall, args=(LARGE,), daemon=True)
        answering.start()
        got = bytearray()
        while len(got) < len(LARGE):
            ready, _, _ = select.select([bridged.stdout], [], [], SECONDS)
            assert ready
            got += os.read(bridged.stdout.fileno(), 1 << 16)
        answering.join(SECONDS)
        heard = bytearray()
        while len(heard) < len(LARGE):
            heard += bridged.other.recv(1 << 16)
        assert (bytes(got) == LARGE, bytes(heard) == LARGE) == (True, True)
        asking.join(SECONDS)


def test_an_output_that_does_not_wait(bridge: Path, server: socket.socket) -> None:
    """Whoever has it too may have made it so."""
    out, into = os.pipe()
    os.set_blocking(into, False)
    process = subprocess.Popen([str(bridge), server.getsockname()], stdin=subprocess.DEVNULL, stdout=into)
    os.close(into)
    other = server.accept()[0]
    with other, open(out, "rb") as stdout:
        sending = threading.Thread(target=other.sendall, args=(LARGE,), daemon=True)
        sending.start()
        sending.join(0.3)  # it is full
        assert stdout.read(len(LARGE)) == LARGE
        other.shutdown(socket.SHUT_WR)
        assert process.wait(SECONDS) == 0


def test_much_both_ways_at_once(bridge: Path, server: socket.socket) -> None:
    with Bridged(bridge, server) as bridged:
        got = bytearray()
        reading = threading.Thread(target=_read_all, args=(bridged.other, got))
        sending = threading.Thread(target=bridged.other.sendall, args=(LARGE,))
        writing = threading.Thread(target=_write_all, args=(bridged.stdin, LARGE))
        for thread in (reading, sending, writing):
            thread.start()
        answer = b""
        while len(answer) < len(LARGE):
            answer += os.read(bridged.stdout.fileno(), 1 << 16)
        for thread in (reading, sending, writing):
            thread.join(SECONDS)
        bridged.other.close()
        assert bridged.process.wait(SECONDS) == 0
        assert (bytes(got) == LARGE, answer == LARGE) == (True, True)


def _write_all(to: IO[bytes], data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(to.fileno(), view) :]
    to.close()


def test_answers_still_come_after_the_end_of_input(bridge: Path, server: socket.socket) -> None:
    with Bridged(bridge, server) as bridged:
        bridged.stdin.write(b"question")
        bridged.stdin.close()
        asked = bytearray()
        _read_all(bridged.other, asked)
        assert asked == b"question"
        assert bridged.process.poll() is None
        bridged.other.sendall(b"answer")
        assert bridged.stdout.read(6) == b"answer"
        bridged.other.close()
        assert bridged.stdout.read() == b""
        assert bridged.process.wait(SECONDS) == 0


def test_it_ends_with_the_socket(bridge: Path, server: socket.socket) -> None:
    """Even while its input stays open."""
    with Bridged(bridge, server) as bridged:
        bridged.other.sendall(b"bye")
        bridged.other.close()
        assert bridged.stdout.read() == b"bye"
        assert bridged.process.wait(SECONDS) == 0


def test_nobody_reads_what_it_prints(bridge: Path, server: socket.socket) -> None:
    with Bridged(bridge, server) as bridged:
        bridged.stdout.close()
        bridged.other.sendall(b"x")
        assert bridged.process.wait(SECONDS) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it(bridge: Path, server: socket.socket, number: signal.Signals) -> None:
    with Bridged(bridge, server) as bridged:
        bridged.other.sendall(b"x")
        assert bridged.stdout.read(1) == b"x"
        bridged.process.send_signal(number)
        assert bridged.process.wait(SECONDS) == -number


@pytest.mark.parametrize("words", [(), ("",), ("--help",), ("a", "b")])
def test_wrong_usage(bridge: Path, words: tuple[str, ...]) -> None:
    done = subprocess.run([bridge, *words], capture_output=True, text=True, timeout=SECONDS)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(USAGE)


@pytest.mark.parametrize(("name", "words"), [("missing", "No such file"), ("x" * 200, "File name too long")])
def test_a_socket_that_is_not_there(bridge: Path, tmp_path: Path, name: str, words: str) -> None:
    done = subprocess.run([bridge, tmp_path / name], capture_output=True, text=True, timeout=SECONDS)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"paddock-bridge: {tmp_path / name}: {words}")


def test_nobody_listens(bridge: Path, server: socket.socket) -> None:
    path = server.getsockname()
    server.close()
    done = subprocess.run([bridge, path], capture_output=True, text=True, timeout=SECONDS)
    assert (done.returncode, done.stderr) == (1, f"paddock-bridge: {path}: Connection refused\n")


def test_by_its_other_name(sanitized: Sanitized, server: socket.socket) -> None:
    words = [sanitized.program, "bridge", server.getsockname()]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        other, _ = server.accept()
        other.sendall(b"hello")
        other.close()
        assert process.communicate(timeout=SECONDS)[0] == b"hello"
        assert process.returncode == 0
