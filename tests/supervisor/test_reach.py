"""How a supervisor and its host come together where nothing but files can be given to it: it calls, or it serves."""

import os
import secrets
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from paddock.wire.binary import filter_path, supervisor_path
from paddock.wire.fields import pack_text
from paddock.wire.frames import VERSION, Reply, Request
from supervisor.host import Conversation
from supervisor.listening import Connection, eventually

PATIENCE = 30.0


@contextmanager
def started(*options: str, env: dict[str, str] | None = None) -> Iterator["subprocess.Popen[bytes]"]:
    """A supervisor; it is ended if it has not done so itself."""
    process = subprocess.Popen(
        [supervisor_path(), *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=env or {},
        cwd="/",
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            process.terminate()


@contextmanager
def waiting(tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """A host's socket, and its path."""
    path = os.path.relpath(tmp_path / "s", "/")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.getcwd()
        os.chdir("/")
        try:
            listening.bind(path)
        finally:
            os.chdir(here)
        listening.listen()
        listening.settimeout(PATIENCE)
        yield listening, f"/{path}"


def served(name: str) -> socket.socket:
    """Connected to an abstract socket, as soon as there is one."""

    def connected() -> bool:
        try:
            sock.connect(f"\0{name}")
        except ConnectionRefusedError:
            return False
        return True

    sock = socket.socket(socket.AF_UNIX)
    if not eventually(connected):
        sock.close()
        raise AssertionError("nobody listens")
    return sock


def say_hello(sock: socket.socket, secret: str) -> Conversation:
    """With a secret."""
    host = Conversation(sock, sock)
    host.send(Request.HELLO, 0, struct.pack("<HI", VERSION, 0) + pack_text(secret.encode()))
    return host


def test_it_calls_and_has_an_owner(tmp_path: Path) -> None:
    with waiting(tmp_path) as (listening, path), started("--call", path) as process:
        sock, _ = listening.accept()
        owner = os.pidfd_open(os.getpid())
        socket.send_fds(sock, [b"O"], [owner])
        os.close(owner)
        with Connection(sock) as host:
            assert host.works()
        assert process.wait(PATIENCE) == 0  # there was only this one


def test_it_calls_and_others_come(tmp_path: Path) -> None:
    with waiting(tmp_path) as (listening, path), started("--call", path) as process:
        sock, _ = listening.accept()
        with waiting(tmp_path.parent) as (theirs, public):
            socket.send_fds(sock, [b"L"], [theirs.fileno()])
            with Connection(sock) as host:
                assert host.works()
            again = socket.socket(socket.AF_UNIX)
            again.connect(public)
            with Connection(again) as host:
                assert host.works()
        assert process.poll() is None
        os.unlink(public)


@pytest.mark.parametrize("hand", [b"X", b"", b"without"])
def test_a_host_that_hands_nothing_over(tmp_path: Path, hand: bytes) -> None:
    with waiting(tmp_path) as (listening, path), started("--call", path) as process:
        sock, _ = listening.accept()
        with sock:
            if hand == b"X":
                socket.send_fds(sock, [hand], [0])
            elif hand:
                sock.sendall(hand)
        assert process.wait(PATIENCE) == 1


def test_it_serves_who_knows_the_secret(tmp_path: Path) -> None:
    name = f"paddock-test-{secrets.token_hex(4)}"
    options = ("--call", str(tmp_path / "nobody"), "--serve", f"@{name}")
    with started(*options, env={"PADDOCK_SECRET": "open sesame"}) as process:
        for wrong in ("open sesam", "open sesame!", ""):
            refused = say_hello(served(name), wrong)
            assert b"not this sandbox's secret" in b"".join(frame.payload for frame in refused.last_words())
            refused.hang_up()
        with Connection(served(name), hello=False) as host:  # none at all
            host.send(Request.HELLO, 0, struct.pack("<HI", VERSION, 0))
            host.last_words()
        right = say_hello(served(name), "open sesame")
        assert struct.unpack_from("<HI", right.wait(Reply.HELLO, 0).payload)[1] & 1 == 0  # no descriptors
        assert b"sesame" not in Path(f"/proc/{process.pid}/environ").read_bytes()
        right.hang_up()
        assert process.poll() is None


def test_it_serves_once() -> None:
    name = f"paddock-test-{secrets.token_hex(4)}"
    with started("--serve-once", f"@{name}", env={"PADDOCK_SECRET": "x"}) as process:
        host = say_hello(served(name), "x")
        host.wait(Reply.HELLO, 0)
        assert eventually(lambda: _refused(name))  # a process that has just been forked may hold it for a moment
        host.hang_up()
        assert process.wait(PATIENCE) == 0


def _refused(name: str) -> bool:
    with socket.socket(socket.AF_UNIX) as another:
        try:
            another.connect(f"\0{name}")
        except ConnectionRefusedError:
            return True
    return False


def test_nobody_is_served_without_a_secret() -> None:
    with started("--serve", "@paddock-test-open") as process:
        assert process.wait(PATIENCE) == 1


def test_it_confines_itself() -> None:
    name = f"paddock-test-{secrets.token_hex(4)}"
    confined = [word for part in ("allow", "refuse") for word in ("--confine", filter_path(part))]
    options = ("--serve-once", f"@{name}", *confined, "--filter", filter_path("commands"))
    with started(*options, env={"PADDOCK_SECRET": "x"}) as process:
        host = say_hello(served(name), "x")
        host.wait(Reply.HELLO, 0)
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert "Seccomp:\t2" in status
        assert "NoNewPrivs:\t1" in status
        host.hang_up()
        assert process.wait(PATIENCE) == 0


def test_a_filter_that_is_not_there() -> None:
    with started("--serve-once", "@x", "--confine", "/nothing", env={"PADDOCK_SECRET": "x"}) as process:
        assert process.wait(PATIENCE) == 1
