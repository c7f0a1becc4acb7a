"""Descriptors that the kernel takes no more of: it counts those on their way for each user, in all sandboxes together."""

import errno
import os
import shutil
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import pytest

from paddock.wire.channel import root_payload
from paddock.wire.fields import pack_text
from paddock.wire.frames import Reply, Request, SpawnFlag
from supervisor.host import program_in
from supervisor.listening import Connection, Listening, eventually

USER = None if os.geteuid() else 65532
"""Nobody else's, or they would hear of it; and not root, whom the kernel lets send as many as it likes."""
MOST = 64
"""What the supervisor may have open, by which the kernel judges how many may be on their way."""
WITH_FEW = """#!/bin/sh
ulimit -n {}
exec {} "$@"
"""


@pytest.fixture
def supervisor() -> Iterator[Listening]:
    directory = Path(mkdtemp(prefix="paddock-test-"))
    directory.chmod(0o755)
    program = directory / "few"
    program.write_text(WITH_FEW.format(MOST, program_in(directory)))
    program.chmod(0o755)
    with Listening(program=program, user=USER) as listening:
        yield listening
    shutil.rmtree(directory)


@contextmanager
def port() -> Iterator[int]:
    """One that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as listening:
        yield listening.getsockname()[1]


def ask_for(host: Connection, what: str, port: int) -> tuple[Reply, int]:
    """Something that comes with a descriptor: what the answer will be, and its number."""
    if what == "terminal":
        flags = SpawnFlag.PTY | SpawnFlag.DESCRIPTORS
        return Reply.STARTED, host.spawn(["/bin/sh", "-c", "read line"], flags=flags)
    id = host.new_id()
    if what == "directory":
        host.send(Request.ROOT, id, root_payload("/"))
        return Reply.OK, id
    host.send(Request.CONNECT, id, pack_text(b"") + struct.pack("<HBI", port, 1, 0))
    return Reply.CONNECTED, id


def comes(host: Connection, what: str, port: int) -> bool:
    """Whether it does; else the supervisor has said why not."""
    type_, id = ask_for(host, what, port)
    try:
        (fd,) = host.wait(type_, id).fds
    except OSError as error:
        if error.errno != errno.ETOOMANYREFS:
            raise
        return False
    os.close(fd)
    return True


@pytest.mark.parametrize("what", ["terminal", "directory", "connection"])
def test_too_many_on_their_way(supervisor: Listening, what: str) -> None:
    """What would have brought one fails, and nothing else does; not even what was sent at the same time."""
    with port() as number, supervisor.connect() as other:
        with supervisor.connect() as hungry:
            assert comes(other, what, number)
            while comes(other, what, number):
                for _ in range(10):  # none of which is received
                    ask_for(hungry, "connection", number)
            asked = [ask_for(other, kind, number) for kind in ("directory", "connection", what) for _ in range(3)]
            for type_, id in asked:
                with pytest.raises(OSError, match=os.strerror(errno.ETOOMANYREFS)):
                    other.wait(type_, id)
            assert other.works()
        assert eventually(lambda: comes(other, what, number))
